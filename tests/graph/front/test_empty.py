"""Tensors without elements: nothing is launched for them, a sum over none of them is its start."""

import numpy as np
import pytest
from check import H200, check
from lowered import launched
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph, graph_of, softmax64

import tvm_stitch
from tvm_stitch import verify

NOTHING = {
    "slice": ([(4, 50)], lambda emit, x: emit(op.strided_slice(x, [0], [2], [2])), (0, 50)),
    "rows of extent 0": ([(4, 0)], lambda emit, x: emit(op.nn.softmax(x)), (4, 0)),
    "no rows": ([(0, 40)], lambda emit, x: emit(op.nn.softmax(x)), (0, 40)),
    "norm": (
        [(4, 0), (0,), (0,)],
        lambda emit, x, w, b: emit(op.nn.layer_norm(x, w, b, axes=[-1])),
        (4, 0),
    ),
    "product": ([(0, 8), (8, 5)], lambda emit, x, y: emit(op.matmul(x, y)), (0, 5)),
    "vector": ([(1, 8), (8, 0)], lambda emit, x, y: emit(op.matmul(x, y)), (1, 0)),
    "convolution": (
        [(0, 3, 8, 8), (4, 3, 3, 3)],
        lambda emit, x, w: emit(op.nn.conv2d(x, w)),
        (0, 4, 6, 6),
    ),
    "parts": (
        [(0, 9)],
        lambda emit, x: emit(op.nn.relu(emit(relax.TupleGetItem(emit(op.split(x, 3, 1)), 1)))),
        (0, 3),
    ),
    "sort": ([(0, 4)], lambda emit, x: emit(op.sort(x)), (0, 4)),
    "sums over none, for none": ([(0, 5)], lambda emit, x: emit(op.sum(x, axis=1)), (0,)),
}


@pytest.mark.parametrize("shapes, build, result", NOTHING.values(), ids=NOTHING)
def test_nothing_is_launched(shapes, build, result):
    case = graph("float32", shapes, build, lambda *arrays: np.zeros(result))
    assert launched(case.module) == ()
    check(case, kernels=0)


def test_a_scan_of_nothing():
    case = graph("float32", [(4, 0)], lambda emit, x: emit(op.cumsum(x, axis=1)), np.cumsum)
    assert launched(case.module) == ()


def test_sums_over_nothing():
    """TVM's schedules divide by the extent: these must reach none, or as a plain fill."""

    def build(emit, x, y):
        return (
            emit(op.sum(x, axis=1)),
            emit(op.prod(x, axis=1)),
            emit(op.matmul(x, y)),
            emit(op.add(emit(op.sum(emit(op.exp(x)), axis=1, keepdims=True)), relax.const(2.0))),
        )

    def expected(x, y):
        return np.zeros(4), np.ones(4), np.zeros((4, 5)), np.full((4, 1), 2.0)

    case = graph("float32", [(4, 0), (0, 5)], build, expected)
    check(case, kernels=None)
    launched(case.module)


@pytest.mark.parametrize("operator", (op.mean, op.variance, op.std))
def test_means_of_nothing(operator):
    case = graph(
        "float32",
        [(4, 0)],
        lambda emit, x: emit(operator(x, axis=1)),
        lambda x: np.full(4, np.nan),
    )
    assert len(launched(case.module)) == 0  # a constant
    check(case, kernels=0)


@pytest.mark.parametrize("reduction", ("update", "add", "mul", "max"))
@pytest.mark.parametrize("places", ((0,), ("n", 0), (0, "n"), ("n", 3, 0)), ids=str)
def test_a_table_that_gets_no_updates(places, reduction):
    """TVM's own loop over updates divides by how many there are."""
    n = tirx.Var("n", "int64")
    shape = tuple((n, 4) if each == "n" else each for each in places)
    none = np.zeros([*(4 if each == "n" else each for each in places), 1], "int64")
    case = graph_of(
        [((7, 5), "float32", None), ((*shape, 1), "int64", none), ((*shape, 5), "float32", None)],
        lambda emit, x, at, y: emit(op.add(emit(op.scatter_nd(x, at, y, reduction)), x)),
        lambda x, at, y: 2 * x,
    )
    check(case)


@pytest.mark.parametrize("rows", (7, (tirx.Var("n", "int64"), 7)), ids=("known", "symbolic"))
def test_a_table_of_any_size_that_gets_no_updates(rows):
    def build(emit, x, at, y, index, z):
        first = emit(op.scatter_nd(x, at, y, "add"))
        return emit(op.exp(emit(op.scatter_elements(first, index, z, 0, "add"))))

    nothing = np.zeros((0, 1), "int64"), np.zeros((0, 5), "int64")
    case = graph_of(
        [
            ((rows, 5), "float32", None),
            ((0, 1), "int64", nothing[0]),
            ((0, 5), "float32", None),
            ((0, 5), "int64", nothing[1]),
            ((0, 5), "float32", None),
        ],
        build,
        lambda x, *_: np.exp(x),
    )
    check(case)


def test_what_has_elements_is_computed_beside_them():
    case = graph(
        "float32",
        [(4, 0), (4, 8)],
        lambda emit, x, y: (emit(op.exp(x)), emit(op.nn.softmax(emit(op.concat([x, y], 1))))),
        lambda x, y: (x, softmax64(y)),
    )
    assert len(launched(case.module)) == len(check(case, kernels=None).kernels) == 1


def test_parts_of_a_tuple():
    def build(emit, x):
        parts = emit(op.split(x, [3, 8], axis=1))
        return tuple(emit(relax.TupleGetItem(parts, number)) for number in range(3))

    case = graph("float32", [(4, 8)], build, lambda x: (x[:, :3], x[:, 3:], x[:, :0]))
    check(case, kernels=None)
    assert len(launched(case.module)) == 1


def test_a_part_of_nothing_that_is_put_back():
    """As a rotary embedding of all columns has it: what is not turned is split off first."""

    def build(emit, x):
        parts = emit(op.split(x, [8], axis=-1))
        turned = emit(op.exp(emit(relax.TupleGetItem(parts, 0))))
        return emit(op.concat([turned, emit(relax.TupleGetItem(parts, 1))], axis=-1))

    case = graph("float32", [(2, 3, 8)], build, np.exp)
    assert tvm_stitch.explain(case.module, "sm_90").kernels
    assert tvm_stitch.verify(case.module, "sm_90", orders=1).ok


def test_a_symbolic_function_called_for_nothing():
    """The function is symbolic; the shape that it is called with is known to be empty."""
    n, a, b, c = (tirx.Var(name, "int64") for name in "nabc")
    x = relax.Var("x", relax.TensorType((n, 3, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            shape = builder.emit(relax.ShapeExpr([3, 4, 0]))
            builder.match_cast(shape, relax.ShapeType([a, b, c]))
            reshaped = builder.emit(relax.op.reshape(x, (a, b, c)))
            result = builder.emit_output(builder.emit(relax.op.exp(reshaped)))
        builder.emit_func_output(result)
    assert verify(builder.get(), H200, [np.zeros((0, 3, 4), "float32")], orders=1).ok
