"""Bytes of tensors, those of symbolic dimensions too."""

from __future__ import annotations

from tvm_stitch.kernel.cost_model.kernel_model import tensor_bytes
from tvm_stitch.kernel.ir.stage import Var


def nominal_bytes(buffer: Var) -> int:
    """Bytes of a tensor, with nominal extents for symbolic dimensions."""
    return tensor_bytes(buffer)
