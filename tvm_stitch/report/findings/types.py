"""Types of Relax values: their bytes, and how people read them."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import relax

from tvm_stitch.graph.back.launches import shown, tensor_type_bytes
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import item_bytes


def type_bytes(ty: Any) -> int | None:
    """The bytes of a tensor, or of all tensors of a tuple; None if a shape is not known."""
    if isinstance(ty, relax.TupleType):
        parts = [type_bytes(each) for each in ty.fields]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None
    return tensor_type_bytes(ty)


def bytes_at(ty: Any, extents: Extents) -> int | None:
    """The same, symbolic dimensions of these sizes."""
    if isinstance(ty, relax.TupleType):
        parts = [bytes_at(each, extents) for each in ty.fields]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    return prod(map(extents.size, ty.shape.values)) * item_bytes(str(ty.dtype.dtype))


def shown_type(ty: Any) -> str:
    """A type for people: float32[128, 1024]."""
    if isinstance(ty, relax.TupleType):
        return f"({', '.join(map(shown_type, ty.fields))})"
    if not isinstance(ty, relax.TensorType):
        return ""
    extents = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else ()
    return f"{ty.dtype}[{', '.join(map(shown, extents))}]"
