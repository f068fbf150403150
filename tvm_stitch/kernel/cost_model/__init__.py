"""What kernels cost: ours by their schedule, TVM's by DLight's rules."""
