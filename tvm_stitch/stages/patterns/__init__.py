"""Stages of a form that has kernels of its own, told by their value alone."""
