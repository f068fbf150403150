"""Images with a margin of their own elements, mirrored or the last repeated, and the gradients.

A gradient is the sum of the few that an element was given to: nothing is added at indices. Where a
call says so, images come with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from tvm import te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, dims, immediate, is_float, wide
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN

_MOST_TOGETHER = 9
"""Elements that are added up at once; of more, along one axis after the other."""


class Margin(NamedTuple):
    """What is put before and behind the elements of an axis, of which there are so many."""

    axis: int
    before: int
    behind: int
    extent: Any


# Where a gradient comes from, and what must hold for it to be one; None: it always is.
_Term = tuple[Any, Any]


def _mirrored(margin: Margin, at: Any) -> Any:
    """The element that an element of the result is."""
    place, last = at - margin.before, margin.extent - 1
    place = tirx.max(place, -place) if margin.before else place
    return tirx.min(place, 2 * last - place) if margin.behind else place


def _repeated(margin: Margin, at: Any) -> Any:
    place = at - margin.before
    place = tirx.max(place, 0) if margin.before else place
    return tirx.min(place, margin.extent - 1) if margin.behind else place


def _mirrors(margin: Margin, at: Any) -> Iterator[_Term]:
    """The elements of the result that an element is given to."""
    before, behind, last = margin.before, margin.behind, margin.extent - 1
    yield at + before, None
    if before:
        yield before - at, tirx.all(at >= 1, at <= before)
    if behind:
        yield before + 2 * last - at, tirx.all(at >= last - behind, at < last)


def _repetitions(margin: Margin, at: Any) -> Iterator[_Term]:
    before, last = margin.before, margin.extent - 1
    yield at + before, None
    for number in range(before):
        yield number, at == 0
    for number in range(margin.behind):
        yield before + last + 1 + number, at == last


class Kind(NamedTuple):
    """A way to make a margin, and its gradient."""

    element: Callable[[Margin, Any], Any]
    terms: Callable[[Margin, Any], Iterator[_Term]]


MIRRORED = Kind(_mirrored, _mirrors)
REPEATED = Kind(_repeated, _repetitions)


def _padded(kind: Kind, count: int, call: Call, image: Expr, padding: Sequence[int]) -> Expr:
    """The image with its margins, along so many axes."""
    margins = _margins(call, dims(image), padding, count)

    def padded(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            place = [*at]
            for margin in margins:
                place[margin.axis] = kind.element(margin, at[margin.axis])
            return source(*place)

        return te.compute(call.shape, element, name="padded")

    return call.te(padded, image)


def _gradient(
    kind: Kind, count: int, call: Call, gradient: Expr, _image: Expr, padding: Sequence[int]
) -> Expr:
    """Of each element, the sum of what was made of it; halves are rounded once."""
    margins = _margins(call, call.shape, padding, count)
    if not is_float(call.dtype):
        raise TorchError(f"a gradient of {call.dtype}")
    of = wide(call.dtype)
    counts = [len([*kind.terms(margin, tirx.Var("at", "int64"))]) for margin in margins]
    if max(counts, default=0) > MOST_WRITTEN:
        raise TorchError(f"an element that is put in more than {MOST_WRITTEN} places")
    together = prod(counts) <= _MOST_TOGETHER
    passes = [margins] if together else [[margin] for margin in margins]
    for number, each in enumerate(passes, 1):
        gradient = _added(
            kind, call, gradient, each, of, call.dtype if number == len(passes) else of
        )
    return gradient


def _added(
    kind: Kind, call: Call, gradient: Expr, margins: Sequence[Margin], of: str, to: str
) -> Expr:
    """One stage: the sums along some axes."""
    shape = dims(gradient)
    for margin in margins:
        shape[margin.axis] = margin.extent

    def added(given: te.Tensor) -> te.Tensor:
        def total(at: list[Any], left: Sequence[Margin], holds: list[Any]) -> Any:
            if not left:
                value = given(*at).astype(of)
                nothing = immediate(0.0, of)
                return tirx.if_then_else(tirx.all(*holds), value, nothing) if holds else value
            axis, found = left[0].axis, None
            for place, condition in kind.terms(left[0], at[axis]):
                where = [*at[:axis], place, *at[axis + 1 :]]
                now = holds if condition is None else [*holds, condition]
                value = total(where, left[1:], now)
                found = value if found is None else found + value
            return found

        def element(*at: Any) -> Any:
            return total([*at], margins, []).astype(to)

        return te.compute(shape, element, name="gradient")

    return call.te(added, gradient)


def _margins(
    call: Call, extents: Sequence[Any], padding: Sequence[int], count: int
) -> list[Margin]:
    """Those that there are; PyTorch names them from the last axis on."""
    first = len(extents) - count - call.channels_last
    pairs = [(padding[2 * n], padding[2 * n + 1]) for n in reversed(range(count))]
    if not all(isinstance(each, int) for pair in pairs for each in pair):
        raise TorchError("a margin whose size changes")
    if any(each < 0 for pair in pairs for each in pair):
        raise TorchError("a margin that is cut off")
    found = [Margin(first + n, *pair, extents[first + n]) for n, pair in enumerate(pairs)]
    return [margin for margin in found if margin.before or margin.behind]


OPERATORS: dict[str, Converter] = {
    f"{name}_pad{count}d{suffix}": partial(function, kind, count)
    for name, kind in (("reflection", MIRRORED), ("replication", REPEATED))
    for count in (1, 2, 3)
    for suffix, function in (("", _padded), ("_backward", _gradient))
}
