"""Kernels whose threads share rows, a warp to a cluster of blocks for each; element-wise ones."""
