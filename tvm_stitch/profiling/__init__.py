"""What a model really costs: its kernels measured on a GPU, or counted by the CPU executor."""
