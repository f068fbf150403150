"""What a chain of reshapes, transposes and broadcasts reads of the tensor in front of it.

In: a Relax value and how to look up what it is bound to. Out: a View: that tensor, its elements in
the order of memory, and which of them lie along which dimension of the value. Must not know who
reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import has_shape, is_empty, is_one, shape_of
from tvm_stitch.stages.stage import handle
from tvm_stitch.stages.symbolic_analyzer import int64

Definition = Callable[[Expr], "Expr | None"]
"""What a variable is bound to; None for parameters."""

RESHAPES = frozenset({"relax.reshape", "relax.expand_dims", "relax.squeeze"})
"""Operators that give the elements another shape and leave them where they are."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A part of a dimension, of more than one element."""

    extent: Expr


@dataclass(frozen=True, eq=False)
class View:
    """A tensor as somebody sees it.

    `memory` are the tensor's factors, the innermost last; `dims` those of what is seen, by its
    dimensions. Factors that are not in memory repeat what is there.
    """

    source: Expr
    memory: tuple[Factor, ...]
    dims: tuple[tuple[Factor, ...], ...]

    @property
    def is_moved(self) -> bool:
        """Whether elements are seen in another order than they lie, or repeatedly."""
        return tuple(factor for dim in self.dims for factor in dim) != self.memory

    @cached_property
    def joined(self) -> View:
        """The same view, factors that are neighbours in memory and in a dimension as one."""
        behind = {one: other for dim in self.dims for one, other in pairwise(dim)}
        runs = [[factor] for factor in self.memory[:1]]
        for one, other in pairwise(self.memory):
            if behind.get(one) is other:
                runs[-1].append(other)
            else:
                runs.append([other])
        parts: dict[Factor, tuple[Factor, ...]] = {}
        for first, *others in (run for run in runs if len(run) > 1):
            parts |= dict.fromkeys(others, ())
            parts[first] = (Factor(prod(f.extent for f in (first, *others))),)
        return self.divided(parts)

    def divided(self, parts: dict[Factor, tuple[Factor, ...]]) -> View:
        """The same view in smaller factors."""

        def apart(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
            return tuple(part for factor in factors for part in parts.get(factor, (factor,)))

        return replace(self, memory=apart(self.memory), dims=tuple(map(apart, self.dims)))


def views_of(value: Expr, definition: Definition) -> tuple[View, ...]:
    """The views that a value is: of the first tensor behind it, of those in between, of itself."""
    return Views(definition)(value)


class Views:
    """The same of values whose definitions never change: those of a variable are found once."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._known: dict[int, tuple[View, ...]] = {}  # by variables, which the views hold

    def __call__(self, value: Expr) -> tuple[View, ...]:
        """Those of a value."""
        chain: list[tuple[Expr, Call]] = []
        while handle(value) not in self._known:
            call = _view_call(value, self.definition)
            if call is None:
                break
            chain.append((value, call))
            value = call.args[0]
        found = self._known.get(handle(value)) or (whole(value),)
        for seen, call in reversed(chain):
            shape, see = shape_of(call), _VIEWS[call.op.name]
            views = (see(view, call, shape) for view in found)
            found = (*(view for view in views if view is not None), whole(seen))
            if isinstance(seen, relax.Var):
                self._known[handle(seen)] = found
        return found


def _view_call(value: Expr, definition: Definition) -> Call | None:
    call = definition(value)
    if not isinstance(call, Call) or getattr(call.op, "name", "") not in _VIEWS:
        return None
    return call if has_shape(call) and has_shape(call.args[0]) else None


def before_reshapes(value: Expr, definition: Definition) -> Expr:
    """What a value is a reshape of, or itself."""
    call = definition(value)
    while isinstance(call, Call) and getattr(call.op, "name", "") in RESHAPES:
        value = call.args[0]
        call = definition(value)
    return value


def whole(value: Expr) -> View:
    """A tensor as it lies in memory."""
    dims = tuple(() if is_one(extent) else (Factor(extent),) for extent in shape_of(value))
    return View(value, tuple(factor for dim in dims for factor in dim), dims)


def _permuted(view: View, call: Call, shape: Sequence[Expr]) -> View:
    rank = len(shape)
    axes = range(rank - 1, -1, -1) if call.attrs.axes is None else map(int, call.attrs.axes)
    return replace(view, dims=tuple(view.dims[axis % rank] for axis in axes))


def _reshaped(view: View, _call: Call, shape: Sequence[Expr]) -> View | None:
    factors = tuple(factor for dim in view.dims for factor in dim)
    if is_empty(shape):
        return None
    wide = [extent for extent in shape if not is_one(extent)]
    common = refined([factor.extent for factor in factors], wide)
    if common is None:
        return None
    olds, news = common
    view = view.divided(dict(zip(factors, olds, strict=True)))
    following = iter(news)
    return replace(view, dims=tuple(() if is_one(extent) else next(following) for extent in shape))


def _repeated(view: View, _call: Call, shape: Sequence[Expr]) -> View:
    new = len(shape) - len(view.dims)
    dims = [() for _ in range(new)] + list(view.dims)
    return replace(
        view,
        dims=tuple(
            dim if dim or is_one(extent) else (Factor(extent),)
            for dim, extent in zip(dims, shape, strict=True)
        ),
    )


_VIEWS: dict[str, Callable[[View, Call, Sequence[Expr]], View | None]] = {
    "relax.permute_dims": _permuted,
    "relax.broadcast_to": _repeated,
    **dict.fromkeys(RESHAPES, _reshaped),
}

Parts = list[tuple[Factor, ...]]


def refined(first: Sequence[Expr], second: Sequence[Expr]) -> tuple[Parts, Parts] | None:
    """Factors that both sequences of extents fall apart into, by the extents of each."""
    parts: tuple[list[list[Factor]], ...] = ([[] for _ in first], [[] for _ in second])
    left = [list(first), list(second)]
    analyzer = tvm.sym.Analyzer()
    while left[0] and left[1]:
        inner = [extents.pop() for extents in left]
        places = [len(extents) for extents in left]
        for one, other in ((0, 1), (1, 0)):
            rest = _quotient(inner[one], inner[other], analyzer)
            if rest is not None:
                break
        else:
            return None
        factor = Factor(inner[other])
        for side in (0, 1):
            parts[side][places[side]].insert(0, factor)
        if not is_one(rest):
            left[one].append(rest)
    if left[0] or left[1]:
        return None
    return tuple([tuple(part) for part in side] for side in parts)  # type: ignore[return-value]


def _quotient(extent: Expr, of: Expr, analyzer: tvm.sym.Analyzer) -> Expr | None:
    """How many times an extent is another one; None if it is no multiple of it."""
    if isinstance(extent, tirx.IntImm) and isinstance(of, tirx.IntImm):
        times, rest = divmod(extent.value, of.value)
        return None if rest else int64(times)
    if not analyzer.can_prove_equal(tirx.floormod(extent, of), 0):
        return None
    return analyzer.simplify(tirx.floordiv(extent, of))
