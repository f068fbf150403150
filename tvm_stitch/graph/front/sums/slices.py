"""Tensors that are zero but for one slice, added up: the slices one behind the other.

In: the terms of a sum. Out: the same with a concatenation for all such terms. The gradient of
x[:, t] is a choice for every element, whether its place is t; of many steps, each element of the
sum is asked for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.graph.front.decompose.stages import (
    dtype_of,
    has_shape,
    is_one,
    number_of,
    shape_of,
)
from tvm_stitch.graph.front.sums.terms import Emit, Known
from tvm_stitch.stages.stage import constant

FEWEST = 2


@dataclass(frozen=True)
class _Slice:
    """What a term has at one place along an axis, the rest of it being zero."""

    axis: int
    place: int
    value: Expr  # of extent 1 along the axis


def one_concatenation(terms: Sequence[Expr], known: Known, emit: Emit) -> list[Expr]:
    """The terms, all slices along one axis as one."""
    found = [(term, _slice(term, known)) for term in terms]
    axes = {each.axis for _, each in found if each is not None}
    shorter = list(terms)
    for axis in sorted(axes):
        own = [(term, each) for term, each in found if each is not None and each.axis == axis]
        if len(own) >= FEWEST and len({each.place for _, each in own}) == len(own):
            whole = _concatenated([each for _, each in own], own[0][0], emit)
            taken = {id(term) for term, _ in own}
            shorter = [whole, *(term for term in shorter if id(term) not in taken)]
    return shorter


def _concatenated(slices: Sequence[_Slice], term: Expr, emit: Emit) -> Expr:
    """Each slice at its place, zeros where there is none."""
    axis, dtype, extents = slices[0].axis, dtype_of(term), shape_of(term)
    extent = constant(extents[axis])
    assert extent is not None
    values = {each.place: each.value for each in slices}
    parts, place = [], 0
    while place < extent:
        if place in values:
            parts.append(values[place])
            place += 1
            continue
        until = min((each for each in values if each > place), default=extent)
        shape = [*extents[:axis], until - place, *extents[axis + 1 :]]
        parts.append(emit(op.full(shape, relax.const(0, dtype), dtype)))
        place = until
    return emit(op.concat(parts, axis=axis)) if len(parts) > 1 else parts[0]


def _slice(term: Expr, known: Known) -> _Slice | None:
    """The slice that a term chooses, if it is one and nobody else reads it."""
    call = known.definition(term)
    if not known.is_read_once(term) or name_of(call) != "where" or not has_shape(term):
        return None
    assert isinstance(call, Call)
    mask, chosen, other = call.args
    if not _is_zero(other, known):
        return None
    at = _place(mask, known)
    spread = known.definition(chosen)
    if at is None or name_of(spread) != "broadcast_to":
        return None
    assert isinstance(spread, Call)
    axis, place = at
    value, shape = spread.args[0], shape_of(term)
    if not has_shape(value) or not all(map(has_shape, (chosen, mask))):
        return None
    own = shape_of(value)
    whole = [constant(extent) for extent in shape]
    wanted = [1 if n == axis else extent for n, extent in enumerate(whole)]
    if None in whole or [constant(extent) for extent in own] != wanted:
        return None
    if [constant(each) for each in shape_of(chosen)] != whole or place >= (whole[axis] or 0):
        return None
    if not is_one(own[axis]) or len(shape_of(mask)) != len(shape):
        return None
    return _Slice(axis, place, value)


def _place(mask: Expr, known: Known) -> tuple[int, int] | None:
    """The axis and the place at which a comparison of all places along an axis holds."""
    compared = known.definition(mask)
    if name_of(compared) != "equal" or not has_shape(mask):
        return None
    assert isinstance(compared, Call)
    places, number = compared.args
    at = _number(number)
    wide = [axis for axis, extent in enumerate(shape_of(mask)) if not is_one(extent)]
    if at is None or at < 0 or len(wide) != 1:
        return None
    made = known.definition(places)
    while name_of(made) in ("reshape", "expand_dims"):
        assert isinstance(made, Call)
        made = known.definition(made.args[0])
    if name_of(made) != "arange":
        return None
    assert isinstance(made, Call)
    start, _, step = (_number(each) for each in made.args)
    return (wide[0], int(at)) if (start, step) == (0, 1) else None


def _is_zero(value: Expr, known: Known) -> bool:
    made = known.definition(value)
    if name_of(made) == "zeros":
        return True
    if name_of(made) == "full":
        assert isinstance(made, Call)
        return _number(made.args[1]) == 0
    return isinstance(value, GenericConst) and not np.any(value.value.numpy())


def _number(value: Expr) -> float | None:
    """A number that is known."""
    return number_of(value) if isinstance(value, GenericConst) else constant(value)
