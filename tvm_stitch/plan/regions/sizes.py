"""Bytes of tensors, those of symbolic dimensions too."""

from __future__ import annotations

from tvm_stitch.kernel.ir.extents import NOMINAL
from tvm_stitch.kernel.ir.stage import Var, buffer_shape, dtype_of, item_bytes, product


def nominal_bytes(buffer: Var) -> int:
    """Bytes of a tensor, with nominal extents for symbolic dimensions."""
    return NOMINAL.size(product(buffer_shape(buffer))) * item_bytes(dtype_of(buffer))
