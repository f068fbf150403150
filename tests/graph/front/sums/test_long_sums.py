"""Sums of many small products, and of slices of one tensor, become one each."""

import numpy as np
import pytest
from check import H200
from tvm import relax
from tvm.relax import op
from zoo import graph

import tvm_stitch
from tvm_stitch.graph.front.sums import LongSums


def count(case, name):
    """How often an operator is there before and after."""
    texts = case.module.script(), LongSums()(case.module).script()
    return tuple(text.count(f"R.{name}(") for text in texts)


def check(case):
    verified = tvm_stitch.verify(case.module, H200, orders=1)
    assert verified.ok, str(verified)


def transposed(emit, x):
    return emit(op.permute_dims(x, [1, 0]))


@pytest.mark.spread(2)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("lying", ["NN", "TN", "NT", "TT", "mixed"])
def test_products_of_steps(lying, turned):
    steps, rows, depth, columns = 5, 7, 4, 9

    def lies(side, step):
        return "NT"[step % 2] if lying == "mixed" else lying[side]

    def build(emit, *given):
        total = None
        for step in range(steps):
            a, b = (
                transposed(emit, x) if lies(side, step) == "T" else x
                for side, x in enumerate(given[2 * step : 2 * step + 2])
            )
            made = emit(op.matmul(a, b))
            if turned:  # as gradients of linear layers come
                made = emit(op.matmul(transposed(emit, b), transposed(emit, a)))
                made = transposed(emit, made)
            total = made if total is None else emit(op.add(total, made))
        return total

    def expected(*given):
        total = 0
        for step in range(steps):
            a, b = (
                x.T if lies(side, step) == "T" else x
                for side, x in enumerate(given[2 * step : 2 * step + 2])
            )
            total = total + a @ b
        return total

    shapes = []
    for step in range(steps):
        of = step + depth  # depths need not be the same
        shapes.append((of, rows) if lies(0, step) == "T" else (rows, of))
        shapes.append((columns, of) if lies(1, step) == "T" else (of, columns))
    case = graph("float32", shapes, build, expected)
    assert count(case, "matmul")[1] == 1 and count(case, "concat") == (0, 2)
    check(case)


def test_products_that_others_read_or_that_are_large_or_of_halves_stay():
    def two(emit, *given):
        products = [emit(op.matmul(a, b)) for a, b in zip(given[::2], given[1::2], strict=True)]
        total = products[0]
        for each in products[1:]:
            total = emit(op.add(total, each))
        return emit(op.add(total, products[0]))

    def expected(*given):
        products = [a @ b for a, b in zip(given[::2], given[1::2], strict=True)]
        return sum(products) + products[0]

    case = graph("float32", [(3, 4), (4, 5)] * 4, two, expected)
    assert count(case, "matmul") == (4, 2)  # the first has two readers
    check(case)
    assert count(graph("float32", [(3, 4), (4, 5)] * 2, two, expected), "matmul") == (2, 2)
    assert count(graph("float16", [(3, 4), (4, 5)] * 4, two, expected), "matmul") == (4, 4)
    large = graph("float32", [(1024, 1024), (1024, 1024)] * 4, two, expected)
    assert count(large, "matmul") == (4, 4)


def slice_of(emit, x, axis, place, extent, shape):
    """What is zero but for x at one place, as the gradient of a slice is written."""
    along = [extent if n == axis else 1 for n in range(len(shape))]
    places = emit(op.reshape(emit(op.arange(0, extent, 1, dtype="int64")), along))
    chosen = emit(op.equal(places, relax.const(place, "int64")))
    wide = emit(op.broadcast_to(emit(op.expand_dims(x, axis)), shape))
    return emit(op.where(chosen, wide, emit(op.zeros(shape, "float32"))))


@pytest.mark.spread(3)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("places", [(0, 1, 2, 3), (3, 1, 0, 2), (1, 3), (2, 5), (0, 2)])
def test_slices(axis, places):
    shape = [3, 4, 6]
    shape[axis] = 6

    def build(emit, rest, *given):
        total = None
        for x, place in zip(given, places, strict=True):
            one = slice_of(emit, x, axis, place, 6, shape)
            total = one if total is None else emit(op.add(total, one))
        return emit(op.add(total, rest))

    def expected(rest, *given):
        total = rest.copy()
        for x, place in zip(given, places, strict=True):
            np.moveaxis(total, axis, 0)[place] += x
        return total

    one = tuple(extent for n, extent in enumerate(shape) if n != axis)
    case = graph("float32", [tuple(shape), *[one] * len(places)], build, expected)
    assert count(case, "where") == (len(places), 0) and count(case, "concat") == (0, 1)
    check(case)


def test_slices_at_one_place_stay():
    def build(emit, a, b):
        return emit(op.add(*(slice_of(emit, x, 0, 2, 4, [4, 5]) for x in (a, b))))

    def expected(a, b):
        return np.eye(4)[2][:, None] * (a + b)

    case = graph("float32", [(5,), (5,)], build, expected)
    assert count(case, "where") == (2, 2)
    check(case)
