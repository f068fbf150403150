"""What a library can end a product with: activation(scale * product + residual + bias).

In: a TensorProduct. Out: the LibraryEpilogue that its element-wise stages are, or why they are
none. How they are written does not matter: what follows the sum is a function of one number, told
by its values. Intermediate rounding to halves is left out, as the library does not round between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN
from tvm_stitch.kernel.analysis.contiguity import bound_to
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    as_int64,
    dtype_of,
    handle,
    same_size,
)
from tvm_stitch.stages.stage import buffer_size as size_of

NONE, RELU, GELU = "", "ReLU", "GELU"
# Longer ones are no activation that a library has.
MOST_STAGES = 16
# Where activations are compared: on both sides of zero, and far out.
_POINTS = np.linspace(-8.0, 8.0, 97)
_CLOSE = 1e-6  # GELU by erf differs from that by tanh by up to 5e-4
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    RELU: lambda x: np.maximum(x, 0.0),
    GELU: lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "pow": np.power,
    "fabs": np.abs,
    "sqrt": np.sqrt,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
_OPERATORS: dict[type, Callable[..., Any]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.Div: np.divide,
    tirx.Max: np.maximum,
    tirx.Min: np.minimum,
}


@dataclass(frozen=True, eq=False)
class LibraryEpilogue:
    """What becomes of a product's results; without anything, they are stored."""

    scale: float = 1.0
    bias: Var | None = None  # of each column
    residual: Var | None = None  # of each result
    activation: str = NONE

    def __str__(self) -> str:
        parts = [
            "" if self.scale == 1.0 else f"scale {self.scale:g}",
            "" if self.residual is None else "residual",
            "" if self.bias is None else "bias",
            self.activation,
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, eq=False)
class _Value:
    """What an expression is: a function of a sum, by its values at _POINTS; or a tensor alone."""

    sum: LibraryEpilogue | None = None  # None: it does not depend on the product
    values: Any = None
    tensor: tuple[str, Var] | None = None  # "bias" or "residual", and the buffer

    @property
    def is_sum(self) -> bool:
        """Whether it is the sum itself."""
        return self.sum is not None and np.array_equal(self.values, _POINTS)


class _Unknown(Exception):
    """An expression of another kind, and why."""


def library_epilogue(product: TensorProduct) -> LibraryEpilogue | Refused:
    """The epilogue of a product, if a library has it."""
    ended = product.after[-1].output if product.after else product.result
    if product.outputs != (ended,):
        return Refused("more is stored than what the library ends with")
    if len(product.after) > MOST_STAGES:
        return Refused(f"{len(product.after)} element-wise operators")
    try:
        return _activated(_Reader(product).result(ended))
    except _Unknown as unknown:
        return Refused(f"the library does not end with {unknown}")


def _activated(value: _Value) -> LibraryEpilogue:
    value = _scaled(value)
    if value.sum is None:
        raise _Unknown("what is no result of the product")
    if value.is_sum:
        return value.sum
    for name, function in _ACTIVATIONS.items():
        if np.allclose(value.values, function(_POINTS), rtol=_CLOSE, atol=_CLOSE):
            return replace(value.sum, activation=name)
    raise _Unknown("this function of a result")


def _scaled(value: _Value) -> _Value:
    """A multiple of the bare product as the product with a scale."""
    own = value.sum
    if own is None or own.bias is not None or own.residual is not None or value.is_sum:
        return value
    scale = value.values[-1] / _POINTS[-1]
    if scale == 0 or not np.allclose(value.values, scale * _POINTS, rtol=1e-12, atol=0):
        return value
    return _Value(replace(own, scale=own.scale * float(scale)), _POINTS)


class _Reader:
    """Reads the expressions of a product's stages."""

    def __init__(self, product: TensorProduct) -> None:
        self._product = product
        self._known = {product.result: _Value(LibraryEpilogue(), _POINTS)}
        self._known[product.stage.output] = self._known[product.result]
        self._stages = {stage.output: stage for stage in product.after}

    def result(self, buffer: Var) -> _Value:
        """What a stage computes."""
        if buffer not in self._known:
            stage = self._stages[buffer]
            reads = {read.key: read for read in stage.reads}
            self._known[buffer] = self._read(stage, reads, stage.value)
        return self._known[buffer]

    def _read(self, stage: Stage, reads: dict[int, Read], expr: Expr) -> _Value:
        if isinstance(expr, (tirx.FloatImm, tirx.IntImm)):
            return _Value(values=float(expr.value))
        if isinstance(expr, tirx.Cast):
            if "float" not in dtype_of(expr):
                raise _Unknown(f"{dtype_of(expr)}")
            return self._read(stage, reads, expr.value)
        if isinstance(expr, tvm.ir.TensorLoad):
            return self._loaded(stage, reads[handle(expr)])
        if type(expr) in _OPERATORS:
            parts = [self._read(stage, reads, part) for part in (expr.a, expr.b)]
            return _combined(_OPERATORS[type(expr)], parts)
        name = str(getattr(getattr(expr, "op", None), "name", "")).rpartition(".")[2]
        if name in _FUNCTIONS:
            parts = [self._read(stage, reads, part) for part in expr.args]
            return _combined(_FUNCTIONS[name], parts)
        raise _Unknown(f"{name or type(expr).__name__}")

    def _loaded(self, stage: Stage, read: Read) -> _Value:
        if read.buffer in self._stages or read.buffer in self._known:
            return self.result(read.buffer)
        product = self._product
        if dtype_of(read.buffer) != dtype_of(product.outputs[0]):
            raise _Unknown(f"a tensor of {dtype_of(read.buffer)}")
        if read.guarded or read.nested:
            raise _Unknown("what is looked up")
        analyzer, at = bound_to(product.extents), product.place(stage, read)
        size = size_of(read.buffer)
        if same_size(size, as_int64(product.columns)) and analyzer.can_prove_equal(at, COLUMN):
            return _Value(tensor=("bias", read.buffer))
        results = as_int64(product.entries * product.rows * product.columns)
        if same_size(size, results) and analyzer.can_prove_equal(at, product.flat):
            return _Value(tensor=("residual", read.buffer))
        raise _Unknown(f"a broadcast of {read.buffer.name}")


def _combined(function: Callable[..., Any], parts: list[_Value]) -> _Value:
    """A function of what may depend on the product, or is a tensor's element or a number."""
    if any(part.tensor for part in parts):
        return _added(function, parts)
    sums = [part.sum for part in parts if part.sum is not None]
    if any(each is not sums[0] for each in sums):
        raise _Unknown("two results of the product together")
    with np.errstate(all="ignore"):
        values = function(*(part.values for part in parts))
    return _Value(sums[0] if sums else None, values)


def _added(function: Callable[..., Any], parts: list[_Value]) -> _Value:
    """The sum with one more tensor."""
    tensors = [part.tensor for part in parts if part.tensor]
    sums = [_scaled(part) for part in parts if part.sum is not None]
    if function is not np.add or len(tensors) != 1 or len(sums) != 1 or not sums[0].is_sum:
        raise _Unknown("what it does with a tensor")
    (tensor,), (own,) = tensors, sums
    assert tensor is not None and own.sum is not None
    kind, buffer = tensor
    if getattr(own.sum, kind) is not None:
        raise _Unknown(f"a second {kind}")
    changed = replace(own.sum, bias=buffer) if kind == "bias" else replace(own.sum, residual=buffer)
    return _Value(changed, _POINTS)
