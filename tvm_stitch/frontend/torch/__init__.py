"""PyTorch's graphs in, Relax out."""

from tvm_stitch.frontend.torch.convert import Converted, convert, operator_name, refusal
from tvm_stitch.frontend.torch.load import load

__all__ = ["Converted", "convert", "load", "operator_name", "refusal"]
