"""What every family of compound operators writes its stages with.

Comes in: a BlockBuilder inside the binding block of the operator. Goes out: bindings in front of
the operator's own. Knows no compound operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op
from tvm.tirx import IntImm

ACCUMULATORS = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
}
"""The dtype a compound operator computes in, by the dtype of its data. Others are left alone."""

HALF = frozenset({"float16", "bfloat16"})
"""The dtypes too narrow to accumulate in."""

Stage = Callable[..., Expr]


def dtype_of(expr: Expr) -> str | None:
    """The element type of a tensor, or None where Relax does not know it."""
    dtype = getattr(expr.ty, "dtype", None)
    return None if dtype is None else str(dtype.dtype)


def has_shape(expr: Expr) -> bool:
    """Whether the extents of a tensor are known, if only as symbols."""
    return isinstance(getattr(expr.ty, "shape", None), relax.ShapeExpr)


def shape_of(expr: Expr) -> list[Any]:
    """The extents of a tensor; symbolic ones are expressions."""
    return list(expr.ty.shape.values)


def rank_of(expr: Expr) -> int:
    """The number of axes of a tensor."""
    return len(shape_of(expr))


def numbers_of(expr: Expr) -> tuple[int, ...] | None:
    """The extents of a tensor, if none is known at run time only."""
    if not has_shape(expr):
        return None
    shape = shape_of(expr)
    return tuple(map(int, shape)) if all(isinstance(e, IntImm) for e in shape) else None


def array_of(constant: GenericConst) -> np.ndarray:
    """The elements of a constant; of bfloat16, which some NumPy arrays hold as bits, in float32."""
    array: np.ndarray = constant.value.numpy()
    if dtype_of(constant) == "bfloat16" and array.dtype == np.uint16:
        array = (array.astype("uint32") << 16).view("float32")
    return array


def number_of(expr: Expr) -> float | None:
    """A constant of one element."""
    if not isinstance(expr, GenericConst):
        return None
    array = array_of(expr)
    return float(array.reshape(())) if array.size == 1 else None


def normalized_axes(axes: Sequence[int] | None, rank: int) -> list[int]:
    """Axes counted from the front, in rising order; None stands for all of them."""
    if axes is None:
        return list(range(rank))
    return sorted(int(axis) % rank for axis in axes)


def are_trailing(axes: Sequence[int], shape: Sequence[Any]) -> bool:
    """Whether reducing over these axes reduces over rows that lie contiguous in memory.

    Axes of extent 1 are nowhere in memory and may lie anywhere.
    """
    reduced = [axis in axes for axis, extent in enumerate(shape) if not is_one(extent)]
    return reduced == sorted(reduced)


def without_units(axes: Sequence[int], shape: Sequence[Any]) -> list[int]:
    """The axes to reduce over if the result keeps its dimensions: those of extent 1 are done."""
    return [axis for axis in axes if not is_one(shape[axis])]


def is_one(extent: Any) -> bool:
    """Whether an extent is known to be 1."""
    return isinstance(extent, IntImm) and int(extent) == 1


def is_empty(shape: Sequence[Any]) -> bool:
    """Whether a tensor of this shape is known to have no elements."""
    return any(isinstance(extent, IntImm) and int(extent) == 0 for extent in shape)


def same_extents(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two shapes are the same as they are written."""
    return len(first) == len(second) and all(map(tvm_ffi.structural_equal, first, second))


def _outlives_its_block(value: Expr) -> bool:
    return not any(isinstance(var, relax.DataflowVar) for var in relax.analysis.free_vars(value))


def definition_in(builder: relax.BlockBuilder, expr: Expr) -> Expr | None:
    """What a variable of a builder is bound to, whatever other names it has.

    None for a parameter, and for what another block has computed from values of its own.
    """
    while isinstance(expr, relax.Var):
        inner = isinstance(expr, relax.DataflowVar)
        expr = builder.lookup_binding(expr)
        if expr is None or not (inner or _outlives_its_block(expr)):
            return None
    return expr


