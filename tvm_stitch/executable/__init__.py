"""From a lowered module to an executable: CUDA and host code, compiled side by side."""
