"""Pooling whose windows overlap: a thread for each window, neighbours side by side."""

import numpy as np
import pytest
from check import check, program_of, schedule_of, the_kernel
from tvm import relax
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.kernel.analysis.windows import reads_windows


def windows_of(x: np.ndarray, size: int, stride: int, pad: int, fill: float) -> np.ndarray:
    """All windows of images, along two new axes at the end."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return found[:, :, ::stride, ::stride]


def pooled(how: str, dtype: str, shape, size: int, stride: int, pad: int) -> Case:
    """max or avg, then a bias."""

    def build(emit, x):
        made = getattr(op.nn, f"{how}_pool2d")(
            x, (size, size), (stride, stride), (pad, pad), **extra
        )
        return emit(op.add(emit(made), relax.const(1, dtype)))

    def expected(x):
        fill, reduce = (-np.inf, np.max) if how == "max" else (0, np.mean)
        return reduce(windows_of(x, size, stride, pad, fill), (-1, -2)) + 1

    extra = {"count_include_pad": True} if how == "avg" else {}
    return graph(dtype, [shape], build, expected)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("how", ("max", "avg"))
@pytest.mark.parametrize("size, stride, pad", ((3, 1, 0), (3, 2, 1), (2, 1, 0), (5, 3, 2)))
def test_windows(how, dtype, size, stride, pad):
    check(pooled(how, dtype, (2, 3, 31, 33), size, stride, pad), orders=2)


@pytest.mark.parametrize("shape", ((1, 1, 3, 3), (1, 7, 5, 1000), (33, 1, 4, 7)))
def test_sizes(shape):
    check(pooled("max", "float32", shape, 3, 1, 1), orders=2)


@pytest.mark.slow
def test_a_window_has_a_thread_of_its_own():
    case = pooled("max", "float32", (32, 64, 112, 112), 3, 2, 1)
    assert reads_windows(program_of(case.module))
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert mapping.threads == 1 and mapping.batch > 1


def test_long_windows_keep_several_threads():
    """A line of such a window fills a sector."""
    assert not reads_windows(program_of(pooled("max", "float32", (2, 3, 40, 40), 9, 1, 0).module))


@pytest.mark.parametrize("size, width", [(8, 56), (5, 35), (14, 56)])
@pytest.mark.slow
def test_windows_side_by_side_need_no_rounds(size, width):
    """A block has windows whose lines are neighbours in memory, however short one of them is."""
    case = pooled("avg", "float16", (2, 3, 2 * size, width), size, size, 0)
    check(case, orders=2)
    assert len(schedule_of(the_kernel(case.module)).parts) == 1
    large = pooled("avg", "float16", (64, 512, 2 * size, width), size, size, 0)
    (mapping,) = schedule_of(the_kernel(large.module)).parts
    assert mapping.scheme != "global"


def test_channels_that_come_last():
    """Neighbours are channels."""

    def build(emit, x):
        return emit(op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1), layout="NHWC"))

    def expected(x):
        moved = windows_of(np.moveaxis(x, -1, 1), 3, 2, 1, -np.inf)
        return np.moveaxis(moved.max((-1, -2)), 1, -1)

    case = graph("float16", [(2, 15, 17, 12)], build, expected)
    assert reads_windows(program_of(case.module))
    check(case, orders=2)


@pytest.mark.parametrize("last", (6, 33))
def test_axes_that_are_apart(last):
    """Neighbours lie side by side, what each of them sums up does not."""
    case = graph(
        "float32",
        [(4, 40, 7, last)],
        lambda emit, x: emit(op.sum(x, [0, 2])),
        lambda x: x.sum((0, 2)),
    )
    check(case, orders=2)


def test_few_neighbours_are_no_windows():
    case = graph(
        "float32", [(4, 40, 7, 3)], lambda emit, x: emit(op.sum(x, [0, 2])), lambda x: x.sum((0, 2))
    )
    assert not reads_windows(program_of(case.module))
