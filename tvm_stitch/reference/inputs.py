"""The inputs that a caller gives a Relax function, checked against its parameters.

Comes in: a function and NumPy arrays. Goes out: arrays that fit its parameters, floating ones in
float64, or an InputError that says which does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from tvm import relax, tirx
from tvm.ir import IRModule

from tvm_stitch.errors import InputError
from tvm_stitch.reference.float64 import is_floating


def function_of(mod: IRModule, entry: str) -> relax.Function:
    """The Relax function of this name, or an InputError that lists those there are."""
    if not isinstance(mod, IRModule):
        raise InputError(f"expected a tvm.IRModule, got {type(mod).__name__}")
    functions = {
        name.name_hint: function
        for name, function in mod.functions_items()
        if isinstance(function, relax.Function)
    }
    if entry not in functions:
        raise InputError(
            f"the module has no Relax function `{entry}`; it has {sorted(functions) or 'none'}"
        )
    return functions[entry]


def tensor_type(parameter: relax.Var, entry: str) -> relax.TensorType:
    """The type of a parameter, or an InputError where it is no tensor with a shape."""
    kind = parameter.ty
    if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
        raise InputError(
            f"parameter `{parameter.name}` of `{entry}` is {kind}: the reference takes "
            "tensors whose shape is known or symbolic"
        )
    return kind


def checked_inputs(
    function: relax.Function, inputs: Sequence[np.ndarray], entry: str
) -> list[np.ndarray]:
    """The inputs, floating ones in float64; an InputError says which does not fit, and why."""
    if len(inputs) != len(function.params):
        names = ", ".join(parameter.name for parameter in function.params)
        raise InputError(
            f"`{entry}` takes {len(function.params)} inputs ({names}), got {len(inputs)}"
        )
    bound: dict[tirx.Var, int] = {}
    values = []
    for parameter, given in zip(function.params, inputs, strict=True):
        kind, array = tensor_type(parameter, entry), np.asarray(given)
        _check_shape(parameter, kind, array, bound)
        values.append(_widened(parameter, str(kind.dtype.dtype), array))
    return values


def _check_shape(
    parameter: relax.Var, kind: relax.TensorType, array: np.ndarray, bound: dict[tirx.Var, int]
) -> None:
    expected = list(kind.shape.values)
    fits = len(expected) == array.ndim
    for extent, actual in zip(expected, array.shape, strict=False):
        if isinstance(extent, tirx.Var):
            fits &= bound.setdefault(extent, actual) == actual
        elif isinstance(extent, tirx.IntImm):
            fits &= int(extent) == actual
    if not fits:
        wanted = ", ".join(
            str(int(extent) if isinstance(extent, tirx.IntImm) else extent) for extent in expected
        )
        symbols = ", ".join(f"{symbol.name} = {size}" for symbol, size in bound.items())
        raise InputError(
            f"input `{parameter.name}` has shape {array.shape}, expected ({wanted})"
            + (f" with {symbols}" if symbols else "")
        )


def _widened(parameter: relax.Var, dtype: str, array: np.ndarray) -> np.ndarray:
    """The array as the reference takes it: floating ones in float64, others as declared."""
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return array.view(ml_dtypes.bfloat16).astype("float64")
    if is_floating(dtype) and is_floating(array.dtype.name):
        return array.astype("float64")
    if array.dtype.name == dtype:
        return array
    raise InputError(f"input `{parameter.name}` has dtype {array.dtype}, expected {dtype}")
