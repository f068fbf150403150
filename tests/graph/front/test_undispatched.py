"""Running sums and products along a row, with what is element-wise around them, in one kernel."""

from __future__ import annotations

import numpy as np
import pytest
from check import DTYPES, H200, check, cuda_of, primfuncs, the_kernel
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, Graph

from tvm_stitch.build import dispatch_passes
from tvm_stitch.kernel.build import is_emitted

SHAPES = [(1, 1), (3, 7), (1, 31), (5, 33), (2, 1000), (3, 1027), (2, 3, 130), (1, 4096), (4, 256)]


def running(shape, dtype="float32", around=True, times=False) -> Case:
    """exp, the running sum (or product), and a third of it."""
    graph = Graph()
    values = graph.rng.standard_normal(shape) * (0.01 if times else 1.0)
    x = graph.input("x", shape, dtype, values)
    scan = op.cumprod if times else op.cumsum

    def build(b, x):
        if not around:
            return b(scan(x, axis=-1))
        before = b(op.exp(b(op.astype(x, "float32"))))
        after = b(scan(before, axis=-1))
        third = b(op.multiply(after, relax.const(1 / 3, "float32")))
        return b(op.astype(third, dtype))

    scanned = np.cumprod if times else np.cumsum
    plain = scanned(x, axis=-1) if not around else scanned(np.exp(x), axis=-1) * np.float32(1 / 3)
    return graph.case(build, plain)


