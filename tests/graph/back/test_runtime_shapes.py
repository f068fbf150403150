"""Shapes that are computed at run time: kernels come after them, and get symbols as arguments."""

import numpy as np
import pytest
import tvm
from check import H200, check
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, softmax64

import tvm_stitch

SIZES = np.array([3, 5], "int64")
WEIGHTS = np.linspace(-1, 1, 64)


def shaped(build, expected) -> Case:
    """A graph `build(emit, a, b, sizes, weights)` whose extents a and b lie in the tensor sizes."""
    a, b = tirx.Var("a", "int64"), tirx.Var("b", "int64")
    sizes = relax.Var("sizes", relax.TensorType((2,), "int64"))
    weights = relax.Var("weights", relax.TensorType((64,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [sizes, weights]):
        with builder.dataflow():
            before = builder.emit(op.exp(weights))
            twice = builder.emit(op.multiply(sizes, relax.const(2, "int64")))
            shape = builder.emit(op.tensor_to_shape(twice))
            builder.match_cast(shape, relax.ShapeType([a, b]))
            results = build(builder.emit, a, b, weights)
            output = builder.emit_output(relax.Tuple([before, *results]))
        builder.emit_func_output(output)
    weights32 = WEIGHTS.astype("float32").astype("float64")
    wanted = (np.exp(weights32), *expected(6, 10, weights32))
    return Case(builder.get(), (SIZES, weights32), wanted)


def full(emit, *shape):
    return emit(op.full(relax.ShapeExpr(shape), relax.const(2.0, "float32")))


CASES = {
    "an output has them": (
        lambda emit, a, b, w: [emit(op.exp(full(emit, a, b)))],
        lambda a, b, w: [np.exp(np.full((a, b), 2.0))],
    ),
    "only what is summed has them": (
        lambda emit, a, b, w: [emit(op.sum(full(emit, a, b)))],
        lambda a, b, w: [np.array(2.0 * a * b)],
    ),
    "rows have one": (
        lambda emit, a, b, w: [emit(op.nn.softmax(emit(op.sum(full(emit, a, b), -1))))],
        lambda a, b, w: [softmax64(np.full(a, 2.0 * b))],
    ),
    "what is broadcast along them": (
        lambda emit, a, b, w: [
            emit(op.sum(emit(op.broadcast_to(w, relax.ShapeExpr([a, b, 64]))), -1))
        ],
        lambda a, b, w: [np.full((a, b), w.sum())],
    ),
    "a product of them": (
        lambda emit, a, b, w: [emit(op.exp(emit(op.reshape(full(emit, 4 * a, b), (4 * a * b,)))))],
        lambda a, b, w: [np.exp(np.full(4 * a * b, 2.0))],
    ),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", CASES)
def test_kernels_come_after_the_shapes_that_they_need(name):
    """What needs no shape, such as the exponentials of the weights, may run before or beside."""
    case = shaped(*CASES[name])
    check(case, kernels=None)
    tvm_stitch.compile(case.module, H200)


@pytest.mark.parametrize("name", list(CASES)[:4])
def test_all_of_it_is_stitched(name):
    report = tvm_stitch.explain(shaped(*CASES[name]).module, H200)
    assert "default" not in {kernel.scheme for kernel in report.kernels}


def arange(extent: tirx.Var):
    return lambda emit, x: emit(op.sum(emit(op.arange(0, extent, 1, "float32"))))


def test_a_symbol_of_a_parameter_that_the_kernel_does_not_read():
    rows = tirx.Var("n", "int64")
    case = graph(
        "float32", [((rows, 9), 2)], arange(rows), lambda x: np.array(np.arange(9.0).sum())
    )
    check(case)
    tvm_stitch.compile(case.module, H200)


def test_a_check_of_a_shape_brings_no_symbol():
    """Kernels on both sides of a check may be one: it tells nothing that was not known."""
    rows = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 64), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(op.exp(x))
            same = builder.match_cast(first, relax.TensorType((rows, 64), "float32"))
            output = builder.emit_output(builder.emit(op.sum(same, -1)))
        builder.emit_func_output(output)
    values = np.random.default_rng(0).standard_normal((3, 64)).astype("float32")
    case = Case(builder.get(), (values,), (np.exp(values.astype("float64")).sum(-1),))
    check(case)


def test_a_symbol_that_turns_out_a_number():
    """TVM writes the number everywhere, and its FuseTIR takes no TIR of the symbol there."""
    rows = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((64,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(op.exp(x))
            same = builder.match_cast(first, relax.TensorType((rows,), "float32"))
            output = builder.emit_output(builder.emit(op.sum(builder.emit(op.exp(same)))))
        builder.emit_func_output(output)
    wanted = np.exp(np.exp(WEIGHTS.astype("float32").astype("float64"))).sum()
    check(Case(builder.get(), (WEIGHTS.astype("float32"),), (wanted,)))
    assert isinstance(tvm_stitch.compile(builder.get(), H200), tvm.relax.VMExecutable)


def test_a_shape_that_must_be_that_of_a_parameter():
    """A check when it runs: TVM would put the 4 of `x` in place of `y`'s own extent."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    y = relax.Var("y", relax.TensorType((n, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            cast = builder.match_cast(builder.emit(op.exp(x)), relax.TensorType((n, 8), "float32"))
            output = builder.emit_output(op.nn.softmax(builder.emit(op.add(cast, y))))
        builder.emit_func_output(output)
    module = builder.get()
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((4, 8)), rng.standard_normal((4, 8))
    first, second = (each.astype("float32").astype("float64") for each in (first, second))
    check(Case(module, (first, second), (softmax64(np.exp(first) + second),)), kernels=None)
    with pytest.raises(Exception, match="4"):
        tvm_stitch.verify(module, H200, [first, rng.standard_normal((5, 8))])
