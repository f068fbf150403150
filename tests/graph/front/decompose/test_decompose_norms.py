"""Norms, losses and softmax over channels: axes, layouts, parameters, symbolic shapes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from decompose_helpers import Case, check, error, module, operators, run, sample
from tvm import relax
from tvm.relax import op
from tvm.relax.op import nn

from tvm_stitch.graph.front.decompose import Decompose, worth_decomposing

IMAGE = (2, 6, 5, 7)
VECTOR = (6,)


def standardized(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def by_channel(vector, rank=4, channel=1):
    return vector.reshape([-1 if axis == channel else 1 for axis in range(rank)])


def grouped(x, gamma, beta, groups):
    rows = x.reshape(x.shape[0], groups, -1)
    return standardized(rows, -1).reshape(x.shape) * by_channel(gamma) + by_channel(beta)


NORMS = {
    "layer_norm_two_axes": Case(
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-2, -1]),
        lambda x, g, b: standardized(x, (2, 3)) * g + b,
        (IMAGE, (5, 7), (5, 7)),
    ),
    "layer_norm_without_parameters": Case(
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1], center=False, scale=False),
        lambda x, g, b: standardized(x, -1),
        ((4, 33), (33,), (33,)),
    ),
    "group_norm": Case(
        lambda x, g, b: nn.group_norm(x, g, b, num_groups=3, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: grouped(x, g, b, 3),
        (IMAGE, VECTOR, VECTOR),
    ),
    "instance_norm": Case(
        lambda x, g, b: nn.instance_norm(x, g, b, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: standardized(x, (2, 3)) * by_channel(g) + by_channel(b),
        (IMAGE, VECTOR, VECTOR),
    ),
    "instance_norm_of_one_sample": Case(
        lambda x, g, b: nn.instance_norm(x, g, b, channel_axis=1, axes=[0, 2, 3]),
        lambda x, g, b: standardized(x, (2, 3)) * by_channel(g) + by_channel(b),
        ((1, 6, 5, 7), VECTOR, VECTOR),
    ),
    "rms_norm_two_axes": Case(
        lambda x, g: nn.rms_norm(x, g, axes=[-2, -1]),
        lambda x, g: x / np.sqrt((x * x).mean((2, 3), keepdims=True) + 1e-5) * g,
        (IMAGE, (5, 7)),
    ),
}


@pytest.mark.spread(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("name", NORMS)
def test_norms_match_float64(name, dtype):
    check(NORMS[name], NORMS[name].shapes, dtype)


def batch_norm(training):
    """Build and meaning of a batch norm over channels, with its moved statistics."""

    def build(x, g, b, m, v):
        return nn.batch_norm(x, g, b, m, v, axis=1, momentum=0.25, training=training)

    def meaning(x, g, b, m, v):
        mean, variance = (x.mean((0, 2, 3)), x.var((0, 2, 3))) if training else (m, v)
        normal = (x - by_channel(mean)) / np.sqrt(by_channel(variance) + 1e-5)
        moved = (0.75 * m + 0.25 * mean, 0.75 * v + 0.25 * variance) if training else (m, v)
        return (normal * by_channel(g) + by_channel(b), *moved)

    return Case(build, meaning, (IMAGE, VECTOR, VECTOR, VECTOR, VECTOR), around_one=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_batch_norm_of_inference_is_element_wise(dtype):
    case = batch_norm(training=False)
    check(case, case.shapes, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_batch_norm_of_training_is_written_out(dtype):
    case = batch_norm(training=True)
    check(case, case.shapes, dtype)


def losses(x, targets, weights, ignore_index):
    rows = np.arange(len(targets))
    counted = targets != ignore_index
    classes = np.where(counted, targets, 0)
    counts = np.where(counted, weights[classes], 0.0)
    return np.where(counted, -x[rows, classes] * counts, 0.0), counts


def nll_module(dtype, weighted, reduction, ignore_index, of_log_softmax, rows=5, classes=33):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, classes), dtype))
    targets = relax.Var("targets", relax.TensorType((rows,), "int64"))
    weights = relax.Var("weights", relax.TensorType((classes,), dtype))
    with builder.function("main", [x, targets, weights]):
        with builder.dataflow():
            logs = builder.emit(nn.log_softmax(x)) if of_log_softmax else x
            loss = nn.nll_loss(
                logs,
                targets,
                weights if weighted else None,
                reduction=reduction,
                ignore_index=ignore_index,
            )
            result = builder.emit_output(loss)
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.spread(6)
@pytest.mark.parametrize("of_log_softmax", [True, False])
@pytest.mark.parametrize(("dtype", "ignore_index"), [("float32", 3), ("float16", -100)])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
def test_nll_loss_matches_float64(dtype, weighted, reduction, ignore_index, of_log_softmax):
    mod = nll_module(dtype, weighted, reduction, ignore_index, of_log_softmax)
    x, weights = sample([(5, 33), (33,)], dtype)
    targets = np.array([32, ignore_index, 0, 7, ignore_index])
    written = Decompose()(mod)
    # A row that is being computed is masked where it is; one that lies in memory is looked up.
    assert ("relax.gather_elements" in operators(written)) != of_log_softmax
    assert ("relax.one_hot" in operators(written)) == of_log_softmax

    exact = x.astype("float64")
    if of_log_softmax:
        exact -= np.log(np.exp(exact).sum(-1, keepdims=True))
    scale = weights.astype("float64") if weighted else np.ones(33)
    values, counts = losses(exact, targets, scale, ignore_index)
    expected = {"none": values, "sum": values.sum(), "mean": values.sum() / counts.sum()}[reduction]
    (actual,) = run(written, [x, targets, weights])
    assert error(actual, np.asarray(expected)) <= {"float32": 2e-6, "float16": 3e-3}[dtype]


@pytest.mark.parametrize(("shape", "dtype"), [((5,), "float32"), ((2, 5, 3), "float16")])
def test_nll_loss_of_one_sample_and_of_pixels(shape, dtype):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    targets = relax.Var(
        "targets", relax.TensorType(shape[:1] * (len(shape) > 1) + shape[2:], "int32")
    )
    with builder.function("main", [x, targets]):
        builder.emit_func_output(builder.emit(nn.nll_loss(x, targets)))
    written = Decompose()(builder.get())
    assert "relax.nn.nll_loss" not in operators(written)

    (values,) = sample([shape], dtype)
    classes = np.array([[3, 0, 4], [1, 1, 2]], "int32") if len(shape) > 1 else np.array(2, "int32")
    (actual,) = run(written, [values, classes])
    axis = min(1, len(shape) - 1)
    picked = np.take_along_axis(values.astype("float64"), np.expand_dims(classes, axis), axis)
    assert error(actual, -picked.mean()) <= {"float32": 2e-6, "float16": 1e-3}[dtype]


def softmax_call(shape, axis, dtype):
    return nn.softmax(relax.Var("x", relax.TensorType(shape, dtype)), axis)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "expected"),
    [
        ((4, 33), -1, "float32", True),
        ((4, 33), 1, "float16", True),
        ((2, 6, 5, 7), 1, "float32", False),
        ((2, 6, 1, 1), 1, "float32", True),
        ((2, 6, 5, 7), 1, "float64", False),
        # TVM would add up the powers in half precision.
        ((2, 6, 5, 7), 1, "float16", True),
        ((2, 6, 5, 7), 1, "bfloat16", True),
    ],
)
def test_rows_are_worth_it_and_columns_only_in_half(shape, axis, dtype, expected):
    assert worth_decomposing(softmax_call(shape, axis, dtype)) is expected


def test_worth_of_other_operators():
    image = relax.Var("x", relax.TensorType((2, 6, 5, 7), "float32"))
    vectors = [relax.Var(name, relax.TensorType((6,), "float32")) for name in "gbmv"]
    assert worth_decomposing(nn.gelu(image))
    assert worth_decomposing(nn.batch_norm(image, *vectors, axis=1, training=True))
    assert worth_decomposing(op.variance(image, [2, 3]))
    assert not worth_decomposing(op.variance(image, [0, 2]))
    assert not worth_decomposing(nn.layer_norm(image, *vectors[:2], axes=[1]))


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float16", False), ("float32", False), ("bfloat16", True)]
)
def test_layer_norm_of_channels_is_written_out_where_tvm_refuses_it(dtype, expected):
    case = Case(
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[1]),
        lambda x, g, b: standardized(x, 1) * by_channel(g) + by_channel(b),
        (IMAGE, VECTOR, VECTOR),
    )
    mod = module(case.build, case.shapes, dtype)
    assert ("relax.nn.layer_norm" not in operators(Decompose()(mod))) == expected
    if expected:
        check(case, case.shapes, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_group_norm_of_channels_last_is_written_out(dtype):
    def meaning(x, g, b):
        rows = x.reshape(2, 5, 7, 3, 2)
        return standardized(rows, (1, 2, 4)).reshape(x.shape) * g + b

    case = Case(
        lambda x, g, b: nn.group_norm(x, g, b, num_groups=3, channel_axis=3, axes=[1, 2]),
        meaning,
        ((2, 5, 7, 6), VECTOR, VECTOR),
    )
    mod = module(case.build, case.shapes, dtype)
    assert "relax.nn.group_norm" not in operators(Decompose()(mod))
    check(case, case.shapes, dtype)


SYMBOLIC = {
    "softmax": (nn.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), ["nm"]),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1]),
        lambda x, g, b: standardized(x, -1) * g + b,
        ["nm", "m", "m"],
    ),
    "group_norm": (
        lambda x, g, b: nn.group_norm(x, g, b, num_groups=3, channel_axis=1, axes=[2, 3]),
        lambda x, g, b: grouped(x, g, b, 3),
        ["n6hw", "6", "6"],
    ),
    "variance": (lambda x: op.variance(x, -1), lambda x: x.var(-1), ["nm"]),
    "mean": (op.mean, np.mean, ["nm"]),
    "cross_entropy": (
        nn.cross_entropy_with_logits,
        lambda x, y: -(x * y).sum() / len(x),
        ["nm", "nm"],
    ),
}
SIZES = {"n": 3, "m": 33, "h": 5, "w": 7, "6": 6}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_shapes(name, dtype):
    build, meaning, letters = SYMBOLIC[name]
    symbols = {letter: tvm.tirx.Var(letter, "int64") for letter in "nmhw"}
    shapes = [tuple(symbols.get(letter, 6) for letter in word) for word in letters]
    mod = Decompose()(module(build, shapes, dtype))
    inputs = sample([tuple(SIZES[letter] for letter in word) for word in letters], dtype)
    (actual,) = run(mod, inputs)
    expected = np.asarray(meaning(*[value.astype("float64") for value in inputs]))
    assert error(actual, expected) <= {"float32": 2e-6, "float16": 6e-4}[dtype]
