"""What cuDNN computes behind a convolution: a bias, a residual and ReLU, in one kernel.

In: the bindings of a dataflow block. Out: a Fused for every convolution that is taken, with the
operators behind it that nobody else reads. Knows nothing of calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, is_one, shape_of
from tvm_stitch.graph.front.decompose.view import Definition, views_of
from tvm_stitch.library.convolution import DATA, WEIGHT, Convolution


@dataclass(frozen=True, eq=False)
class Fused:
    """A convolution and what follows it up to `result`, the variable that the call defines."""

    convolution: Convolution
    call: Call
    result: relax.Var
    members: tuple[relax.Var, ...]  # the result left out
    bias: Expr | None = None
    residual: Expr | None = None

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The tensors that the call reads."""
        more = (self.bias, self.residual)
        return (*self.call.args[:2], *(each for each in more if each is not None))


def fused(
    binding: relax.VarBinding,
    convolution: Convolution,
    only_reader: Mapping[relax.Var, relax.VarBinding],
    definition: Definition,
    taken: Collection[relax.Var],
) -> Fused:
    """A convolution with as much behind it as cuDNN takes, and no other convolution has `taken`.

    `only_reader` has, for every variable that one binding of the block alone reads, that binding.
    """
    found = Fused(convolution, binding.value, binding.var, ())
    if convolution.groups > 1:
        # cuDNN's kernels of grouped convolutions that end with more are slow: 7 x 7 by channels of
        # 16 x 96 x 56 x 56 halves takes 611 us with a bias and ReLU on an H200, 45 us without.
        return found
    if convolution.what == DATA:
        # A bias behind a gradient makes cuDNN generate a kernel, for each size anew: four in VITS's
        # decoder take 4.1 s for each length that is new, and are not faster afterwards.
        return found
    while (reader := only_reader.get(found.result)) is not None and reader.var not in taken:
        longer = _with(found, reader, definition)
        if longer is None:
            break
        found = longer
    return found


def _with(found: Fused, reader: relax.VarBinding, definition: Definition) -> Fused | None:
    """The same with one more operator, if cuDNN takes it there."""
    value, convolution = reader.value, found.convolution
    name = getattr(value.op, "name", "") if isinstance(value, Call) else ""
    if convolution.relu or convolution.what == WEIGHT or not _same_type(reader.var, found.result):
        return None
    behind = replace(found, result=reader.var, members=(*found.members, found.result))
    if name == "relax.nn.relu":
        return replace(behind, convolution=replace(convolution, relu=True))
    if name != "relax.add":
        return None
    (other,) = [arg for arg in value.args if not arg.same_as(found.result)] or [None]
    if other is None:
        return None
    bias = None if convolution.bias or convolution.residual else _bias(other, found, definition)
    if bias is not None:
        return replace(behind, convolution=replace(convolution, bias=True), bias=bias)
    if convolution.residual or not _same_type(other, found.result):
        return None
    return replace(behind, convolution=replace(convolution, residual=True), residual=other)


def _bias(other: Expr, found: Fused, definition: Definition) -> Expr | None:
    """A tensor with one element for each channel, in order, if an operand is that."""
    if not has_shape(other) or dtype_of(other) != dtype_of(found.result):
        return None
    shape, wanted = shape_of(other), shape_of(found.result)
    axis = len(wanted) - 1 if found.convolution.channels_last else 1
    place = axis - (len(wanted) - len(shape))
    if place < 0 or not _equal(shape[place], wanted[axis]):
        return None
    if not all(is_one(extent) for at, extent in enumerate(shape) if at != place):
        return None
    # What has moved nothing needs no kernel: the call reads what is behind it.
    return next(view.source for view in views_of(other, definition) if not view.is_moved)


def _same_type(one: Expr, other: Expr) -> bool:
    return has_shape(one) and bool(tvm_ffi.structural_equal(one.ty, other.ty))


def _equal(one: Expr, other: Expr) -> bool:
    return bool(tvm_ffi.structural_equal(one, other))
