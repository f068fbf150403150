"""PyTorch's own operator database against the backend of torch.compile.

`python -m tests.outside.torch_ops --report FILE` runs it; test_torch_ops.py runs a part in CI.
"""
