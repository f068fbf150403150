"""Register tiles: lines of a thread that share what they read, of windows that overlap."""

import re
from dataclasses import replace

import numpy as np
import pytest
from check import DTYPES, H200, check, cuda_of, program_of, schedule_of, the_kernel
from depthwise import convolved, depthwise
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.device import device_of
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.elementwise import kind as elementwise
from tvm_stitch.kernel.elementwise.overlapping_reads import find_lines, tile_of
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.tuning.spaces.space import Space

BATCH = tirx.Var("n", "int64")


@pytest.fixture
def small(monkeypatch):
    """Tiles however few threads are left: the shapes here are small."""
    monkeypatch.setattr(elementwise, "TILE_THREADS", 0)


def convolution(shape, window, dtype="float16", **how) -> Case:
    return depthwise(shape, window, dtype, weights="HWOI", **how)


def lines_of(case: Case) -> int:
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    return mapping.lines if mapping.kind == "register tile" else 0


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "window", "how", "lines"),
    [
        ((2, 14, 14, 24), (3, 3), {}, 7),
        ((1, 9, 28, 16), (3, 3), {}, 4),
        ((3, 7, 7, 8), (3, 3), {}, 7),
        ((2, 9, 26, 8), (3, 3), {}, 4),  # the last tile of an image has two
        ((3, 5, 19, 16), (3, 3), {}, 4),
        ((1, 9, 11, 8), (3, 5), {"strides": (2, 1), "padding": (0, 2)}, 4),
        ((2, 15, 28, 8), (3, 3), {"strides": (2, 2)}, 2),
        ((1, 9, 12, 8), (5, 5), {}, 4),
        ((1, 9, 13, 8), (5, 5), {}, 7),
        ((1, 9, 1, 8), (5, 5), {"padding": (2, 2)}, 1),  # it would not fit at once
        ((1, 5, 12, 8), (3, 3), {"dilation": (1, 2), "padding": (1, 2)}, 4),
        ((1, 8, 10, 8), (3, 3), {"padding": (0, 0)}, 4),
    ],
)
def test_convolutions(small, dtype, shape, window, how, lines):
    case = convolution(shape, window, dtype, **how)
    found = lines_of(case)
    # Vectors of float32 are half as wide: there is room for more.
    assert found == lines or dtype == "float32"
    check(case)


@pytest.mark.parametrize("shape", [(1, 9, 1, 8), (2, 14, 14, 31), (1, 1, 1, 8)])
def test_lines_that_share_nothing_are_single(small, shape):
    case = convolution(shape, (3, 3))
    assert not lines_of(case)
    check(case)


@pytest.mark.slow
def test_few_threads_have_one_line_each():
    assert not lines_of(convolution((1, 14, 14, 64), (3, 3)))
    assert lines_of(convolution((64, 56, 56, 64), (3, 3))) == 4


def test_vectors_are_loaded_once_for_all_lines(small):
    """Of 3 x 3 windows of four lines, six vectors of each row and the weights."""
    case = convolution((1, 16, 16, 64), (3, 3))
    cuda = cuda_of(the_kernel(case.module))
    loads = r"= \*\(uint4\*\)\(p0_ptr|tvm_stitch_load_vector_16_or\(\(&\(.*?\(&\(p0_ptr"
    assert len(re.findall(loads, cuda)) == 3 * 6
    assert len(re.findall(r"= \*\(uint4\*\)\(p1_ptr", cuda)) == 9


@pytest.mark.slow
def test_a_symbolic_batch(small):
    case = convolution(((BATCH, 3), 14, 14, 16), (3, 3))
    assert lines_of(case) == 7
    check(case)


def test_what_is_around(small):
    """Behind it, among that the image itself, and another one."""

    def build(emit, x, w, r):
        how = {"padding": 1, "groups": 16, "data_layout": "NHWC", "kernel_layout": "HWOI"}
        y = emit(op.nn.conv2d(x, w, **how))
        return emit(op.add(emit(op.multiply(emit(op.tanh(y)), r)), x))

    def expected(x, w, r):
        wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        y = sum(wide[:, i : i + 12, j : j + 12] * w[i, j, :, 0] for i in range(3) for j in range(3))
        return np.tanh(y) * r + x

    image = (2, 12, 12, 16)
    case = graph("float16", [image, (3, 3, 16, 1), image], build, expected)
    assert lines_of(case) == 4
    check(case)


