"""Convolutions of side-by-side, of single-pixel and of long grouped windows are products, right."""

import numpy as np
import pytest
from check import DTYPES, check
from convolved import convolved
from tvm import tirx
from tvm.relax import op
from zoo import graph

from tvm_stitch.graph.front.convolution import ConvolutionProducts, is_product
from tvm_stitch.graph.front.dataflow import operators_of
from tvm_stitch.graph.front.pooling.windows import Windows

BATCH = tirx.Var("n", "int64")
AXES = {1: "W", 2: "HW", 3: "DHW"}


def convolution(shape, weight, dtype="float16", last=False, stride=1, padding=0, groups=1):
    """A convolution with a bias and a ReLU behind it."""
    spatial = len(weight) - 2
    first = [0, spatial + 1, *range(1, spatial + 1)]  # of channels last
    to_last = [0, *range(2, spatial + 2), 1]
    axes = AXES[spatial]
    layouts = (f"N{axes}C", f"O{axes}I") if last else (f"NC{axes}", f"OI{axes}")
    laid = [tuple(each[axis] for axis in to_last) if last else each for each in (shape, weight)]

    def build(emit, x, w, b):
        how = {"strides": stride, "padding": padding, "groups": groups}
        convolve = getattr(op.nn, f"conv{spatial}d")
        y = emit(convolve(x, w, data_layout=layouts[0], kernel_layout=layouts[1], **how))
        b = b if last else emit(op.reshape(b, (-1, *[1] * spatial)))
        return emit(op.nn.relu(emit(op.add(y, b))))

    def expected(x, w, b):
        x, w = (each.transpose(first) if last else each for each in (x, w))
        y = convolved(
            x, w, [stride] * spatial, [padding] * spatial, [1] * spatial, groups
        ) + b.reshape(-1, *[1] * spatial)
        return np.maximum(y.transpose(to_last) if last else y, 0)

    return graph(dtype, [*laid, (weight[0],)], build, expected)


def convolves(case):
    """Whether a convolution is left."""
    written = ConvolutionProducts()(case.module)
    return any("conv" in name for name in operators_of(written.functions.values()))


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "weight", "how"),
    [
        ((2, 3, 32, 48), (31, 3, 16, 16), {"stride": 16}),
        ((1, 3, 33, 31), (33, 3, 7, 7), {"stride": 7}),  # the last pixels are in no window
        ((3, 1, 1027), (24, 1, 10), {"stride": 10}),
        ((1, 2, 4, 6, 5), (7, 2, 2, 2, 2), {"stride": 2}),
        ((2, 64, 7, 5), (96, 16, 1, 1), {"groups": 4}),
        ((1, 21, 33), (14, 3, 1), {"groups": 7}),
        ((2, 24, 31), (36, 8, 32), {"groups": 3, "padding": 16}),
        ((1, 8, 70), (8, 4, 33), {"groups": 2, "stride": 3}),
        ((2, 8, 9, 8), (16, 4, 7, 5), {"groups": 2, "padding": 2}),
    ],
)
def test_products(dtype, last, shape, weight, how):
    case = convolution(shape, weight, dtype, last, **how)
    assert not convolves(case)
    check(case, kernels=None)


@pytest.mark.parametrize("how", [{"stride": 8}, {"groups": 3}])
def test_a_symbolic_batch(how):
    weight = (16, 3, 8, 8) if "stride" in how else (12, 4, 1, 1)
    channels = 3 if "stride" in how else 12
    case = convolution(((BATCH, 5), channels, 24, 16), weight, **how)
    assert not convolves(case)
    check(case, kernels=None)


@pytest.mark.parametrize(
    ("groups", "depth", "side", "written"),
    [
        (1, 3, Windows(16, 16, 0), True),
        (1, 7, Windows(2, 2, 0), True),
        (1, 8, Windows(2, 2, 0), False),  # cuDNN reads whole vectors of channels
        (1, 3, Windows(16, 16, 1), False),
        (1, 3, Windows(7, 4, 0), False),  # windows overlap
        (1, 3, Windows(4, 4, 0, 2), False),
        (1, 3, Windows(1, 1, 0), False),
        (4, 16, Windows(1, 1, 0), True),
        (4, 16, Windows(1, 2, 0), False),
        (4, 16, Windows(3, 1, 1), False),
        (4, 16, Windows(6, 1, 1), True),
        (4, 1, Windows(6, 1, 1), False),  # depthwise
    ],
)
def test_which_are_products(groups, depth, side, written):
    assert is_product(groups, depth, [side, side]) == written


def test_sizes_that_run_time_tells_and_uneven_padding_stay_convolutions():
    assert convolves(convolution((1, 3, (tirx.Var("h", "int64"), 32), 32), (8, 3, 8, 8), stride=8))

    def build(emit, x, w):
        return emit(op.nn.conv1d(x, w, padding=(32, 31), groups=2))

    case = graph("float16", [(1, 8, 40), (8, 4, 64)], build, lambda x, _w: x)
    assert convolves(case)


@pytest.mark.parametrize(
    ("number", "length", "left"), [(4, 99, False), (8, 1500, True), (BATCH, 99, True)]
)
def test_windows_that_overlap_are_written_out_as_far_as_there_is_room(number, length, left):
    """Of thirty seconds of sound, eight at a time, they would take 2.4 GB."""

    def build(emit, x, w):
        return emit(op.nn.conv1d(x, w, padding=64, groups=16))

    shapes = [((number, 1) if number is BATCH else number, 768, length), (768, 48, 128)]
    assert convolves(graph("float16", shapes, build, lambda x, _w: x)) == left
