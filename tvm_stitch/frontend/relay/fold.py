"""Values that the module itself determines.

Importers compute shapes with operators: ``shape_of``, slices and joins of it, a ``dyn.reshape`` to
the result. In: an operator call whose arguments' values are known. Out: its value, as an array of
integers (or of symbolic extents), or None where it does not follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_stitch.frontend.relay.arrays import dtype_of
from tvm_stitch.frontend.relay.call import OpCall, dims

# Folding serves shapes. Weights are left to TVM.
_MAX_ELEMENTS = 4096

Fold = Callable[[OpCall, list[np.ndarray]], np.ndarray]


def value_of(name: str, call: OpCall) -> np.ndarray | None:
    """The value of an operator's result, if it is known."""
    if name in ("shape_of", "ndarray_size"):
        extents = dims(call[0])
        shape = _array(extents)
        return shape if name == "shape_of" else np.prod(shape).reshape(()) if extents else None
    fold = _FOLDS.get(name)
    if fold is None:
        return None
    values = list(call.known_values)
    if any(value is None or value.size > _MAX_ELEMENTS for value in values):
        return None
    try:
        result = np.asarray(fold(call, values))  # type: ignore[arg-type]
    except (ValueError, TypeError, IndexError, ZeroDivisionError):
        return None
    return result if result.size <= _MAX_ELEMENTS else None


def join(axis: int | None, values: list[np.ndarray | None]) -> np.ndarray | None:
    """Known fields joined (stacked, where there is no axis); None where one is not known."""
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not known:
        return None
    if len({value.shape for value in known}) > 1 and axis is None:
        return None
    if sum(value.size for value in known) > _MAX_ELEMENTS:
        return None
    if any(value.dtype == object for value in known):
        known = [value.astype(object) for value in known]
    return np.stack(known) if axis is None else np.concatenate(known, axis)


def _fail() -> np.ndarray:
    raise ValueError("this form is not folded")


def _array(extents: list[Any]) -> np.ndarray:
    if all(isinstance(extent, int) for extent in extents):
        return np.array(extents, np.int64)
    result = np.empty(len(extents), object)
    result[:] = extents
    return result


def _cast(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    value = values[0]
    if value.dtype == object:
        return value
    return value.astype(dtype_of(call.attrs.text("dtype")))


def _take(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    axis, mode = call.attrs.integer("axis"), call.attrs.text("mode", "clip")
    if call.attrs.integer("batch_dims", 0):
        return _fail()
    indices = values[1].astype(np.int64)
    return np.take(values[0], indices, axis, mode="wrap" if mode == "wrap" else "clip")


def _strided_slice(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    attrs = call.attrs
    begin, end = attrs.integers("begin"), attrs.integers("end")
    strides = attrs.integers("strides") or [1] * len(begin)
    if attrs.text("slice_mode", "end") != "end" or attrs.integers("axes") not in (None, [0]):
        return _fail()
    return values[0][tuple(slice(*part) for part in zip(begin, end, strides, strict=True))]


def _squeeze(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    axes = call.attrs.integers("axis")
    return np.squeeze(values[0], None if axes is None else tuple(axes))


def _expand_dims(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    if call.attrs.integer("num_newaxis", 1) != 1:
        return _fail()
    return np.expand_dims(values[0], call.attrs.integer("axis", 0))


def _reshape(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    return values[0].reshape([int(n) for n in call.attrs.integers("newshape")])


def _prod(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
    axes = call.attrs.integers("axis")
    keepdims: Any = call.attrs.flag("keepdims")  # NumPy's types know True and False, no bool
    return np.asarray(
        np.prod(
            values[0],
            axis=tuple(axes) if axes else None,
            keepdims=keepdims,
        )
    )


def _binary(function: Callable[[Any, Any], Any]) -> Fold:
    def fold(call: OpCall, values: list[np.ndarray]) -> np.ndarray:
        left, right = values
        if left.dtype == object or right.dtype == object:
            left, right = np.asarray(left, object), np.asarray(right, object)
            left, right = (_plain(side) for side in (left, right))
        return np.asarray(function(left, right))

    return fold


def _plain(side: np.ndarray) -> np.ndarray:
    """NumPy's integers as Python's, which TIR expressions take as operands."""
    result = np.empty(side.shape, object)
    for index in np.ndindex(side.shape):
        item = side[index]
        result[index] = int(item) if isinstance(item, np.integer) else item
    return result


def _truncated(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.dtype.kind != "i":
        return left / right if left.dtype.kind == "f" else left // right
    return np.trunc(left / right).astype(left.dtype)


_FOLDS: dict[str, Fold] = {
    "add": _binary(lambda a, b: a + b),
    "cast": _cast,
    # The converter hands over the known fields of a tuple joined already.
    "concatenate": lambda call, values: values[0],
    "copy": lambda call, values: values[0],
    "divide": _binary(_truncated),
    "expand_dims": _expand_dims,
    "floor_divide": _binary(lambda a, b: a // b),
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "multiply": _binary(lambda a, b: a * b),
    "prod": _prod,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "stack": lambda call, values: values[0] if call.attrs.integer("axis", 0) == 0 else _fail(),
    "strided_slice": _strided_slice,
    "subtract": _binary(lambda a, b: a - b),
    "take": _take,
}
