"""Where the largest and the smallest elements stand."""

import numpy as np
import pytest
from check import DTYPES, H200, check
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph, graph_of

from tvm_stitch import verify

POSITIONS = {"argmax": (op.argmax, np.argmax), "argmin": (op.argmin, np.argmin)}


def position(name: str, shape: tuple, dtype: str, values=None, axis=-1, keepdims=False):
    relaxed, numpy = POSITIONS[name]
    return graph_of(
        [(shape, dtype, values)],
        lambda emit, x: emit(relaxed(x, axis=axis, keepdims=keepdims)),
        lambda x: numpy(x, axis=axis, keepdims=keepdims),
    )


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 33), (2, 1027)])
def test_along_rows(name, dtype, shape):
    check(position(name, shape, dtype))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
def test_integers_and_the_first_of_equals(dtype):
    values = np.random.default_rng(1).integers(0, 4, (5, 100)).astype(dtype)
    check(position("argmax", (5, 100), dtype, values), kernels=None)
    check(position("argmin", (5, 100), dtype, values, keepdims=True), kernels=None)


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    "shape, axis, dtype",
    [
        ((129, 12, 4), 2, "float32"),
        ((3, 13, 64), 1, "uint16"),
        ((17, 1, 1, 16, 4), 4, "int32"),
        ((40, 30), 0, "float32"),
        ((3, 4, 50), None, "float32"),
        ((4, 1), 1, "float32"),
        ((), None, "float32"),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_any_axis(shape, axis, dtype, keepdims):
    values = np.random.default_rng(2).integers(0, 9, shape).astype(dtype)
    check(position("argmax", shape, dtype, values, axis, keepdims), kernels=None)


@pytest.mark.parametrize("name", POSITIONS)
def test_what_is_no_number_comes_first(name):
    values = np.random.default_rng(3).standard_normal((6, 40)).astype("float32")
    values[0, 7] = values[0, 20] = np.nan
    values[1, :] = np.nan
    values[2, :] = -np.inf
    values[3, :] = np.inf
    values[4, 30:] = -np.inf
    values[5, 9:11] = np.inf
    check(position(name, (6, 40), "float32", values), kernels=None)


def test_beside_a_softmax_in_one_kernel():
    def both(emit, x):
        weights = emit(op.nn.softmax(x, -1))
        return weights, emit(op.argmax(weights, axis=-1))

    def expected(x):
        weights = np.exp(x - x.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return weights, weights.argmax(-1)

    check(graph("float32", [(6, 300)], both, expected))


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 7), (2, 1027)])
def test_symbolic_extents(rows, columns):
    shape = ((tirx.Var("n", "int64"), rows), (tirx.Var("m", "int64"), columns))
    check(position("argmax", shape, "float32"), kernels=None)


def test_one_column_of_no_rows():
    """TVM's compaction of a temporary without elements divides by zero."""
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 1), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.argmax(x, axis=1)))
    assert verify(builder.get(), H200, [np.zeros((0, 1), "float32")], orders=1).ok