@pytest.mark.spread(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_exp_and_running_sum_are_one_kernel(shape):
    check(running(shape), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("around", [False, True])
def test_types(dtype, around):
    check(running((3, 200), dtype, around), orders=2)


@pytest.mark.parametrize("shape", [(3, 7), (2, 1000)])
def test_products(shape):
    check(running(shape, times=True), orders=2)


def test_integers():
    graph = Graph()
    x = graph.input("x", (4, 77), "int32", graph.rng.integers(-9, 9, (4, 77)).astype("int32"))
    check(graph.case(lambda b, x: b(op.cumsum(x, axis=1)), np.cumsum(x, axis=1)), orders=2)


def from_the_end(shape, dtype="float32", times=False, axis=-1) -> Case:
    """The gradient of a running sum: flipped, summed up, flipped back; and what is around it."""
    graph = Graph()
    values = graph.rng.standard_normal(shape) * (0.01 if times else 1.0)
    x = graph.input("x", shape, dtype, values)
    scan = op.cumprod if times else op.cumsum

    def build(b, x):
        before = b(op.exp(b(op.astype(x, "float32"))))
        flipped = b(op.flip(before, axis))
        back = b(op.flip(b(scan(flipped, axis=axis)), axis))
        return b(op.astype(b(op.multiply(back, relax.const(0.5, "float32"))), dtype))

    scanned = np.cumprod if times else np.cumsum
    found = np.flip(scanned(np.flip(np.exp(x), axis), axis=axis), axis) * 0.5
    return graph.case(build, found)


@pytest.mark.spread(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_running_sum_between_flips_runs_from_the_end(shape):
    check(from_the_end(shape), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [False, True])
def test_types_from_the_end(dtype, times):
    check(from_the_end((3, 203), dtype, times), orders=2)


def test_a_running_sum_and_its_gradient_in_one_kernel():
    graph = Graph()
    x = graph.input("x", (5, 77), "float32")
    sums = np.cumsum(x, -1)
    found = np.flip(np.cumsum(np.flip(sums, -1), -1), -1) - sums

    def build(b, x):
        sums = b(op.cumsum(x, axis=-1))
        back = b(op.flip(b(op.cumsum(b(op.flip(sums, -1)), axis=-1)), -1))
        return b(op.subtract(back, sums))

    check(graph.case(build, found), orders=2)


@pytest.mark.parametrize("first, last", [(0, 1), (1, 0), (0, 0)])
def test_flips_of_other_axes_stay(first, last):
    graph = Graph()
    x = graph.input("x", (5, 77), "float32")

    def build(b, x):
        return b(op.flip(b(op.cumsum(b(op.flip(x, first)), axis=-1)), last))

    wanted = np.flip(np.cumsum(np.flip(x, first), -1), last)
    check(graph.case(build, wanted), kernels=None, orders=2)


def test_softmax_then_running_sum():
    """The running sum of probabilities: a row reduction before, a comparison after."""
    graph = Graph()
    x = graph.input("x", (5, 300), "float32")
    softmax = np.exp(x - x.max(-1, keepdims=True))
    softmax /= softmax.sum(-1, keepdims=True)
    wanted = np.cumsum(softmax, -1)

    def build(b, x):
        return b(op.cumsum(b(op.nn.softmax(x, -1)), axis=-1))

    check(graph.case(build, wanted), orders=2)


def test_reduction_of_a_running_sum():
    """What follows may reduce the same row."""
    graph = Graph()
    x = graph.input("x", (5, 300), "float32")
    sums = np.cumsum(x, -1)

    def build(b, x):
        sums = b(op.cumsum(x, axis=-1))
        return b(op.subtract(sums, b(op.max(sums, -1, keepdims=True))))

    check(graph.case(build, sums - sums.max(-1, keepdims=True)), orders=2)


def test_two_running_sums():
    graph = Graph()
    x = graph.input("x", (3, 90), "float32")

    def build(b, x):
        return b(op.cumsum(b(op.cumsum(x, axis=-1)), axis=-1))

    check(graph.case(build, np.cumsum(np.cumsum(x, -1), -1)), orders=2)


@pytest.mark.parametrize(
    ("shape", "axis", "attributes"),
    [
        ((4, 1 << 17), -1, {}),  # a row that no block keeps
        ((4, 50), -1, {"exclusive": True}),
        ((4, 50), None, {}),
    ],
)
def test_others_are_left_to_tvm(shape, axis, attributes):
    """What the kernels of rows do not hold stays TVM's operator."""
    graph = Graph()
    graph.input("x", shape, "float32")
    module = graph.case(
        lambda b, x: b(op.cumsum(x, axis=axis, **attributes)), np.zeros(shape)
    ).module
    with H200:
        for each in dispatch_passes(H200):
            module = each(module)
    assert not any(map(is_emitted, primfuncs(module).values()))


def test_every_barrier_is_needed():
    """Rows of several warps synchronise once, whatever their length; rows of one do not at all."""
    assert "__syncthreads" not in cuda_of(the_kernel(running((64, 64)).module))
    assert cuda_of(the_kernel(running((64, 4096)).module)).count("__syncthreads") == 1


@pytest.mark.spread(2)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "axis"), [((3, 40, 24), 1), ((5, 100), -1), ((7, 1), 1)])
def test_the_largest_and_its_index_need_no_sort(shape, axis, largest):
    """topk of one, as PyTorch's max along a dimension arrives, is a maximum and a position."""
    graph = Graph()
    x = graph.input("x", shape, "float32", graph.rng.permutation(np.prod(shape)).reshape(shape))
    extreme, position = (np.max, np.argmax) if largest else (np.min, np.argmin)
    wanted = extreme(x, axis, keepdims=True), position(x, axis, keepdims=True)

    def build(b, x):
        both = b(op.topk(x, k=1, axis=axis, largest=largest, dtype="int64"))
        return both[0], both[1]

    check(graph.case(build, wanted), orders=2)


@pytest.mark.parametrize("kind", ["avg_pool2d", "max_pool2d"])
@pytest.mark.parametrize("size", [2, 3])
def test_pooling_with_channels_last_moves_no_channels(kind, size):
    """PyTorch pools with channels first: permutations before and after it are none."""
    graph = Graph()
    x = graph.input("x", (2, 6 * size, 4 * size, 5), "float32")
    windows = x.reshape(2, 6, size, 4, size, 5)

    def build(b, x):
        first = b(op.permute_dims(b(op.nn.relu(x)), [0, 3, 1, 2]))
        pooled = b(getattr(op.nn, kind)(first, (size, size), (size, size)))
        # With its indices, where these are traced: as a tuple's field.
        both = b(relax.Tuple([pooled, b(op.zeros_like(pooled))]))
        return b(op.permute_dims(b(relax.TupleGetItem(both, 0)), [0, 2, 3, 1]))

    wanted = np.maximum(windows, 0)
    wanted = wanted.mean((2, 4)) if kind == "avg_pool2d" else wanted.max((2, 4))
    check(graph.case(build, wanted), orders=2)


def along(axis, shape, dtype="float32", times=False, symbols=False) -> Case:
    """exp, what is accumulated along an axis, and its product with what came in."""
    graph = Graph()
    values = graph.rng.standard_normal(shape) * (0.01 if times else 1.0)
    names = enumerate(shape)
    declared = [
        (tirx.Var(f"n{n}", "int64"), extent) if symbols and n != axis else extent
        for n, extent in names
    ]
    x = graph.input("x", tuple(declared), dtype, values)
    scan, scanned = (op.cumprod, np.cumprod) if times else (op.cumsum, np.cumsum)

    def build(b, x):
        wide = b(op.astype(x, "float32"))
        totals = b(scan(b(op.exp(wide)), axis=axis))
        return b(op.astype(b(op.multiply(totals, wide)), dtype))

    return graph.case(build, scanned(np.exp(x), axis) * x)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("axis, shape", [(1, (2, 33, 31)), (0, (7, 3, 65)), (0, (1000, 6))])
def test_what_is_scanned_along_another_axis_is_transposed(axis, shape, times, dtype):
    """At most: three kernels are fewer than TVM's."""
    case = along(axis, shape, dtype, times)
    assert sum(map(is_emitted, primfuncs(case.module).values())) <= 3
    check(case, kernels=None, orders=2)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 33, 7), (5, 33, 64)])
def test_along_another_axis_of_symbolic_rows(shape):
    check(along(1, shape, symbols=True), 3, orders=2)


def test_a_gradient_along_another_axis():
    check(from_the_end((3, 40, 9), axis=1), 3, orders=2)
