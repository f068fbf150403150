"""PyTorch's graphs in, Relax out."""

from tvm_stitch.frontend.torch.convert import Converted, convert, operator_name, refusal

__all__ = ["Converted", "convert", "operator_name", "refusal"]
