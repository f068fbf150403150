"""Float32 with TF32's bits: how TIR says that a product's factors may lose the others.

Tensor cores multiply float32 by its upper 19 bits. A product whose TIR cuts its factors off there
may be theirs; TIR that only a compiler's flag allows to be rounded looks like any other.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Call

from tvm_stitch.stages.stage import Expr, constant

_UPPER = 0xFFFFE000
_HALF = 0x1000  # of the last bit that is kept


def rounded(value: Expr) -> Expr:
    """The number of TF32 that is next to a value of float32; of NaN it may be any."""
    return _of_upper(tirx.reinterpret("uint32", value) + tirx.const(_HALF, "uint32"))


def truncated(value: Expr) -> Expr:
    """A value of float32 without the 13 bits of its mantissa that TF32 lacks."""
    return _of_upper(tirx.reinterpret("uint32", value))


def untruncated(value: Expr) -> Expr:
    """What `truncated` made a value of, or the value itself if it did not."""
    upper = _reinterpreted(value)
    if not isinstance(upper, tirx.BitwiseAnd) or constant(upper.b) != _UPPER:
        return value
    whole = _reinterpreted(upper.a)
    return value if whole is None else whole


def is_truncated(value: Expr) -> bool:
    """Whether `truncated` made a value."""
    return untruncated(value) is not value


def _of_upper(bits: Expr) -> Expr:
    return tirx.reinterpret("float32", bits & tirx.const(_UPPER, "uint32"))


def _reinterpreted(value: Expr) -> Expr | None:
    is_call = isinstance(value, Call) and getattr(value.op, "name", "") == "tirx.reinterpret"
    return value.args[0] if is_call else None
