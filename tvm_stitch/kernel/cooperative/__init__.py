"""Kernels whose blocks are all resident and meet at grid barriers: column sums, rounds."""
