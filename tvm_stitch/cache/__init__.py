"""What is kept on disk for the next time: lowered modules, kernels, the executor's objects."""
