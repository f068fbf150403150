"""Tensors of one value or of a row of numbers."""

from __future__ import annotations

from typing import Any

from tvm import relax, te

from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, immediate

_op = relax.op


def _filled(call: Call, value: Number) -> Expr:
    of, shape = call.dtype, call.shape
    if not shape:
        return call.number(value, of)
    return call.filled(shape, immediate(value, of))


def _full(call: Call, size: Any, value: Number, **_how: Any) -> Expr:
    return _filled(call, value)


def _full_like(call: Call, x: Expr, value: Number, **_how: Any) -> Expr:
    return _filled(call, value)


def _scalar(call: Call, value: Number, **_how: Any) -> Expr:
    return _filled(call, value)


def _arange(call: Call, start: Number, end: Number, step: Number = 1, **_how: Any) -> Expr:
    of = call.dtype
    # PyTorch counts in int64 or in the widest floating type, and rounds once.
    counted = "int64" if all(isinstance(v, int) for v in (start, step)) else "float64"
    counted = "float32" if counted == "float64" and of != "float64" else counted

    def element(at: Any) -> Any:
        place = at if counted == "int64" else at.astype(counted)
        value = immediate(start, counted) + place * immediate(step, counted)
        return value if counted == of else value.astype(of)

    return call.te(lambda: te.compute(call.shape, element, name="arange"), name="arange")


def _iota(call: Call, length: Number, *, start: Number, step: Number, **_how: Any) -> Expr:
    return _arange(call, start, length, step)


OPERATORS: dict[str, Converter] = {
    "arange.start_step": _arange,
    "fill.Scalar": _full_like,
    "full": _full,
    "full_like": _full_like,
    "scalar_tensor": _scalar,
}
