"""Operators that give what they get: PyTorch's exporter broadcasts every operand of a product.

Alone in front of a large matrix product, such an operator would be a kernel that copies.
"""

from __future__ import annotations

import tvm_ffi
from tvm.ir import Call

from tvm_stitch.graph.decompose.stages import has_shape

_CANDIDATES = frozenset({"relax.broadcast_to", "relax.reshape", "relax.astype"})


def changes_nothing(call: Call) -> bool:
    """Whether the result has the shape and the dtype of the operand, and so its elements."""
    if call.op.name not in _CANDIDATES or not has_shape(call):
        return False
    return tvm_ffi.structural_equal(call.ty, call.args[0].ty)
