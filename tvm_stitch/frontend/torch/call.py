"""One ATen call on its way to Relax, as its converter sees it.

A converter is a function from a Call and the operator's arguments, in the schema's order, to the
Relax expression of its result (a tuple of them where there are several). It finds here what PyTorch
says of the result, and the means to emit. It knows neither the graph nor the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import tvm_ffi
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import elementwise_dtypes
from tvm import relax, te, tirx
from tvm.ir import Expr as TvmExpr
from tvm.ir import GenericConst
from tvm.s_tir import renew_defs

from tvm_stitch.frontend.torch.dtypes import HALVES, is_float, name_of, wide
from tvm_stitch.frontend.torch.symbols import Dim, Symbols

Expr = Any
"""A Relax expression. TVM's classes carry no types that a checker could use."""
Number = Any
"""A Python number, or the TIR expression of a symbolic one."""
Converter = Callable[..., Any]


def is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor; numbers are Python's or TIR's."""
    return isinstance(value, TvmExpr) and isinstance(value.ty, relax.TensorType)


def dims(value: Expr) -> list[Dim]:
    """A tensor's shape."""
    return [int(dim) if isinstance(dim, tirx.IntImm) else dim for dim in value.ty.shape.values]


def dtype(value: Expr) -> str:
    """A tensor's element type."""
    return str(value.ty.dtype.dtype)


def rank(value: Expr) -> int:
    """How many dimensions a tensor has."""
    return len(dims(value))