class Stages:
    """Emits stages into the block under construction, folding those of constants alone."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        origins: Mapping[relax.Var, str],
        note: Callable[[relax.Var], None],
        views: Callable[[Expr], Sequence[Any]],
        rounds: bool = False,
    ):
        """`note` is told of every variable that is bound; `views` are those that a value is.

        `rounds` says that products of float32 may be a library's by TF32.
        """
        self._builder = builder
        self._origins = origins
        self._note = note
        self.views, self.rounds = views, rounds
        self._casts: dict[tuple[Expr, str | None], Expr] = {}

    def __call__(self, operator: Stage, *operands: Expr | float, **attributes: Any) -> Expr:
        """Bind `operator(*operands)` to a variable and return it; numbers take the first dtype."""
        folded = _fold(operator, operands)
        if folded is not None:
            return folded
        return self._emit(self.last(operator, *operands, **attributes))

    def _emit(self, value: Expr) -> relax.Var:
        var = self._builder.emit(value)
        self._note(var)
        return var

    def last(self, operator: Stage, *operands: Expr | float, **attributes: Any) -> Expr:
        """The call itself, unbound: for the stage that takes over the operator's own variable."""
        tensors = [operand for operand in operands if isinstance(operand, Expr)]
        dtype = dtype_of(tensors[0])
        converted = [
            operand if isinstance(operand, Expr) else relax.const(operand, dtype)
            for operand in operands
        ]
        return operator(*converted, **attributes)

    def definition(self, expr: Expr) -> Expr | None:
        """What a variable is bound to, whatever other names it has; None for a parameter."""
        return definition_in(self._builder, expr)

    def compute(self, function: Callable[..., Any], *operands: Expr, name: str) -> Expr:
        """Bind what a function of TE computes from operands."""
        return self._emit(self._builder.call_te(function, *operands, primfunc_name_hint=name))

    def written(self, family: Callable[[Call, Stages], Expr | None], call: Call) -> relax.Var:
        """Bind what a family makes of a call, or the call."""
        call = self._builder.normalize(call)
        written = family(call, self)
        return self._emit(call if written is None else written)

    def made_by(self, expr: Expr) -> str | None:
        """The operator a variable stood for before this pass, None for a parameter."""
        return self._origins.get(expr)

    def widen(self, tensor: Expr) -> Expr:
        """The tensor in the dtype that compound operators compute in."""
        dtype = ACCUMULATORS[str(dtype_of(tensor))]
        return self.cast(tensor, dtype)

    def cast(self, tensor: Expr, dtype: str | None) -> Expr:
        """The tensor in another dtype; nothing is emitted where it has that dtype already."""
        if dtype_of(tensor) == dtype:
            return tensor
        if isinstance(tensor, GenericConst):
            return relax.const(tensor.value.numpy().astype(dtype), dtype)
        if (tensor, dtype) not in self._casts:
            self._casts[tensor, dtype] = self._emit(op.astype(tensor, dtype))
        return self._casts[tensor, dtype]

    def result(
        self, dtype: str | None, operator: Stage, *operands: Expr | float, **attributes: Any
    ) -> Expr:
        """The last stage of an operator whose result has this dtype, unbound."""
        call = self.last(operator, *operands, **attributes)
        bound = self._builder.normalize(call)
        if dtype_of(bound) == dtype:
            return bound
        return op.astype(self._emit(bound), dtype)

    @staticmethod
    def is_filled_with(tensor: Expr, value: float) -> bool:
        """Whether a tensor is a constant of this one value, as in a norm without parameters."""
        return isinstance(tensor, GenericConst) and bool((tensor.value.numpy() == value).all())

    def along(self, vector: Expr, axis: int, rank: int) -> Expr:
        """A vector reshaped so that it broadcasts along one axis of a tensor of this rank."""
        if axis == rank - 1:
            return vector
        return self.reshape(vector, [*shape_of(vector), *([1] * (rank - 1 - axis))])

    def reshape(self, tensor: Expr, shape: Sequence[Any]) -> Expr:
        """The tensor in another shape of as many elements."""
        if isinstance(tensor, GenericConst):
            extents = [int(extent) for extent in shape]
            return relax.const(tensor.value.numpy().reshape(extents), dtype_of(tensor))
        return self._emit(op.reshape(tensor, shape))


_FOLDABLE: dict[Stage, Callable[..., np.ndarray]] = {
    op.add: np.add,
    op.subtract: np.subtract,
    op.multiply: np.multiply,
    op.rsqrt: lambda x: 1 / np.sqrt(x),
}


def _fold(operator: Stage, operands: Sequence[Expr | float]) -> Expr | None:
    """The constant that an operator over constants comes to, rounded once; None otherwise."""
    evaluate = _FOLDABLE.get(operator)
    if evaluate is None:
        return None
    values = []
    dtype = None
    for operand in operands:
        if isinstance(operand, GenericConst):
            dtype = dtype or dtype_of(operand)
            values.append(operand.value.numpy().astype("float64"))
        elif isinstance(operand, Expr):
            return None
        else:
            values.append(np.float64(operand))
    return relax.const(evaluate(*values).astype(dtype), dtype)