@pytest.mark.parametrize("filters", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.slow
def test_what_windows_are_computed_of_is_loaded_where_their_own_guards_hold(small, filters, stride):
    """A number of each channel, for all taps, of which those of another row lie outside."""
    channels = 24

    def build(emit, x, g, w):
        how = {"padding": 2, "strides": stride, "groups": channels}
        how |= {"data_layout": "NHWC", "kernel_layout": "HWOI"}
        return emit(op.nn.conv2d(emit(op.multiply(x, g)), w, **how))

    def expected(x, g, w):
        return convolved(x * g, w, (stride, stride), (2, 2), (1, 1))

    shapes = [(2, 16, 16, channels), (channels,), (5, 5, channels * filters, 1)]
    case = graph("float16", shapes, build, expected)
    assert lines_of(case) > 1
    # No register is left undefined where nothing is loaded.
    assert "tvm_stitch_load_vector_16_if" not in cuda_of(the_kernel(case.module))
    check(case)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_average_pooling(small, layout, dtype):
    shape = (2, 12, 16, 8) if layout == "NHWC" else (2, 8, 12, 16)
    axes = (1, 2) if layout == "NHWC" else (2, 3)

    def build(emit, x):
        return emit(op.nn.avg_pool2d(x, 3, 1, 1, layout=layout, count_include_pad=True))

    def expected(x):
        wide = np.pad(x, [(1, 1) if axis in axes else (0, 0) for axis in range(4)])
        cuts = [
            tuple(
                slice(step[axes.index(n)], step[axes.index(n)] + x.shape[n])
                if n in axes
                else slice(None)
                for n in range(4)
            )
            for step in np.ndindex(3, 3)
        ]
        return sum(wide[cut] for cut in cuts) / 9

    check(graph(dtype, [shape], build, expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_stage_reads_further_than_the_one_before(small, dtype):
    """Splines: each degree has neighbours of the one before, and few knots serve all lines."""

    def build(emit, x, knots):
        found = emit(op.multiply(x, knots))
        for last in (10, 8):
            taps = [emit(op.strided_slice(found, [2], [n], [last + n])) for n in range(3)]
            found = emit(op.multiply(emit(op.subtract(taps[0], taps[1])), taps[2]))
        return found

    def expected(x, knots):
        found = x * knots
        for last in (10, 8):
            found = (found[..., :last] - found[..., 1 : last + 1]) * found[..., 2:]
        return found

    case = graph(dtype, [(8, 16, 1), (12,)], build, expected)
    assert lines_of(case) > 1
    check(case)


def test_what_is_legal():
    case = convolution((1, 14, 14, 16), (3, 3))
    program = program_of(case.module)
    problem = Problem(program, device_of(H200), 0, schemes=SCHEMES)
    mapping = elementwise.RegisterTile(256, 8, 1, lines=7)
    reasons = {
        replace(mapping, lines=15): "15 of 14 lines at once",
        replace(mapping, vector=32): "lines of 16 elements in vectors of 32",
        replace(mapping, steps=2): "2 register tiles of a thread",
    }
    assert not list(elementwise.ELEMENTWISE.illegal(problem, mapping))
    for other, reason in reasons.items():
        assert reason in list(elementwise.ELEMENTWISE.illegal(problem, other))


def test_the_tuner_finds_tiles():
    program = program_of(convolution((1, 14, 14, 16), (3, 3)).module)
    space = Space((program,), ((0,),), device_of(H200))
    found = {point.schedule.parts[0].lines for point in space}
    assert {1, 2, 7} <= found


def test_the_same_vector_has_the_same_key():
    program = program_of(convolution((1, 8, 8, 16), (3, 3)).module)
    assert find_lines(program) is not None
    alone, four = (tile_of(program, lines, 8) for lines in (1, 4))
    first = program.stages[:1]
    # Three vectors and three weights of four registers each; six and three of four lines.
    assert (alone.registers(first), four.registers(first)) == (24, 36)