def axes(given: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Dimensions counted from the front, in order; None and none stand for all."""
    if given is None or (not isinstance(given, int) and not len(given)):
        return list(range(ndim))
    several = [given] if isinstance(given, int) else given
    return sorted(axis % max(ndim, 1) for axis in several) if ndim else []


@dataclass(frozen=True)
class Call:
    """The call of one operator."""

    operator: torch._ops.OpOverload
    given: Sequence[Any]  # the arguments as PyTorch traced them: FakeTensors, SymInts, numbers
    result: Any  # the result as PyTorch traced it
    builder: relax.BlockBuilder
    symbols: Symbols
    # Images come, and go, with their channels behind the extents; else behind the batch.
    channels_last: bool = False

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return name_of(self.result.dtype)

    @property
    def shape(self) -> list[Dim]:
        """The shape of the result."""
        return self.symbols.extents(self.result.shape)

    @cached_property
    def common(self) -> str:
        """The element type that PyTorch brings the operands to before it computes.

        Of tensors, 0-d tensors and Python numbers, each rank counts only where it is of a higher
        kind than those before it.
        """
        operands = [
            value
            for value in self.given
            if isinstance(value, (torch.Tensor, bool, int, float, torch.SymInt, torch.SymFloat))
        ]
        tensors = [value for value in operands if isinstance(value, torch.Tensor)]
        if not tensors:
            return self.dtype
        dtypes = elementwise_dtypes(*operands, type_promotion_kind=PROMOTION.NO_OPMATH)
        return name_of(dtypes[1])

    def emit(self, value: Expr) -> Expr:
        """Bind an intermediate result."""
        return self.builder.emit(value)

    def te(self, compute: Callable[..., Any], *operands: Expr, name: str = "") -> Expr:
        """Bind what a tensor expression computes; `compute` may use any of the graph's symbols."""
        hint = name or self.operator.overloadpacket.__name__.strip("_")
        if not self.symbols.variables:
            return self.builder.emit_te(compute, *operands, primfunc_name_hint=hint)
        inputs = [te.placeholder(dims(x), dtype(x), f"x{n}") for n, x in enumerate(operands)]
        output = compute(*inputs)
        unbound = self._unbound(inputs, output)
        function = te.create_prim_func([*inputs, *unbound, output], "int64")
        function = renew_defs(function.without_attr("global_symbol"))
        result = relax.TensorType(list(output.shape), output.dtype)
        variable = self.builder.add_func(function, hint)
        return self.builder.emit(relax.call_tir(variable, [*operands, *unbound], result))

    def filled(self, shape: Sequence[Dim], value: Any) -> Expr:
        """Bind a tensor of one immediate value."""
        return self.te(lambda: te.compute(shape, lambda *_at: value, name="full"), name="full")

    def _unbound(self, inputs: Sequence[Any], output: Any) -> list[tirx.Var]:
        """The symbols that a tensor expression uses and that are no extent of its tensors."""
        used: list[tirx.Var] = []
        extents = [extent for tensor in (*inputs, output) for extent in tensor.shape]
        for expression in (*extents, *output.op.body):
            tvm_ffi.structural_walk(expression, (tirx.Var, used.append))
        bound = [extent for extent in extents if isinstance(extent, tirx.Var)]
        return [
            variable
            for variable in self.symbols.variables.values()
            if any(variable.same_as(each) for each in used)
            and not any(variable.same_as(each) for each in bound)
        ]

    def cast(self, value: Expr, to: str) -> Expr:
        """A tensor in another element type."""
        if dtype(value) == to:
            return value
        if to == "bool":
            return self.pointwise(lambda a: a, value, of=dtype(value), to=to)
        return self.emit(relax.op.astype(value, to))

    def wide(self, value: Expr) -> Expr:
        """A tensor as it is computed with: halves in float32."""
        return self.cast(value, wide(dtype(value)))

    def number(self, value: Number, of: str) -> Expr:
        """A number as a tensor without dimensions."""
        if isinstance(value, TvmExpr):
            return self.te(lambda: te.compute((), lambda: value.astype(of)), name="number")
        return relax.const(np.asarray(value).astype(_numpy(of)), of)

    def operand(self, value: Expr | Number, of: str) -> Expr:
        """A tensor or a number as a tensor of this element type."""
        return self.cast(value, of) if is_tensor(value) else self.number(value, of)

    def pointwise(
        self,
        compute: Callable[..., Any],
        *operands: Expr | Number,
        of: str | Sequence[str],
        to: str,
    ) -> Expr:
        """What is computed of elements in the type `of`, broadcast; the result is of type `to`.

        For what Relax has no operator for, or none as PyTorch has it. Numbers, and tensors that are
        known to be one, become immediates. Operands may have a type each.
        """
        types = [of] * len(operands) if isinstance(of, str) else of
        values = [_known_number(operand) for operand in operands]
        tensors = [value for value in values if is_tensor(value)]
        shape = broadcast_shape([dims(value) for value in tensors], self.symbols)

        def body(*given: te.Tensor) -> te.Tensor:
            def element(*indices: Any) -> Any:
                remaining = iter(given)
                elements = [
                    _cast(picked(next(remaining), indices), each)
                    if is_tensor(value)
                    else immediate(value, each)
                    for value, each in zip(values, types, strict=True)
                ]
                return _cast(compute(*elements), to)

            return te.compute(shape, element, name="elements")

        return self.te(body, *tensors)


def _known_number(operand: Expr | Number) -> Expr | Number:
    """The number that a constant of one element is; else the operand."""
    is_number = isinstance(operand, GenericConst) and is_tensor(operand) and not rank(operand)
    return operand.value.numpy().item() if is_number else operand


def immediate(value: Number, of: str) -> Any:
    """A number in TIR; one that is too large for integers wraps around, as PyTorch's do."""
    if isinstance(value, TvmExpr):
        return _cast(value, of)
    if of == "bool":
        value = bool(value)
    elif not is_float(of):
        value = np.asarray(value).astype(of).item()
    return tirx.const(value, of)


def broadcast_shape(shapes: Sequence[Sequence[Dim]], symbols: Symbols) -> list[Dim]:
    """The shape that tensors of these shapes broadcast to."""
    ndim = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = [1] * ndim
    for shape in shapes:
        for place, extent in enumerate(shape, ndim - len(shape)):
            if symbols.same(result[place], 1):
                result[place] = extent
    return result


def picked(tensor: te.Tensor, indices: Sequence[Any]) -> Any:
    """The element of a tensor that is broadcast to these indices."""
    own = indices[len(indices) - len(tensor.shape) :]
    return tensor(
        *[
            tirx.const(0, "int64") if isinstance(extent, tirx.IntImm) and int(extent) == 1 else at
            for at, extent in zip(own, tensor.shape, strict=True)
        ]
    )


def _cast(value: Any, to: str) -> Any:
    found = str(value.ty.dtype if hasattr(value, "ty") else value.dtype)
    if found == to:
        return value
    if to == "bool":
        return differs(value, tirx.const(0, found))
    return value.astype(to)


def differs(left: Any, right: Any) -> Any:
    """Whether two elements differ, as what is not a number does from everything.

    TVM's != of floating numbers is false of those where it makes LLVM of it.
    """
    return tirx.Select(tirx.EQ(left, right), tirx.const(False, "bool"), tirx.const(True, "bool"))


def _numpy(of: str) -> Any:
    import ml_dtypes

    return getattr(ml_dtypes, of, of) if of == "bfloat16" else of


__all__ = [
    "HALVES",
    "Call",
    "Converter",
    "Expr",
    "Number",
    "axes",
    "broadcast_shape",
    "differs",
    "dims",
    "dtype",
    "immediate",
    "is_float",
    "is_tensor",
    "picked",
    "rank",
    "wide",
]
