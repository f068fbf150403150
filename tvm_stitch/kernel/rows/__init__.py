"""Kernels whose threads share rows, from one thread to a cluster of blocks for each."""
