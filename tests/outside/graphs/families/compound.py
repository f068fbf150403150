"""Operators that are several stages: softmax, norms, losses; and patterns of them from models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.families.reductions import axes_of, filled, some_axes, variance
from tests.outside.graphs.graph import Data
from tests.outside.graphs.number import Arithmetic, Noise, Number, cast
from tests.outside.graphs.writer import Skip, Writer


def softmax(how: Arithmetic, x: Number, axes: tuple[int, ...]) -> Number:
    """In the dtype computed in."""
    exps = how.exp(how.sub(x, how.largest(x, axes)))
    return how.div(exps, how.sum(exps, axes))


def _softmax(noise: Noise, x: Number, axis: int = -1) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    return cast(softmax(how, x, axes_of(x, axis)), x.dtype)


def _log_softmax(noise: Noise, x: Number, axis: int = -1) -> Number:
    return cast(_log_softmax_wide(noise, x, axes_of(x, axis)), x.dtype)


def _log_softmax_wide(noise: Noise, x: Number, axes: tuple[int, ...]) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    small = how.sub(x, how.largest(x, axes))
    return how.sub(small, how.log(how.sum(how.exp(small), axes)))


def normal(how: Arithmetic, x: Number, axes: tuple[int, ...], epsilon: float) -> Number:
    """Without its mean, over its deviation."""
    centred = how.sub(x, how.mean(x, axes))
    spread = how.mean(how.mul(centred, centred), axes)
    inverse = how.apply(_inverse_root, how.add(spread, how.number(epsilon)), ulps=3)
    return how.mul(centred, inverse)


def _inverse_root(v: np.ndarray) -> np.ndarray:
    # A variance is never below 0, however far it is off.
    return 1 / np.sqrt(np.where(v < 0, 0, v))


def _affine(
    how: Arithmetic, x: Number, gamma: Number, beta: Number | None, axes: Sequence[int]
) -> Number:
    """x * gamma + beta, which lie along these axes."""
    shape = [extent if place in axes else 1 for place, extent in enumerate(x.value.shape)]
    order = np.argsort(axes)

    def along(g: Number) -> Number:
        return Number(
            g.dtype,
            g.value.transpose(order).reshape(shape),
            g.bound.transpose(order).reshape(shape),
        )

    scaled = how.mul(x, along(gamma))
    return scaled if beta is None else how.add(scaled, along(beta))


def _layer_norm(
    noise: Noise, x: Number, gamma: Number, beta: Number, axes: Any, epsilon: float = 1e-5
) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    along = axes_of(x, axes)
    return cast(_affine(how, normal(how, x, along, epsilon), gamma, beta, along), x.dtype)


def _rms_norm(noise: Noise, x: Number, weight: Number, axes: Any, epsilon: float = 1e-5) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    along = axes_of(x, axes)
    squares = how.mean(how.mul(x, x), along)
    inverse = how.apply(_inverse_root, how.add(squares, how.number(epsilon)), ulps=3)
    return cast(_affine(how, how.mul(x, inverse), weight, None, along), x.dtype)


def _group_norm(
    noise: Noise,
    x: Number,
    gamma: Number,
    beta: Number,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    shape = x.value.shape
    split = (*shape[:channel_axis], num_groups, shape[channel_axis] // num_groups)
    split = (*split, *shape[channel_axis + 1 :])
    grouped = Number(x.dtype, x.value.reshape(split), x.bound.reshape(split))
    along = (channel_axis + 1, *(axis + (axis > channel_axis) for axis in axes))
    found = normal(how, grouped, along, epsilon)
    flat = Number(found.dtype, found.value.reshape(shape), found.bound.reshape(shape))
    return cast(_affine(how, flat, gamma, beta, [channel_axis]), x.dtype)


def _instance_norm(
    noise: Noise,
    x: Number,
    gamma: Number,
    beta: Number,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    found = normal(how, x, axes_of(x, axes), epsilon)
    return cast(_affine(how, found, gamma, beta, [channel_axis]), x.dtype)


def _batch_norm(
    noise: Noise,
    x: Number,
    gamma: Number,
    beta: Number,
    mean: Number,
    var: Number,
    axis: int,
    epsilon: float = 1e-5,
    momentum: float = 0.1,
    training: bool = True,
) -> tuple[Number, Number, Number]:
    how = Arithmetic(noise.computing(x.dtype), noise)
    others = tuple(a for a in range(x.value.ndim) if a != axis)
    shape = [-1 if place == axis else 1 for place in range(x.value.ndim)]

    def along(g: Number) -> Number:
        return Number(g.dtype, g.value.reshape(shape), g.bound.reshape(shape))

    if not training:
        inverse = how.apply(_inverse_root, how.add(var, how.number(epsilon)), ulps=3)
        centred = how.mul(how.sub(x, along(mean)), along(inverse))
        return cast(_affine(how, centred, gamma, beta, [axis]), x.dtype), mean, var
    found = cast(_affine(how, normal(how, x, others, epsilon), gamma, beta, [axis]), x.dtype)
    keep, take = how.number(1 - momentum), how.number(momentum)
    means = how.mean(x, others, keepdims=False)
    spreads = variance(how, x, others, keepdims=False)
    new_mean = how.add(how.mul(mean, keep), how.mul(means, take))
    new_var = how.add(how.mul(var, keep), how.mul(spreads, take))
    return found, cast(new_mean, x.dtype), cast(new_var, x.dtype)


def _cross_entropy(noise: Noise, x: Number, labels: Number) -> Number:
    """Minus the sum of the products, over the first extent where there is a batch."""
    how = Arithmetic(noise.computing(x.dtype), noise)
    total = how.sum(how.mul(x, labels), tuple(range(x.value.ndim)), keepdims=False)
    rows = float(x.value.shape[0]) if x.value.ndim > 1 else 1.0
    return cast(how.apply(lambda v: -v / rows, total), x.dtype)


def _nll_loss(
    noise: Noise,
    x: Number,
    targets: Number,
    weights: Number,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    rows = np.arange(x.value.shape[0])
    chosen = Number(x.dtype, x.value[rows, targets.value], x.bound[rows, targets.value])
    weight = Number(x.dtype, weights.value[targets.value], weights.bound[targets.value])
    losses = how.apply(lambda v: -v, how.mul(chosen, weight))
    if reduction == "none":
        return cast(losses, x.dtype)
    total = how.sum(losses, (0,), keepdims=False)
    if reduction == "sum":
        return cast(total, x.dtype)
    return cast(how.div(total, how.sum(weight, (0,), keepdims=False)), x.dtype)


MEANINGS: dict[str, Callable] = {
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _rms_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.batch_norm": _batch_norm,
    "nn.cross_entropy_with_logits": _cross_entropy,
    "nn.nll_loss": _nll_loss,
}


def _softmax_rule(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = w.axis(x)
    if not filled(w, x, [axis]):
        raise Skip
    w.call(str(w.one_of(("nn.softmax", "nn.softmax", "nn.log_softmax"))), x, axis=axis)


def _norm(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    rank, dtype, shape = w.rank(x), w.dtype(x), w.shape(x)
    axes = sorted(set(some_axes(w, x))) if w.chance(0.25) else [rank - 1]
    way = str(w.one_of(("layer", "layer", "rms", "batch", "group", "instance")))
    if not filled(w, x, range(rank)):
        raise Skip
    epsilon = float(w.one_of((1e-5, 1e-3)))
    if way in ("layer", "rms"):
        along = tuple(shape[axis] for axis in axes)
        gamma = w.input(along, dtype)
        if way == "rms":
            w.call("nn.rms_norm", x, gamma, axes=axes, epsilon=epsilon)
        else:
            w.call("nn.layer_norm", x, gamma, w.input(along, dtype), axes=axes, epsilon=epsilon)
        return
    if rank < 3 and not (way == "batch" and rank == 2):
        raise Skip
    channels = (shape[1],)
    gamma, beta = w.input(channels, dtype), w.input(channels, dtype)
    others = list(range(2, rank))
    if way == "instance":
        w.call("nn.instance_norm", x, gamma, beta, channel_axis=1, axes=others, epsilon=epsilon)
    elif way == "group":
        number = shape[1].constant
        if number is None:
            raise Skip
        groups = int(w.one_of([n for n in (1, 2, 3, 4, 8, number) if number % n == 0]))
        w.call(
            "nn.group_norm", x, gamma, beta, num_groups=groups, channel_axis=1, axes=others,
            epsilon=epsilon,
        )  # fmt: skip
    else:
        mean = w.input(channels, dtype)
        spread = w.input(channels, dtype, Data("positive"))
        call = w.call(
            "nn.batch_norm", x, gamma, beta, mean, spread, axis=1, epsilon=epsilon,
            momentum=0.1, training=w.chance(0.5),
        )  # fmt: skip
        w.items(call)


def _loss(w: Writer) -> None:
    x = w.pick(floating=True, ranks=(1, 2))
    if not filled(w, x, range(w.rank(x))):
        raise Skip
    if w.rank(x) == 1 or w.chance(0.4):
        logs = w.call("nn.log_softmax", x, axis=w.rank(x) - 1)
        w.call("nn.cross_entropy_with_logits", logs, w.input(w.shape(x), w.dtype(x)))
        return
    rows, classes = w.shape(x)
    targets = w.input((rows,), str(w.one_of(("int32", "int64"))), Data("index", classes))
    weights = w.input((classes,), w.dtype(x), Data("positive"))
    w.call("nn.nll_loss", x, targets, weights, reduction=str(w.one_of(("mean", "sum", "none"))))


def _masked_softmax(w: Writer) -> None:
    """Attention's: scaled, masked, with a mask of -inf where data may be extreme."""
    x = w.pick(floating=True, least_rank=1)
    if not filled(w, x, [w.rank(x) - 1]):
        raise Skip
    scaled = w.call("multiply", x, w.number(0.125, x))
    shape = w.narrower(w.shape(x))
    kind = Data("masked") if w.extreme else Data("normal")
    mask = w.input(shape, w.dtype(x), kind)
    w.call("nn.softmax", w.call("add", scaled, mask), axis=w.rank(x) - 1)


