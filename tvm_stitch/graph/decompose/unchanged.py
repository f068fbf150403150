"""Operators that give what they get: PyTorch's exporter broadcasts every operand of a product.

Alone in front of a large matrix product, such an operator would be a kernel that copies.
"""

from __future__ import annotations

import tvm_ffi
from tvm.ir import Call, Expr

from tvm_stitch.graph.decompose.stages import has_shape
from tvm_stitch.graph.decompose.view import RESHAPES, Definition, before_reshapes

_CANDIDATES = frozenset({"relax.broadcast_to", "relax.reshape", "relax.astype"})


def unchanged(call: Call, definition: Definition) -> Expr | None:
    """What a call gives back as it got it, perhaps several reshapes ago; None if it does more."""
    if not has_shape(call):
        return None
    if call.op.name in _CANDIDATES and tvm_ffi.structural_equal(call.ty, call.args[0].ty):
        return call.args[0]
    if call.op.name in RESHAPES:
        base = before_reshapes(call.args[0], definition)
        return base if tvm_ffi.structural_equal(call.ty, base.ty) else None
    return None
