"""Rows whose columns are computed in different ways: a thread has a whole one, and is right."""

import numpy as np
import pytest
from check import check, schedule_of, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import Case, graph


def joined(dtype: str, rows: int, columns: int, ways: int) -> Case:
    """The mean of a few columns each of several polynomials."""

    def polynomial(number):
        return [np.cos(number + degree) for degree in range(16)]

    def build(emit, *given):
        parts = []
        for number, x in enumerate(given):
            value = x
            for factor in polynomial(number):
                scaled = emit(op.multiply(value, x))
                value = emit(op.add(scaled, emit(op.full_like(x, relax.const(factor, dtype)))))
            parts.append(value)
        return emit(op.mean(emit(op.concat(parts, -1)), -1))

    def expected(*given):
        parts = []
        for number, x in enumerate(given):
            value = x
            for factor in polynomial(number):
                value = value * x + np.asarray(factor, "float32")
            parts.append(value)
        return np.concatenate(parts, -1).mean(-1)

    return graph(dtype, [(rows, columns)] * ways, build, expected)


@pytest.mark.parametrize(
    ("rows", "columns"), [(1000, 4), pytest.param(33, 8, marks=pytest.mark.slow), (1, 4), (257, 7)]
)
def test_a_thread_has_a_row(rows, columns):
    case = joined("float32", rows, columns, 4)
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert mapping.threads == 1
    check(case, orders=2)