def _gated(w: Writer) -> None:
    """silu(a) * b, of two values or of two halves of one."""
    x = w.pick(floating=True, least_rank=1)
    number = w.shape(x)[-1].constant
    if number is not None and number % 2 == 0 and number and w.chance(0.5):
        call = w.call("split", x, indices_or_sections=2, axis=w.rank(x) - 1)
        first, second = w.items(call)
    else:
        first, second = x, w.fitting(x)
    w.call("multiply", w.call(str(w.one_of(("nn.silu", "nn.gelu", "sigmoid"))), first), second)


def _by_hand(w: Writer) -> None:
    """Norms and log-sum-exps as people write them."""
    x = w.pick(floating=True, least_rank=1)
    axes = some_axes(w, x)
    if not filled(w, x, axes):
        raise Skip
    way = str(w.one_of(("l2", "logsumexp", "centre", "range", "squares")))
    if way == "l2":
        total = w.call("sum", w.call("multiply", x, x), axis=axes, keepdims=True)
        w.call("divide", x, w.call("sqrt", w.call("add", total, w.number(1e-3, x))))
    elif way == "logsumexp":
        largest = w.call("max", x, axis=axes, keepdims=True)
        exps = w.call("exp", w.call("subtract", x, largest))
        total = w.call("log", w.call("sum", exps, axis=axes, keepdims=True))
        w.call("add", total, largest)
    elif way == "centre":
        w.call("subtract", x, w.call("mean", x, axis=axes, keepdims=True))
    elif way == "range":
        low = w.call("min", x, axis=axes, keepdims=True)
        high = w.call("max", x, axis=axes, keepdims=True)
        width = w.call("add", w.call("subtract", high, low), w.number(0.25, x))
        w.call("divide", w.call("subtract", x, low), width)
    else:
        w.call("sum", w.call("multiply", x, w.fitting(x)), axis=axes, keepdims=w.chance(0.5))


