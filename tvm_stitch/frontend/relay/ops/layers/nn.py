"""Matrix products, activations, normalisations, losses."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import (
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    dtype,
    rank,
    same_dim,
)

_op = relax.op


# Matrix products


def _swap_last(call: OpCall, value: Expr) -> Expr:
    axes = list(range(rank(value)))
    axes[-2:] = axes[:-3:-1]
    return call.emit(_op.permute_dims(value, axes))


def matmul(call: OpCall, a: Expr, b: Expr, transpose_a: bool, transpose_b: bool) -> Expr:
    """A (batched) matrix product with the call's output dtype."""
    if rank(a) < 2 or rank(b) < 2:
        raise RelayError(f"the operands need rank 2 or more, not {rank(a)} and {rank(b)}")
    a = _swap_last(call, a) if transpose_a else a
    b = _swap_last(call, b) if transpose_b else b
    if not same_dim(dims(a)[-1], dims(b)[-2]):
        raise RelayError(
            f"the operands' inner extents differ: {dims(a)[-1]} and {dims(b)[-2]} "
            f"(shapes {dims(a)} and {dims(b)} after transposition)"
        )
    return _op.matmul(a, b, call.attrs.text("out_dtype") or dtype(a))


def _dense(call: OpCall) -> Expr:
    call.expect(2)
    units = call.attrs.integer("units")
    call.attrs.ignore("weight_layout")
    if units is not None and not same_dim(units, dims(call[1])[0]):
        raise RelayError(f"units={units}, but the weights have shape {dims(call[1])}")
    return matmul(call, call[0], call[1], False, True)


def _matmul(call: OpCall) -> Expr:
    call.expect(2)
    call.attrs.ignore("units")
    attrs = call.attrs
    return matmul(call, call[0], call[1], attrs.flag("transpose_a"), attrs.flag("transpose_b"))


def _batch_matmul(call: OpCall) -> Expr:
    call.expect(2)
    attrs = call.attrs
    left, right = attrs.flag("transpose_a"), attrs.flag("transpose_b", True)
    return matmul(call, call[0], call[1], left, right)


def _dense_pack(call: OpCall) -> Expr:
    """Weights of Relay's own packing, ``NC32n`` or the like, unpacked again."""
    call.expect(2)
    packed = call.attrs.text("weight_layout", "NC")
    call.attrs.ignore("units")
    weight = layouts.rearrange(call, call[1], packed, "NC")
    return matmul(call, call[0], weight, False, True)


# Activations and biases


def along(call: OpCall, vector: Expr, axis: int, like: Expr) -> Expr:
    """A vector shaped to broadcast along one axis of a tensor."""
    ndim = rank(like)
    axis = axis_of(axis, ndim)
    if rank(vector) != 1:
        raise RelayError(f"a vector is needed here, not a tensor of shape {dims(vector)}")
    extent, wanted = dims(vector)[0], dims(like)[axis]
    if not same_dim(extent, wanted) and extent != 1:
        raise RelayError(
            f"a vector of {extent} does not fit axis {axis} of a tensor of shape {dims(like)}"
        )
    if axis == ndim - 1:
        return vector
    return call.emit(_op.reshape(vector, [extent] + [1] * (ndim - 1 - axis)))


def _bias_add(call: OpCall) -> Expr:
    call.expect(2)
    bias = along(call, call[1], call.attrs.integer("axis", 1), call[0])
    return _op.add(call[0], bias)


def _relu(call: OpCall) -> Expr:
    call.expect(1)
    return _op.nn.relu(call[0])


def _leaky_relu(call: OpCall) -> Expr:
    call.expect(1)
    return _op.nn.leakyrelu(call[0], call.attrs.number("alpha", 0.25))


def _prelu(call: OpCall) -> Expr:
    call.expect(2)
    slope = along(call, call[1], call.attrs.integer("axis", 1), call[0])
    value = call[0]
    negative = call.emit(_op.multiply(value, slope))
    positive = call.emit(_op.greater(value, call.like(0, value)))
    return _op.where(positive, value, negative)


