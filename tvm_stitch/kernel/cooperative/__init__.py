"""Kernels whose blocks are all resident and synchronise at grid barriers: column sums, rounds."""