def _rotary(w: Writer) -> None:
    """Halves of rows are turned: concat([-second, first])."""
    x = w.pick(floating=True, least_rank=1)
    number = w.shape(x)[-1].constant
    if number is None or number < 2 or number % 2:
        raise Skip
    axis = w.rank(x) - 1
    first, second = w.items(w.call("split", x, indices_or_sections=2, axis=axis))
    turned = w.call("concat", [w.call("negative", second), first], axis=axis)
    sine = w.input((Extent.of(number),), w.dtype(x), Data("uniform"))
    w.call("add", x, w.call("multiply", turned, sine))


def _optimizer(w: Writer) -> None:
    """A step of Adam."""
    x = w.pick(floating=True)
    moment = w.input(w.shape(x), w.dtype(x))
    square = w.input(w.shape(x), w.dtype(x), Data("positive"))
    first = w.call(
        "add", w.call("multiply", moment, w.number(0.875, x)),
        w.call("multiply", x, w.number(0.125, x)),
    )  # fmt: skip
    squares = w.call("multiply", w.call("multiply", x, x), w.number(0.0625, x))
    second = w.call("add", w.call("multiply", square, w.number(0.9375, x)), squares)
    step = w.call("divide", first, w.call("add", w.call("sqrt", second), w.number(1e-3, x)))
    w.call("subtract", w.fitting(x), step)


RULES = [
    (_softmax_rule, 3), (_norm, 4), (_loss, 1), (_masked_softmax, 1.5), (_gated, 1.5),
    (_by_hand, 3), (_rotary, 1), (_optimizer, 0.7),
]  # fmt: skip
