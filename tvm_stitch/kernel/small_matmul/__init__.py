"""Small matrix products inside of stitched kernels."""
