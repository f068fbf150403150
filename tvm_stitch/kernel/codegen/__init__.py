"""TIR for CUDA, whatever is computed: statements, threads, reductions, the last check."""
