"""Rows that a transpose makes of columns are reduced as the columns that they are in memory."""

import numpy as np
import pytest
from check import check, schedule_of, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph, graph_of, norm64, softmax64

from tvm_stitch.kernel.ir.mapping import Panel

BATCH = tirx.Var("n", "int64")


def largest(dtype: str, batch, points: int, channels: int) -> Case:
    """The maximum over the points of channels that come last, as of a point cloud."""

    def build(emit, x, w):
        first = emit(op.permute_dims(x, [0, 2, 1]))
        scaled = emit(op.multiply(first, emit(op.reshape(w, (channels, 1)))))
        return emit(op.max(emit(op.nn.relu(scaled)), -1))

    def expected(x, w):
        return np.maximum(x * w, 0).max(1)

    return graph(dtype, [(batch, points, channels), (channels,)], build, expected)


def statistics(dtype: str, batch: int, height: int, width: int, channels: int) -> Case:
    """Of images whose pixels become one axis behind the transpose, and what comes before it."""

    def build(emit, x):
        first = emit(op.permute_dims(emit(op.multiply(x, x)), [0, 3, 1, 2]))
        pixels = emit(op.reshape(first, (batch, channels, height * width)))
        return emit(op.mean(pixels, -1)), emit(op.max(pixels, -1))

    def expected(x):
        return (x * x).mean((1, 2)), (x * x).max((1, 2))

    return graph(dtype, [(batch, height, width, channels)], build, expected)


def softmax_there_and_back(dtype: str, batch: int, extent: int, columns: int) -> Case:
    def build(emit, x):
        there = emit(op.nn.softmax(emit(op.permute_dims(x, [0, 2, 1])), -1))
        return emit(op.permute_dims(there, [0, 2, 1]))

    shape = (batch, extent, columns)
    return graph(dtype, [shape], build, lambda x: softmax64(x, axis=1))


def norm_there_and_back(dtype: str, batch: int, channels: int, height: int, width: int) -> Case:
    """A layer norm of channels that come first, as the last axis of a transpose."""

    def build(emit, x, w, b):
        last = emit(op.permute_dims(x, [0, 2, 3, 1]))
        norm = emit(op.nn.layer_norm(last, w, b, axes=[-1]))
        return emit(op.permute_dims(norm, [0, 3, 1, 2]))

    def expected(x, w, b):
        return (norm64(x.transpose(0, 2, 3, 1)) * w + b).transpose(0, 3, 1, 2)

    shapes = [(batch, channels, height, width), (channels,), (channels,)]
    return graph(dtype, shapes, build, expected)


def is_panel(case: Case) -> bool:
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    return isinstance(mapping, Panel)


CASES = {
    "largest": lambda: largest("float32", 3, 101, 33),
    "largest of halves": lambda: largest("bfloat16", 2, 260, 64),
    "as many points as channels": lambda: largest("float16", 2, 49, 49),
    "of one batch": lambda: largest("float32", 1, 100, 33),
    "any batch": lambda: largest("float32", (BATCH, 3), 65, 33),
    "statistics": lambda: statistics("float32", 2, 5, 7, 33),
    "softmax": lambda: softmax_there_and_back("float16", 3, 41, 33),
    "norm": lambda: norm_there_and_back("bfloat16", 2, 24, 5, 7),
    "norm of vectors": lambda: norm_there_and_back("float32", 2, 96, 6, 8),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", CASES)
def test_one_panel(name):
    case = CASES[name]()
    assert is_panel(case)
    check(case, orders=2)


def test_few_long_columns_are_reduced_in_rounds():
    """As those that no transpose is before."""

    def build(emit, x):
        return emit(op.sum(emit(op.permute_dims(x)), -1))

    case = graph("float32", [(20000, 40)], build, lambda x: x.sum(0))
    assert len(schedule_of(the_kernel(case.module)).parts) == 2
    check(case, orders=1)


def test_a_transpose_that_is_written_stays():
    """Its rows are reduced as they are written."""

    def build(emit, x):
        there = emit(op.permute_dims(x, [0, 2, 1]))
        return there, emit(op.max(there, -1))

    def expected(x):
        return x.transpose(0, 2, 1), x.max(1)

    check(graph("float32", [(3, 100, 33)], build, expected), kernels=None, orders=1)


def test_positions_behind_a_transpose():
    """They are read as they lie; what is looked up lies anywhere."""
    where = np.random.default_rng(0).integers(0, 99, (4, 50, 33), "int32")

    def build(emit, x, table):
        there = emit(op.permute_dims(x, [0, 2, 1]))
        return emit(op.sum(emit(op.take(table, there, axis=0)), -1))

    inputs = [(where.shape, "int32", where), ((99,), "float32", None)]
    case = graph_of(inputs, build, lambda x, table: table[x].sum(1))
    assert is_panel(case)
    check(case, orders=1)


def test_rows_that_memory_picks_of_a_transpose():
    """Neighbours among them are not side by side in any order."""
    rng = np.random.default_rng(0)
    picked = rng.integers(0, 33, (33,), "int32")

    def build(emit, x, which):
        there = emit(op.exp(emit(op.permute_dims(x, [0, 2, 1]))))
        return emit(op.sum(emit(op.take(there, which, axis=1)), -1))

    inputs = [((4, 50, 33), "float32", None), (picked.shape, "int32", picked)]
    case = graph_of(inputs, build, lambda x, which: np.exp(x)[:, :, which].sum(1))
    check(case, kernels=None, orders=1)
