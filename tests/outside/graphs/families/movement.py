"""Elements go elsewhere and stay what they are: views, slices, repetitions, concatenation.

Without slice_scatter, whose source TVM's own legalisation reads past its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.number import Noise, Number, exact
from tests.outside.graphs.writer import Skip, Writer, broadcast


def moved(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Number], Number]:
    """A function of where elements are, applied to values and bounds alike."""
    return lambda x: Number(x.dtype, function(x.value), function(x.bound))


def joined(function: Callable[[Sequence[np.ndarray]], np.ndarray], xs: Sequence[Number]) -> Number:
    """The same for several tensors."""
    return Number(xs[0].dtype, function([x.value for x in xs]), function([x.bound for x in xs]))


def _reshape(noise: Noise, x: Number, shape: Sequence[int]) -> Number:
    return moved(lambda v: v.reshape(tuple(shape)))(x)


def _split(noise: Noise, x: Number, indices_or_sections: Any, axis: int = 0) -> tuple[Number, ...]:
    where = indices_or_sections
    values = np.split(x.value, where, axis)
    bounds = np.split(x.bound, where, axis)
    return tuple(Number(x.dtype, v, b) for v, b in zip(values, bounds, strict=True))


def _slice(
    noise: Noise,
    x: Number,
    axes: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    assume_inbound: bool = False,
) -> Number:
    window = [slice(None)] * x.value.ndim
    steps = strides or [1] * len(axes)
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        # A reversed slice ends before index 0, which Python cannot write as a number.
        window[axis] = slice(first, None if step < 0 and last < 0 else last, step)
    return moved(lambda v: v[tuple(window)])(x)


def _pad(
    noise: Noise,
    x: Number,
    pad_width: Sequence[int],
    pad_mode: str = "constant",
    pad_value: float = 0.0,
) -> Number:
    widths = [tuple(pad_width[place : place + 2]) for place in range(0, len(pad_width), 2)]
    value = np.pad(x.value, widths, constant_values=np.asarray(pad_value).astype(x.value.dtype))
    return Number(x.dtype, value, np.pad(x.bound, widths))


def _triangle(function: Callable) -> Callable:
    def meaning(noise: Noise, x: Number, k: int = 0) -> Number:
        kept = function(np.ones(x.value.shape[-2:], bool), k)
        value = np.where(kept, x.value, 0).astype(x.value.dtype)
        return Number(x.dtype, value, np.where(kept, x.bound, 0))

    return meaning


def _pixel_shuffle(noise: Noise, x: Number, upscale_factor: int) -> Number:
    r = upscale_factor

    def shuffle(v: np.ndarray) -> np.ndarray:
        n, c, h, w = v.shape
        split = v.reshape(n, c // (r * r), r, r, h, w)
        return split.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)

    return moved(shuffle)(x)


def _meshgrid(noise: Noise, xs: Sequence[Number], indexing: str = "ij") -> tuple[Number, ...]:
    values = np.meshgrid(*(x.value for x in xs), indexing="ij")
    bounds = np.meshgrid(*(x.bound for x in xs), indexing="ij")
    parts = zip(xs, values, bounds, strict=True)
    return tuple(Number(x.dtype, value, bound) for x, value, bound in parts)


MEANINGS: dict[str, Callable] = {
    "reshape": _reshape,
    "flatten": lambda noise, x: moved(np.ravel)(x),
    "nn.batch_flatten": lambda noise, x: moved(
        lambda v: v.reshape(v.shape[0], int(np.prod(v.shape[1:], dtype="int64")))
    )(x),
    "expand_dims": lambda noise, x, axis: moved(lambda v: np.expand_dims(v, axis))(x),
    "squeeze": lambda noise, x, axis: moved(lambda v: np.squeeze(v, tuple(axis)))(x),
    "permute_dims": lambda noise, x, axes: moved(lambda v: v.transpose(axes))(x),
    "broadcast_to": lambda noise, x, shape: moved(lambda v: np.broadcast_to(v, tuple(shape)))(x),
    "flip": lambda noise, x, axis: moved(lambda v: np.flip(v, axis))(x),
    "tile": lambda noise, x, repeats: moved(lambda v: np.tile(v, repeats))(x),
    "repeat": lambda noise, x, repeats, axis: moved(lambda v: np.repeat(v, repeats, axis))(x),
    "concat": lambda noise, xs, axis=0: joined(lambda vs: np.concatenate(vs, axis), xs),
    "stack": lambda noise, xs, axis=0: joined(lambda vs: np.stack(vs, axis), xs),
    "split": _split,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "tril": _triangle(np.tril),
    "triu": _triangle(np.triu),
    "nn.pixel_shuffle": _pixel_shuffle,
    "meshgrid": _meshgrid,
    "nn.dropout": lambda noise, x, rate: (x, exact(np.ones(x.value.shape), x.dtype)),
}


def _view(w: Writer) -> None:
    x = w.pick()
    shape = list(w.shape(x))
    way = str(w.one_of(("merge", "merge", "split", "split", "flatten", "expand", "squeeze")))
    if way in ("merge", "split") and Extent.of(0) in shape:
        raise Skip  # TVM takes a 0 in a new shape for the extent that was there
    if way == "merge" and len(shape) > 1:
        at = int(w.rng.integers(len(shape) - 1))
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
        w.call("reshape", x, shape=tuple(shape))
    elif way == "split" and 0 < len(shape) < 5:
        at = int(w.rng.integers(len(shape)))
        shape[at : at + 1] = _halves(w, shape[at])
        w.call("reshape", x, shape=tuple(shape))
    elif way == "flatten" and shape:
        if len(shape) > 1 and w.chance(0.3):
            w.call("nn.batch_flatten", x)
        else:
            w.call("flatten", x)
    elif way == "expand":
        w.call("expand_dims", x, axis=int(w.rng.integers(len(shape) + 1)))
    elif way == "squeeze" and Extent.of(1) in shape:
        axes = [axis for axis, extent in enumerate(shape) if extent == Extent.of(1)]
        w.call("squeeze", x, axis=axes)
    else:
        raise Skip


def _halves(w: Writer, extent: Extent) -> list[Extent]:
    """Two factors of an extent."""
    number = extent.constant
    if number is not None:
        factors = [n for n in range(1, number + 1) if number % n == 0]
        factor = int(w.one_of(factors))
        return [Extent.of(factor), Extent.of(number // factor)]
    factor, rest = _taken_out(extent)
    pair = [Extent.of(factor), rest] if factor > 1 else _symbols_apart(extent)
    return pair if w.chance(0.5) else pair[::-1]


def _taken_out(extent: Extent) -> tuple[int, Extent]:
    """The greatest number that divides an extent, and what remains."""
    factor = int(np.gcd.reduce([number for _, number in extent.terms]))
    rest = Extent(tuple((monomial, number // factor) for monomial, number in extent.terms))
    return factor, rest


def _symbols_apart(extent: Extent) -> list[Extent]:
    if len(extent.terms) == 1 and len(extent.terms[0][0]) > 1:
        first, *others = extent.terms[0][0]
        rest = Extent.of(1)
        for name in others:
            rest = rest * Extent.symbol(name)
        return [Extent.symbol(first), rest]
    return [Extent.of(1), extent]


def _transpose(w: Writer) -> None:
    x = w.pick(least_rank=2)
    if w.chance(0.4):
        axes = [*range(w.rank(x) - 2), w.rank(x) - 1, w.rank(x) - 2]
    else:
        axes = [int(axis) for axis in w.rng.permutation(w.rank(x))]
    w.call("permute_dims", x, axes=axes)


def _broadcast(w: Writer) -> None:
    x = w.pick()
    shapes = [w.shape(place) for place in w.places if w.shape(place) != w.shape(x)]
    wider = [shape for shape in shapes if broadcast(w.shape(x), shape) == shape]
    w.call("broadcast_to", x, shape=w.one_of(wider))


def _window(w: Writer) -> None:
    x = w.pick(least_rank=1)
    axis = w.axis(x)
    least = min(w.shape(x)[axis].size(sizes) for sizes in w.bindings)
    if least < 2:
        raise Skip
    way = str(w.one_of(("part", "part", "rest", "strided", "reversed")))
    if way == "rest":
        first = int(w.rng.integers(1, least))
        last = w.shape(x)[axis]
        w.call("strided_slice", x, axes=[axis], begin=[first], end=[last], assume_inbound=True)
        return
    if w.shape(x)[axis].constant is None:
        # Of a symbolic extent only what every size has, or TVM's shape would be a minimum.
        first = int(w.rng.integers(least))
        last = int(w.rng.integers(first, least)) + 1
        w.call("strided_slice", x, axes=[axis], begin=[first], end=[last], assume_inbound=True)
    elif way == "reversed":
        w.call("strided_slice", x, axes=[axis], begin=[least - 1], end=[-least - 1], strides=[-1])
    else:
        first = int(w.rng.integers(least))
        last = int(w.rng.integers(first, least)) + 1
        step = int(w.one_of((2, 3))) if way == "strided" else 1
        w.call("strided_slice", x, axes=[axis], begin=[first], end=[last], strides=[step])


def _join(w: Writer) -> None:
    x = w.pick(least_rank=1)
    axis = w.axis(x)
    fits = [other for other in w.places if _joins(w, x, other, axis)]
    others = [int(w.one_of(fits)) for _ in range(int(w.rng.integers(1, 4)))]
    if w.chance(0.3):
        shape = list(w.shape(x))
        shape[axis] = Extent.of(int(w.one_of((1, 2, 3, 5))))
        others.append(w.input(tuple(shape), w.dtype(x)))
    if w.chance(0.25) and w.rank(x) < 5:
        same = [other for other in others if w.shape(other) == w.shape(x)]
        w.call("stack", [x, *same], axis=int(w.rng.integers(w.rank(x) + 1)))
    else:
        w.call("concat", [x, *others], axis=axis)


def _joins(w: Writer, x: int, other: int, axis: int) -> bool:
    if w.dtype(x) != w.dtype(other) or w.rank(x) != w.rank(other):
        return False
    pairs = enumerate(zip(w.shape(x), w.shape(other), strict=True))
    return all(a == b for place, (a, b) in pairs if place != axis)


def _parts(w: Writer) -> None:
    x = w.pick(least_rank=1)
    axis = w.axis(x)
    extent = w.shape(x)[axis]
    number = extent.constant
    if number is None:
        factor, _ = _taken_out(extent)
        if factor < 2:
            raise Skip
        call = w.call("split", x, indices_or_sections=factor, axis=axis)
    elif number > 2 and w.chance(0.4):
        cuts = sorted({int(w.rng.integers(1, number)) for _ in range(2)})
        call = w.call("split", x, indices_or_sections=cuts, axis=axis)
    else:
        factors = [n for n in (2, 3, 4, 5, 7) if number % n == 0 and number >= n]
        call = w.call("split", x, indices_or_sections=int(w.one_of(factors)), axis=axis)
    w.items(call)


def _more(w: Writer) -> None:
    x = w.pick(least_rank=1)
    way = str(w.one_of(("flip", "tile", "repeat", "pad", "pad", "pad")))
    axis = w.axis(x)
    if way == "flip":
        w.call("flip", x, axis=axis)
    elif way == "tile":
        w.call("tile", x, repeats=[2 if place == axis else 1 for place in range(w.rank(x))])
    elif way == "repeat":
        w.call("repeat", x, repeats=int(w.one_of((2, 3))), axis=axis)
    elif way == "pad" and w.dtype(x) != "bool":
        widths = [0] * (2 * w.rank(x))
        widths[2 * axis] = int(w.rng.integers(0, 3))
        widths[2 * axis + 1] = int(w.rng.integers(0, 3))
        fill = float(w.one_of((0.0, 0.0, 1.0)))
        w.call("nn.pad", x, pad_width=widths, pad_value=fill)
    else:
        raise Skip


def _triangles(w: Writer) -> None:
    x = w.pick(least_rank=2)
    if w.dtype(x) == "bool":
        raise Skip
    w.call(str(w.one_of(("tril", "triu"))), x, k=int(w.rng.integers(-2, 3)))


def _rare(w: Writer) -> None:
    if w.chance(0.4):
        x = w.pick(ranks=(4,))
        if w.shape(x)[1].constant is None:
            raise Skip  # TVM's inference ends the process for channels that are symbolic
        w.call("nn.pixel_shuffle", x, upscale_factor=2)
    elif w.chance(0.5):
        x, y = w.pick(ranks=(1,)), w.pick(ranks=(1,))
        w.items(w.call("meshgrid", [x, y], indexing="ij"))
    else:
        x = w.pick(floating=True)
        w.item(w.call("nn.dropout", x, rate=0.5), 0)


RULES = [
    (_view, 5), (_transpose, 3), (_broadcast, 1), (_window, 3), (_join, 3), (_parts, 2),
    (_more, 3), (_triangles, 0.7), (_rare, 0.7),
]  # fmt: skip
