"""Matrix products of many shapes: by the library, by this package's kernels, and as planned."""