def _softmax(function: Callable[..., Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        axis = axis_of(call.attrs.integer("axis", -1), rank(call[0]))
        return function(call[0], axis)

    return operator


def _dropout(call: OpCall) -> Expr:
    """At inference: the data, and a mask that lets all through."""
    call.expect(1)
    call.attrs.ignore("rate")
    return relax.Tuple([call[0], call.emit(_op.ones(dims(call[0]), dtype(call[0])))])


# Normalisations


def _batch_norm(call: OpCall) -> Expr:
    """At inference: the statistics are the given ones, and pass through."""
    call.expect(5)
    data, gamma, beta, mean, variance = call.args
    attrs = call.attrs
    axis, epsilon = attrs.integer("axis", 1), attrs.number("epsilon", 1e-5)
    call.attrs.ignore("momentum")
    shifted = call.emit(_op.add(variance, call.like(epsilon, variance)))
    scale = call.emit(_op.divide(call.like(1, variance), call.emit(_op.sqrt(shifted))))
    if attrs.flag("scale", True):
        scale = call.emit(_op.multiply(gamma, scale))
    offset = call.emit(_op.negative(call.emit(_op.multiply(mean, scale))))
    if attrs.flag("center", True):
        offset = call.emit(_op.add(offset, beta))
    scaled = call.emit(_op.multiply(data, along(call, scale, axis, data)))
    result = call.emit(_op.add(scaled, along(call, offset, axis, data)))
    return relax.Tuple([result, mean, variance])


def _standardize(call: OpCall, value: Expr, axes: list[int]) -> Expr:
    """Mean zero and variance one over the axes, in two passes, as Relay computed it.

    Relax's own norms compute the variance in one pass, which loses the digits that a large mean
    and a small variance have in common.
    """
    epsilon = call.attrs.number("epsilon", 1e-5)
    centered = call.emit(_op.subtract(value, call.emit(_op.mean(value, axes, True))))
    square = call.emit(_op.multiply(centered, centered))
    variance = call.emit(_op.mean(square, axes, True))
    deviation = call.emit(_op.sqrt(call.emit(_op.add(variance, call.like(epsilon, value)))))
    return call.emit(_op.divide(centered, deviation))


def _affine(call: OpCall, value: Expr, axis: int) -> Expr:
    """Times gamma, plus beta, each unless it is switched off."""
    if call.attrs.flag("scale", True):
        value = call.emit(_op.multiply(value, along(call, call[1], axis, value)))
    if call.attrs.flag("center", True):
        value = call.emit(_op.add(value, along(call, call[2], axis, value)))
    return value


def _layer_norm(call: OpCall) -> Expr:
    call.expect(3)
    axis = axis_of(call.attrs.integer("axis", -1), rank(call[0]))
    return _affine(call, _standardize(call, call[0], [axis]), axis)


def _instance_norm(call: OpCall) -> Expr:
    call.expect(3)
    data = call[0]
    channel = axis_of(call.attrs.integer("axis", 1), rank(data))
    axes = [i for i in range(rank(data)) if i not in (0, channel)]
    return _affine(call, _standardize(call, data, axes), channel)


def _group_norm(call: OpCall) -> Expr:
    call.expect(3)
    data = call[0]
    shape, channel = dims(data), axis_of(call.attrs.integer("axis", 1), rank(data))
    groups, channels = call.attrs.integer("num_groups", 0), shape[channel]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise RelayError(f"{groups} groups do not divide {channels} channels")
    grouped = [*shape[:channel], groups, channels // groups, *shape[channel + 1 :]]
    axes = [i for i in range(len(grouped)) if i not in (0, channel)]
    result = _standardize(call, call.emit(_op.reshape(data, grouped)), axes)
    return _affine(call, call.emit(_op.reshape(result, shape)), channel)


def _l2_normalize(call: OpCall) -> Expr:
    call.expect(1)
    value = call[0]
    axes = [axis_of(a, rank(value)) for a in call.attrs.integers("axis") or []]
    axes = axes or list(range(rank(value)))
    square = call.emit(_op.sum(call.emit(_op.multiply(value, value)), axes, True))
    floor = call.like(call.attrs.number("eps", 1e-12), value)
    return _op.divide(value, call.emit(_op.sqrt(call.emit(_op.maximum(square, floor)))))


def _lrn(call: OpCall) -> Expr:
    call.expect(1)
    attrs = call.attrs
    size, axis = attrs.integer("size", 5), axis_of(attrs.integer("axis", 1), rank(call[0]))
    numbers = [attrs.number("alpha", 1e-4), attrs.number("beta", 0.75), attrs.number("bias", 2.0)]
    return call.te(lambda a: topi.nn.lrn(a, size, axis, *numbers), call[0])


# Losses


def _cross_entropy(with_logits: bool) -> OperatorFunction:
    """The mean over the batch of the summed products of targets and log probabilities."""

    def operator(call: OpCall) -> Expr:
        call.expect(2)
        logarithms = call[0] if with_logits else call.emit(_op.log(call[0]))
        total = call.emit(_op.sum(call.emit(_op.multiply(logarithms, call[1]))))
        batch = dims(call[0])[0]
        if not isinstance(batch, int):
            raise RelayError("a symbolic batch is not read here")
        return _op.divide(call.emit(_op.negative(total)), call.like(batch, call[0]))

    return operator


def _nll_loss(call: OpCall) -> Expr:
    call.expect(3)
    reduction = call.attrs.text("reduction", "mean")
    ignored = call.attrs.integer("ignore_index", -100)
    return _op.nn.nll_loss(call[0], call[1], call[2], reduction, ignored)


OPERATORS: dict[str, OperatorFunction] = {
    "nn.batch_matmul": _batch_matmul,
    "nn.batch_norm": _batch_norm,
    "nn.bias_add": _bias_add,
    "nn.contrib_dense_pack": _dense_pack,
    "nn.cross_entropy": _cross_entropy(False),
    "nn.cross_entropy_with_logits": _cross_entropy(True),
    "nn.dense": _dense,
    "nn.dropout": _dropout,
    "nn.fast_softmax": _softmax(_op.nn.softmax),
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.layer_norm": _layer_norm,
    "nn.leaky_relu": _leaky_relu,
    "nn.log_softmax": _softmax(_op.nn.log_softmax),
    "nn.lrn": _lrn,
    "nn.matmul": _matmul,
    "nn.nll_loss": _nll_loss,
    "nn.prelu": _prelu,
    "nn.relu": _relu,
    "nn.softmax": _softmax(_op.nn.softmax),
}
