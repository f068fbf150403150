"""Layer, RMS, group, instance and batch norm as row statistics and element-wise stages.

Statistics are two-pass: the mean, then the mean of the squared deviations from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import (
    Stages,
    dtype_of,
    normalized_axes,
    rank_of,
    shape_of,
    without_units,
)


def layer_norm(call: Call, stage: Stages) -> Expr | None:
    """Rows to mean 0 and variance 1, then gamma and beta over the normalised axes."""
    x, gamma, beta = (stage.widen(argument) for argument in call.args)
    axes = _written_axes(call)
    if axes is None:
        return None
    normal = _normalized(x, axes, call, stage)
    gamma, beta = _over_axes((gamma, beta), axes, rank_of(x), stage)
    return _affine(normal, gamma, beta, call, stage)


def rms_norm(call: Call, stage: Stages) -> Expr | None:
    """x / sqrt(mean(x^2) + epsilon) * weight."""
    axes = _written_axes(call)
    if axes is None:
        return None
    x, weight = (stage.widen(argument) for argument in call.args)
    power = stage(op.mean, stage(op.square, x), axis=axes, keepdims=True)
    normal = stage(op.multiply, x, _inverse_root(power, call, stage))
    (weight,) = _over_axes((weight,), axes, rank_of(x), stage)
    return stage.result(dtype_of(call), op.multiply, normal, weight)


def instance_norm(call: Call, stage: Stages) -> Expr:
    """Every channel of every sample to mean 0 and variance 1, then gamma and beta by channel."""
    x, gamma, beta = (stage.widen(argument) for argument in call.args)
    rank = rank_of(x)
    channel = int(call.attrs.channel_axis) % rank
    axes = without_units(normalized_axes(call.attrs.axes, rank), shape_of(x))
    normal = _normalized(x, axes, call, stage)
    return _affine(
        normal, stage.along(gamma, channel, rank), stage.along(beta, channel, rank), call, stage
    )


def group_norm(call: Call, stage: Stages) -> Expr:
    """Groups of channels to mean 0 and variance 1, then gamma and beta by channel."""
    x, gamma, beta = (stage.widen(argument) for argument in call.args)
    shape, rank = shape_of(x), rank_of(x)
    channel = int(call.attrs.channel_axis) % rank
    axes = normalized_axes(call.attrs.axes, rank)
    grouped_shape, grouped_axes = _grouped(shape, channel, axes, int(call.attrs.num_groups))
    grouped = stage.reshape(x, grouped_shape)
    normal = stage.reshape(_normalized(grouped, grouped_axes, call, stage), shape)
    return _affine(
        normal, stage.along(gamma, channel, rank), stage.along(beta, channel, rank), call, stage
    )


def batch_norm(call: Call, stage: Stages) -> Expr:
    """Channels to the statistics of the batch (training) or the moving ones (inference)."""
    x, gamma, beta, moving_mean, moving_variance = (stage.widen(arg) for arg in call.args)
    rank = rank_of(x)
    channel = int(call.attrs.axis) % rank
    axes = [axis for axis in range(rank) if axis != channel]
    training = bool(call.attrs.training)
    mean = stage(op.mean, x, axis=axes) if training else moving_mean
    centred = stage(op.subtract, x, stage.along(mean, channel, rank))
    variance = stage(op.mean, stage(op.square, centred), axis=axes) if training else moving_variance

    # gamma and the deviation meet as vectors: one product less for every element of x.
    gain = _inverse_root(variance, call, stage)
    if call.attrs.scale and not stage.is_filled_with(gamma, 1):
        gain = stage(op.multiply, gain, gamma)
    normal = stage(op.multiply, centred, stage.along(gain, channel, rank))
    if call.attrs.center and not stage.is_filled_with(beta, 0):
        normal = stage(op.add, normal, stage.along(beta, channel, rank))
    normal = stage.cast(normal, dtype_of(call.args[0]))
    if not training:
        return relax.Tuple([normal, call.args[3], call.args[4]])

    momentum = float(call.attrs.momentum)
    moved = [
        stage.cast(
            stage(op.add, stage(op.multiply, old, 1 - momentum), stage(op.multiply, new, momentum)),
            dtype_of(argument),
        )
        for argument, old, new in (
            (call.args[3], moving_mean, mean),
            (call.args[4], moving_variance, variance),
        )
    ]
    return relax.Tuple([normal, *moved])


def _written_axes(call: Call) -> list[int] | None:
    """The normalised axes, or None where gamma would need transposing to follow their order."""
    rank = rank_of(call.args[0])
    axes = [int(axis) % rank for axis in call.attrs.axes]
    return axes if axes == sorted(axes) else None


def _normalized(x: Expr, axes: Sequence[int], call: Call, stage: Stages) -> Expr:
    mean = stage(op.mean, x, axis=list(axes), keepdims=True)
    centred = stage(op.subtract, x, mean)
    variance = stage(op.mean, stage(op.square, centred), axis=list(axes), keepdims=True)
    return stage(op.multiply, centred, _inverse_root(variance, call, stage))


def _inverse_root(variance: Expr, call: Call, stage: Stages) -> Expr:
    return stage(op.rsqrt, stage(op.add, variance, float(call.attrs.epsilon)))


def _over_axes(
    vectors: Sequence[Expr], axes: Sequence[int], rank: int, stage: Stages
) -> list[Expr]:
    """Parameters shaped like the normalised axes, made to broadcast against the whole tensor."""
    if list(axes) == list(range(rank - len(axes), rank)):
        return list(vectors)
    shaped = []
    for vector in vectors:
        extents = iter(shape_of(vector))
        shape = [next(extents) if axis in axes else 1 for axis in range(axes[0], rank)]
        shaped.append(stage.reshape(vector, shape))
    return shaped


def _affine(normal: Expr, gamma: Expr, beta: Expr, call: Call, stage: Stages) -> Expr:
    """normal * gamma + beta, as far as the operator's scale and center ask for them."""
    steps = []
    if call.attrs.scale and not stage.is_filled_with(gamma, 1):
        steps.append((op.multiply, gamma))
    if call.attrs.center and not stage.is_filled_with(beta, 0):
        steps.append((op.add, beta))
    if not steps:
        return stage.cast(normal, dtype_of(call.args[0]))
    *inner, (operator, parameter) = steps
    for step, operand in inner:
        normal = stage(step, normal, operand)
    return stage.result(dtype_of(call.args[0]), operator, normal, parameter)


def _grouped(
    shape: Sequence[Any], channel: int, axes: Sequence[int], groups: int
) -> tuple[list[Any], list[int]]:
    """The shape with its channels split into groups, and the axes that make up one group."""
    rank = len(shape)
    size = shape[channel] // groups
    if [channel, *axes] == list(range(channel, rank)):
        for extent in shape[channel + 1 :]:
            size = size * extent
        return [*shape[:channel], groups, size], [channel + 1]
    split = [*shape[:channel], groups, size, *shape[channel + 1 :]]
    return split, sorted([channel + 1, *(axis + (axis > channel) for axis in axes)])
