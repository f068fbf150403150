"""Mends the module once its kernels are there: views, workspaces, order of blocks, calls."""
