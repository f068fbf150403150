"""Larger matrix products of halves on tensor cores, each a kernel with its epilogue."""
