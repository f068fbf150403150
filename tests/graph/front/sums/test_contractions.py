"""Sums of broadcast products are products of matrices where there are many, and right."""

import numpy as np
import pytest
from check import H200
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph

import tvm_stitch
from tvm_stitch.graph.front.sums import Contractions

BATCH = tirx.Var("b", "int64")


def products(case):
    """How many products of matrices there are behind the pass."""
    return Contractions()(case.module).script().count("R.matmul(")


def summed(shapes, axes, dtype="float32", keepdims=False):
    """The sum over axes of a product of two tensors."""

    def build(emit, x, y):
        return emit(op.sum(emit(op.multiply(x, y)), axes, keepdims))

    def expected(x, y):
        return (x * y).sum(None if axes is None else tuple(axes), keepdims=keepdims)

    return graph(dtype, shapes, build, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        ([(2, 33, 1, 3, 31), (2, 1, 17, 3, 31)], [4]),  # as scores of Mamba 2
        ([(2, 17, 33, 3, 1), (2, 1, 33, 3, 31)], [2]),  # the depth in front of the columns
        ([(31, 17, 1), (31, 1, 40)], [0]),
        ([(40, 1, 7, 5), (1, 33, 7, 5)], [2, 3]),
        ([(5, 40, 1, 33), (31, 33)], [-1]),  # of fewer dimensions
        ([(1, 40, 1, 33), (1, 1, 31, 33)], [0, 3]),  # an axis of one element is summed, too
    ],
)
def test_they_become_one_product(shapes, axes, dtype):
    case = summed(shapes, axes, dtype)
    assert products(case) == 1
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


def test_axes_may_be_kept():
    case = summed([(2, 33, 1, 31), (2, 1, 40, 31)], [3], keepdims=True)
    assert products(case) == 1
    assert tvm_stitch.verify(case.module, H200, orders=1).ok


def test_factors_may_be_repeated_before():
    def build(emit, x, y):
        x = emit(op.broadcast_to(emit(op.expand_dims(x, 1)), (33, 40, 31)))
        return emit(op.sum(emit(op.multiply(x, y)), [2]))

    def expected(x, y):
        return x @ y.T

    case = graph("float32", [(33, 31), (40, 31)], build, expected)
    assert products(case) == 1
    assert tvm_stitch.verify(case.module, H200, orders=1).ok


def test_a_symbolic_batch():
    case = summed([((BATCH, 3), 33, 1, 31), ((BATCH, 3), 1, 40, 31)], [3])
    assert products(case) == 1
    assert tvm_stitch.verify(case.module, H200, orders=1).ok


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [
        ([(64, 512), (64, 512)], [1]),  # nothing is repeated
        ([(64, 512), (512,)], [1]),  # by a vector
        ([(64, 1, 64), (1, 64, 1)], [2]),  # one of them is not summed
        ([(4, 1, 4), (1, 4, 4)], [2]),  # few products
        ([(64, 1, 64), (1, 64, 64)], None),  # all is summed
    ],
)
def test_others_stay(shapes, axes):
    assert products(summed(shapes, axes)) == 0


def test_products_that_others_read_stay():
    def build(emit, x, y):
        product = emit(op.multiply(x, y))
        return emit(relax.Tuple([product, emit(op.sum(product, [2]))]))

    shapes = [(64, 1, 64), (1, 64, 64)]
    case = graph("float32", shapes, build, lambda x, y: [x * y, np.sum(x * y, 2)])
    assert products(case) == 0
