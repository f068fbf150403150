"""The kernels that a region's operators could become, and what each would cost."""
