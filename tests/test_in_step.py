"""Rows of different lengths over the same input, side by side in one kernel."""

import numpy as np
import pytest
from check import DTYPES, check, schedule_of, the_kernel
from tvm.relax import op
from zoo import Case, graph, softmax64

GROUP = 8


def grouped(x, group=GROUP):
    return x.reshape(-1, x.shape[-1] // group, group)


def statistics(rows: int, columns: int, dtype: str = "float32") -> Case:
    """Mean squares of rows and maxima of groups."""

    def build(emit, x):
        y = emit(op.nn.relu(x))
        groups = emit(op.reshape(y, (rows, columns // GROUP, GROUP)))
        return emit(op.sum(emit(op.multiply(y, y)), axis=1)), emit(op.max(groups, axis=2))

    def expected(x):
        y = np.maximum(x, 0)
        return (y * y).sum(1), grouped(y).max(2)

    return graph(dtype, [(rows, columns)], build, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, columns", [(1, 1000), (7, 136), (33, 1024), (1027, 8 * 31)])
def test_statistics_of_rows_and_groups(rows, columns, dtype):
    case = statistics(rows, columns, dtype)
    assert len(schedule_of(the_kernel(case.module)).parts) == 2
    check(case)


def test_three_lengths_with_elements_written():
    def build(emit, x):
        rows = emit(op.nn.softmax(x, axis=1))
        groups = emit(op.nn.softmax(emit(op.reshape(x, (20, 17, 8))), axis=2))
        halves = emit(op.sum(emit(op.reshape(x, (20, 2, 68))), axis=2))
        return rows, groups, halves

    def expected(x):
        return softmax64(x), softmax64(grouped(x)), grouped(x, 68).sum(2)

    case = graph("float32", [(20, 136)], build, expected)
    assert len(schedule_of(the_kernel(case.module)).parts) == 3
    check(case)
