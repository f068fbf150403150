"""Strided and overlapping loads: each stretch of a row is read once, in aligned vectors.

Most kernels here have eight elements a thread whatever their size, so that small tensors will do.
"""

from itertools import product

import numpy as np
import pytest
from accesses import all_reads, reads
from check import check, program_of, schedule_by, schedule_of, the_kernel
from tvm import relax, te, tirx
from tvm.relax import op
from twins_verified import verify_module
from zoo import Case, graph, rounded, te_module

from tvm_stitch.kernel.analysis.profile import rows_profile
from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.schedule import Schedule


@pytest.fixture
def eighths(monkeypatch):
    schedule_by(monkeypatch, lambda *_: Schedule((Flat(32, 8, 1),)))


def windows_module(dtype, shape, size, stride, pad, axes=(1, 2)):
    """The largest of each window over two axes of a tensor, each element written out."""

    def largest(x):
        extents = list(x.shape)
        for axis, k, s, p in zip(axes, size, stride, pad, strict=True):
            extents[axis] = (x.shape[axis] + 2 * p - k) // s + 1

        def element(*at):
            found = tirx.min_value(dtype)
            for step in product(*map(range, size)):
                place, inside = list(at), []
                for axis, n, s, p in zip(axes, step, stride, pad, strict=True):
                    place[axis] = at[axis] * s + (n - p)
                    inside += [place[axis] >= 0, place[axis] < x.shape[axis]]
                value = tirx.if_then_else(tirx.all(*inside), x(*place), tirx.min_value(dtype))
                found = tirx.max(found, value)
            return found

        return te.compute(extents, element, name="largest")

    return te_module(largest, relax.Var("p0", relax.TensorType(shape, dtype)))


def windows(dtype, shape, size, stride, pad, axes=(1, 2)) -> Case:
    values = rounded(np.random.default_rng(0).standard_normal(shape), dtype)
    around = [(0, 0)] * len(shape)
    for axis, p in zip(axes, pad, strict=True):
        around[axis] = (p, p)
    padded = np.pad(values, around, constant_values=-np.inf)
    found = np.lib.stride_tricks.sliding_window_view(padded, size, axis=axes)
    steps = [slice(None)] * len(shape)
    for axis, s in zip(axes, stride, strict=True):
        steps[axis] = slice(None, None, s)
    expected = found[tuple(steps)].max((-1, -2))
    return Case(windows_module(dtype, shape, size, stride, pad, axes), (values,), (expected,))


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
@pytest.mark.parametrize("columns", (1, 7, 31, 33, 1000, 1027))
@pytest.mark.parametrize(
    "size, stride, pad", ((2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 4, 0), (5, 3, 2), (3, 3, 1))
)
def test_windows_of_rows(eighths, dtype, columns, size, stride, pad):
    """Eight rows, that there are always eighths; as many windows as columns."""
    width = (columns - 1) * stride + size - 2 * pad
    check(windows(dtype, (8, 3, width), (1, size), (1, stride), (0, pad)), orders=2)


@pytest.mark.spread(6)
@pytest.mark.parametrize("axes", ((1, 2), (0, 1)), ids=("first", "last"))
@pytest.mark.parametrize("width", (16, 14, 33, 64))
@pytest.mark.parametrize("size, stride, pad", ((2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 4, 2)))
def test_windows_of_planes(eighths, axes, width, size, stride, pad):
    shape = (8, 9, width) if axes == (1, 2) else (9, width, 8)
    check(windows("bfloat16", shape, *[(each, each) for each in (size, stride, pad)], axes))


# Of windows, the accesses of 16 bytes and those of single elements, at the left edge or both.
WHOLE = {
    (2, 2, 0): (4, 0),
    (3, 2, 1): (6, 3),
    (3, 1, 1): (4, 6),  # the middle row is there twice, of which nvcc makes one
    (4, 2, 1): (8, 8),
}


@pytest.mark.parametrize("how", WHOLE)
def test_each_row_of_windows_is_read_once(eighths, how):
    whole, single = WHOLE[how]
    shape = 8, 16 * how[1], 112 * how[1]
    module = windows_module("bfloat16", shape, *[(each, each) for each in how])
    assert sorted(all_reads(module)["p0"]) == [0] * single + [16] * whole


def test_lanes_stay_within_a_sector():
    """Windows of four elements side by side: eight of a thread would be 64 bytes apart."""
    module = windows_module("bfloat16", (32, 256, 4096), (1, 4), (1, 4), (0, 0))
    (mapping,) = schedule_of(the_kernel(module)).parts
    assert mapping.vector == 4
    assert all_reads(module)["p0"] == [16, 16]


@pytest.mark.parametrize("images, vector", ((64, 1), (500, 4), (2048, 8)))
def test_threads_fill_the_device_first(images, vector):
    module = windows_module("bfloat16", (images, 112, 112), (3, 3), (2, 2), (1, 1))
    (mapping,) = schedule_of(the_kernel(module)).parts
    assert mapping.vector == vector


def test_rows_that_begin_anywhere_are_read_element_by_element(eighths):
    module = windows_module("bfloat16", (8, 16, 33), (2, 2), (1, 1), (0, 0))
    assert reads(module) == {"p0": {0}}


@pytest.mark.parametrize("step, widest", ((2, 16), (3, 16), (4, 16), (16, 0)))
def test_slices_with_steps(eighths, step, widest):
    """Of sixteen elements one is asked for: there is nothing to gain."""
    case = graph(
        "float16",
        [(30, 1024 * step)],
        lambda emit, x: emit(op.tanh(emit(op.strided_slice(x, [1], [1], [1024 * step], [step])))),
        lambda x: np.tanh(x[:, 1::step]),
    )
    assert max(reads(case.module)["p0"]) == widest
    check(case)


def test_shifted_neighbours_share_what_is_read(eighths):
    """A difference along a row, to whose ends nothing is added."""

    def build(emit, x):
        parts = [emit(op.strided_slice(x, [1], [n], [2048 + n])) for n in range(3)]
        return emit(op.add(emit(op.subtract(parts[2], parts[1])), parts[0]))

    case = graph(
        "float16",
        [(30, 2056)],
        build,
        lambda x: x[:, 2:-6] - x[:, 1:-7] + x[:, :-8],
    )
    assert sorted(all_reads(case.module)["p0"]) == [4, 16]
    check(case)


def test_neighbours_that_read_one_element_load_it_once(eighths):
    """An image enlarged twice."""

    def build(emit, x):
        return emit(op.tanh(emit(op.repeat(x, 2, 1))))

    case = graph("float16", [(30, 320)], build, lambda x: np.tanh(np.repeat(x, 2, 1)))
    assert reads(case.module) == {"p0": {8}}
    check(case)


def test_a_batch_of_any_size():
    n = tirx.Var("n", "int64")
    module = windows_module("bfloat16", (n, 32, 64), (3, 3), (2, 2), (1, 1))
    verify_module(module, {"n": 1}, {"n": 3}, {"n": 37})
    assert set(reads(module)["p0"]) == {0, 16}


def test_the_cost_of_a_step_is_all_that_lies_between():
    """Sectors come whole, and once."""

    def moved(step):
        module = windows_module("bfloat16", (64, 64, 64 * step), (1, 1), (1, step), (0, 0))
        profile = rows_profile(program_of(module), Flat(256, 8, 1))
        assert profile.phases[0].gathers == ()
        return profile.other_bytes

    assert [moved(step) for step in (2, 3, 4)] == [64 * 64 * 64 * step * 2 for step in (2, 3, 4)]
