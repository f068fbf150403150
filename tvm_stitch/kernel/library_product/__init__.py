"""Matrix products by cuBLASLt, with what it can end with: kernels beside this package's own."""
