"""Masks are read and written by vectors, as wide as those of the values that they go with."""

import numpy as np
import pytest
from check import check, cuda_of, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import graph_of

EIGHT = "int2"  # of one byte each


def masked(rows: int, columns: int, dtype: str):
    """Values where a mask says so, and the mask of the positive ones."""
    mask = np.random.default_rng(0).random((rows, columns)) < 0.5

    def build(emit, x, mask):
        kept = emit(op.where(mask, x, relax.const(0.0, dtype)))
        return kept, emit(op.greater(kept, relax.const(0.0, dtype)))

    def expected(x, mask):
        return np.where(mask, x, 0.0), np.where(mask, x, 0.0) > 0

    shape = (rows, columns)
    return graph_of([(shape, dtype, None), (shape, "bool", mask)], build, expected)


def normed(rows: int, columns: int, dtype: str):
    """A row's norm, masked by what is read, and a mask of it."""
    mask = np.random.default_rng(0).random((rows, columns)) < 0.5

    def build(emit, x, mask):
        normal = emit(op.nn.rms_norm(x, relax.const(np.ones(columns), dtype), [-1]))
        kept = emit(op.where(mask, normal, relax.const(0.0, dtype)))
        return kept, emit(op.greater_equal(x, relax.const(0.5, dtype)))

    def expected(x, mask):
        normal = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return np.where(mask, normal, 0.0), x >= 0.5

    shape = (rows, columns)
    return graph_of([(shape, dtype, None), (shape, "bool", mask)], build, expected)


def copies_of_masks(source: str) -> set[str]:
    """The types by which masks go to and come from device memory."""
    return {
        name for name in ("char2", "int", EIGHT, "int4") if f"*({name}*)(((signed char*)" in source
    }


@pytest.mark.parametrize("columns", [1, 7, 31, 33, 1000, 1027])
def test_masks_of_few_elements(columns):
    check(masked(3, columns, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_masks_move_by_vectors(dtype):
    case = masked(2048, 1024, dtype)
    assert copies_of_masks(cuda_of(the_kernel(case.module))) == {EIGHT}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows, columns", [(1, 1000), (5, 1002), (5, 1027), (3, 8192), (2, 40000)])
def test_masks_of_rows_that_are_reduced(rows, columns, dtype):
    case = normed(rows, columns, dtype)
    check(case)
    assert copies_of_masks(cuda_of(the_kernel(case.module))) == {EIGHT}
