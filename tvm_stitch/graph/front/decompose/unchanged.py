"""Operators that give what they get: PyTorch's exporter broadcasts every operand of a product.

Alone in front of a large matrix product, such an operator would be a kernel that copies.
"""

from __future__ import annotations

import tvm_ffi
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import has_shape
from tvm_stitch.graph.front.decompose.view import Views


def unchanged(call: Call, views: Views) -> Expr | None:
    """What a call gives back as it was, perhaps several views ago; None if it does more."""
    if not has_shape(call):
        return None
    if call.op.name == "relax.astype":
        source = call.args[0]
    else:
        source = next((v.source for v in views(call) if not v.is_moved), call)
    same = not source.same_as(call) and tvm_ffi.structural_equal(call.ty, source.ty)
    return source if same else None
