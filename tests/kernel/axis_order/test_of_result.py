"""Rows whose results are transposed lie in the order of the result: one kernel, right in any."""

import numpy as np
import pytest
from check import check, schedule_of, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.kernel.ir.mapping import Rows

BATCH = tirx.Var("n", "int64")


def transposed_sums(dtype: str, shape: tuple, order: list[int], more=None) -> Case:
    """Sums of squares along the last axis, with the axes of the rows in another order."""

    def build(emit, x, w):
        sums = emit(op.sum(emit(op.multiply(emit(op.multiply(x, x)), w)), -1))
        found = emit(op.permute_dims(sums, order))
        return emit(op.nn.relu(emit(op.add(found, more)))) if more is not None else found

    def expected(x, w):
        found = (x * x * w).sum(-1).transpose(order)
        return np.maximum(found + 0.0, 0) if more is not None else found

    return graph(dtype, [shape, shape], build, expected)


def split_rows(
    dtype: str, batch: int, heads: int, channels: int, places: int, columns: int
) -> Case:
    """Rows of three axes, of which the result has two as one, behind the third."""

    def build(emit, x, w):
        sums = emit(op.sum(emit(op.multiply(x, w)), -1))
        joined = emit(op.reshape(sums, (batch, heads * channels, places)))
        return emit(op.permute_dims(joined, [0, 2, 1]))

    def expected(x, w):
        sums = (x * w).sum(-1).reshape(batch, heads * channels, places)
        return sums.transpose(0, 2, 1)

    shape = (batch * heads, channels, places, columns)
    return graph(dtype, [shape, (batch * heads, 1, places, columns)], build, expected)


CASES = {
    "two axes": lambda: transposed_sums("float32", (33, 7, 31), [1, 0]),
    "of a batch": lambda: transposed_sums("float32", (3, 33, 7, 16), [0, 2, 1]),
    "halves": lambda: transposed_sums("bfloat16", (2, 9, 5, 64), [0, 2, 1]),
    "one column": lambda: transposed_sums("float32", (5, 9, 1), [1, 0]),
    "long rows": lambda: transposed_sums("float16", (3, 5, 1027), [1, 0]),
    "split": lambda: split_rows("float32", 2, 3, 4, 31, 16),
    "split halves": lambda: split_rows("float16", 1, 2, 8, 33, 7),
}


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_of_rows(name):
    case = CASES[name]()
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert name == "one column" or isinstance(mapping, Rows)
    check(case, orders=2)


def test_any_batch():
    check(transposed_sums("float32", ((BATCH, 3), 33, 7, 16), [0, 2, 1]), kernels=None, orders=1)


def test_rows_that_are_written_stay():
    """Where both orders are asked for, one of the results is another kernel's."""

    def build(emit, x):
        sums = emit(op.sum(x, -1))
        return sums, emit(op.permute_dims(sums, [1, 0]))

    def expected(x):
        return x.sum(-1), x.sum(-1).T

    check(graph("float32", [(33, 7, 16)], build, expected), kernels=None, orders=1)
