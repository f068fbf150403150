"""PyTorch models as people have them: eager, torch.compile, and backend="tvm_stitch"."""
