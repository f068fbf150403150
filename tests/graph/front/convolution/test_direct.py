"""Convolutions of few products an element are stages of what is around them, and right."""

from collections import Counter

import numpy as np
import pytest
from check import DTYPES, check, primfuncs, program_of
from convolved import convolved as of_channels_first
from depthwise import OF_VOLUMES, WEIGHTS, convolved, depthwise
from library_stand_in import stand_in
from tvm import tirx
from tvm.relax import op
from zoo import graph

from tvm_stitch.graph.back.launches import outside_calls
from tvm_stitch.graph.front.convolution.choose import convolutions_of
from tvm_stitch.graph.front.convolution.direct import is_direct
from tvm_stitch.library import locate
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

BATCH = tirx.Var("n", "int64")


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "window", "how"),
    [
        ((2, 14, 14, 24), (3, 3), {}),
        ((1, 9, 13, 31), (3, 3), {}),
        pytest.param((2, 12, 7, 8), (5, 5), {}, marks=pytest.mark.slow),
        ((2, 15, 28, 16), (3, 3), {"strides": (2, 2)}),
        ((1, 31, 33, 7), (3, 5), {"strides": (2, 1), "padding": (0, 2)}),
        ((2, 9, 10, 8), (3, 3), {"dilation": (2, 3), "padding": (2, 3)}),
        ((3, 1, 1, 40), (3, 3), {}),
        ((1, 33, 5, 12), (31, 1), {"padding": (15, 0)}),
        pytest.param((1, 9, 10, 8), (9, 9), {}, marks=pytest.mark.slow),
    ],
)
def test_convolutions(dtype, last, shape, window, how):
    check(depthwise(shape, window, dtype, last=last, weights="OIHW", **how), kernels=None)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "window", "how"),
    [
        ((1, 4, 10, 14, 24), (3, 3, 3), {}),
        ((2, 3, 9, 7, 31), (3, 3, 3), {"strides": (1, 2, 2)}),
        ((1, 3, 17, 19, 8), (3, 3, 3), {"strides": (1, 8, 4)}),
        ((1, 5, 6, 7, 16), (3, 1, 3), {"dilation": (2, 1, 3), "padding": (2, 0, 3)}),
        pytest.param(
            (1, 7, 6, 5, 9),
            (5, 5, 5),
            {"strides": (2, 1, 3), "padding": (1, 2, 0)},
            marks=pytest.mark.slow,
        ),
        ((1, 4, 8, 8, 12), (3, 3, 3), {"filters": 2}),
    ],
)
def test_convolutions_of_volumes(dtype, last, shape, window, how):
    case = depthwise(shape, window, dtype, last=last, weights="OIDHW", **how)
    assert any(map(is_direct, convolutions_of(case.module)))
    check(case, kernels=None)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "window", "how"),
    [
        ((2, 16, 16, 24), (3, 3), {"strides": (2, 2), "filters": 2}),
        ((1, 20, 16, 48), (7, 7), {"strides": (2, 2), "filters": 2}),
        ((1, 9, 7, 31), (1, 1), {"padding": (0, 0), "filters": 2}),
        ((2, 5, 9, 8), (5, 3), {"filters": 3}),
    ],
)
@pytest.mark.slow
def test_several_filters_a_channel(dtype, last, shape, window, how):
    check(depthwise(shape, window, dtype, last=last, weights="OIHW", **how), kernels=None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "weight", "how"),
    [
        ((3, 1, 1000), (1, 1, 5), {"padding": 2}),  # attention of channels
        ((5, 1, 33), (1, 1, 9), {"padding": 4}),
        ((2, 2, 14, 14), (1, 2, 7, 7), {"padding": 3}),  # attention of places
        ((2, 3, 15, 31), (1, 3, 3, 3), {"padding": 1, "strides": 2}),
        ((1, 1, 28, 56), (64, 1, 1, 7), {"padding": (0, 3), "strides": 2}),
        ((2, 1, 400), (24, 1, 10), {"strides": 5}),  # of speech
        ((1, 1, 7, 9), (3, 1, 3, 3), {"dilation": 2, "padding": 2}),
    ],
)
def test_one_channel_or_one_filter(dtype, shape, weight, how):
    """Without groups: every filter reads all channels."""
    rank = len(shape) - 2
    names = "strides", "padding", "dilation"
    given = [how.get(name, int(name != "padding")) for name in names]
    sides = [each if isinstance(each, tuple) else (each,) * rank for each in given]
    convolution = getattr(op.nn, f"conv{rank}d")

    def build(emit, x, w):
        return emit(op.sigmoid(emit(convolution(x, w, **dict(zip(names, sides, strict=True))))))

    def expected(x, w):
        return 1 / (1 + np.exp(-of_channels_first(x, w, *sides, 1)))

    case = graph(dtype, [shape, weight], build, expected)
    assert is_direct(case.module["main"].body.blocks[0].bindings[0].value)
    check(case)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_are_read_by_tap_in_a_kernel_that_transposes_them_if_need_be(weights):
    case = depthwise((8, 28, 28, 64), (3, 3), weights=weights)
    check(case, kernels=1 if weights == "HWOI" else 2, orders=1)


@pytest.mark.parametrize("weights", OF_VOLUMES)
def test_those_of_volumes_are_read_by_tap_as_well(weights):
    case = depthwise((2, 4, 14, 14, 64), (3, 3, 3), weights=weights)
    check(case, kernels=1 if weights == "DHWOI" else 2, orders=1)


def test_channels_first_take_their_weights_as_they_are():
    check(depthwise((8, 28, 32, 16), (3, 3), last=False, weights="OIHW"), kernels=1, orders=1)


@pytest.mark.parametrize("last, each", [(True, [4, 4, 3]), (False, [11])])
def test_long_lines_come_in_pieces_where_each_tap_is_a_vector(last, each):
    """All of a stage's vectors are loaded before it uses the first."""
    case = depthwise((2, 3, 20, 16), (1, 11), last=last, weights="HWOI" if last else "OIHW")
    stages = [stage for stage in program_of(case.module).stages if stage.name.startswith("taps")]
    found = [Counter(read.buffer.name for read in stage.reads) for stage in stages]
    assert [counts[found[0].most_common(1)[0][0]] for counts in found] == each
    check(case, orders=1)


def test_a_symbolic_batch():
    check(depthwise(((BATCH, 3), 14, 14, 16), (3, 3), weights="HWOI"), kernels=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [7, 33, 1000])
def test_sequences(dtype, length):
    """As Mamba has them: of the past alone, the future is cut off."""

    def build(emit, x, w):
        y = emit(op.nn.conv1d(x, w, padding=3, groups=24))
        return emit(op.nn.silu(emit(op.strided_slice(y, [2], [0], [length]))))

    def expected(x, w):
        padded = np.pad(x, ((0, 0), (0, 0), (3, 0)))
        y = sum(padded[:, :, k : k + length] * w[:, 0, k, None] for k in range(4))
        return y / (1 + np.exp(-y))

    check(graph(dtype, [(2, 24, length), (24, 1, 4)], build, expected))


@pytest.mark.parametrize(
    ("weight", "groups", "written"),
    [
        ((16, 1, 3, 3), 16, True),
        ((16, 1, 5, 5), 16, True),
        ((32, 1, 3, 3), 16, True),  # two filters a channel
        ((32, 1, 7, 7), 16, True),
        ((32, 1, 9, 9), 16, False),
        ((16, 2, 3, 3), 8, False),
        ((16, 16, 3, 3), 1, False),
        ((16, 1, 7, 7), 16, False),  # cuDNN has a kernel for these
        ((16, 1, 9, 9), 16, True),
        ((16, 1, 65, 1), 16, True),
        ((16, 1, 15, 15), 16, False),  # too many taps
        ((1, 16, 3, 3), 1, False),  # of many channels
    ],
)
def test_which_are_written_out(weight, groups, written):
    def build(emit, x, w):
        return emit(op.nn.conv2d(x, w, padding=32, groups=groups))

    case = graph("float16", [(1, 16, 12, 12), weight], build, lambda x, _w: x)
    (binding,) = case.module["main"].body.blocks[0].bindings[:1]
    assert is_direct(binding.value) == written


def test_the_library_is_not_asked(monkeypatch):
    target = full_target("nvidia/nvidia-h100")
    with stand_in(monkeypatch, locate.CUDNN):
        case = depthwise((2, 14, 14, 16), (3, 3), last=False, weights="OIHW")
        assert not outside_calls(stitched_for_cpu(case.module, target))
        assert any("direct_conv2d" in name for name in primfuncs(case.module))


def test_convolutions_that_are_joined_are_kernels_of_their_own():
    """In one with branches, vectors begin in one convolution and end in the other."""
    groups = {"data_layout": "NHWC", "kernel_layout": "HWOI", "groups": 12}

    def build(emit, x, w, v):
        first, second, third = (emit(op.strided_slice(x, [3], [n], [n + 12])) for n in (0, 12, 24))
        wide = emit(op.nn.conv2d(second, w, padding=(0, 5), **groups))
        tall = emit(op.nn.conv2d(third, v, padding=(5, 0), **groups))
        return emit(op.nn.relu(emit(op.concat([first, wide, tall], axis=3))))

    def expected(x, w, v):
        how = (1, 1), (0, 5), (1, 1)
        wide = convolved(x[..., 12:24], w, *how)
        tall = convolved(x[..., 24:], v, (1, 1), (5, 0), (1, 1))
        return np.maximum(np.concatenate([x[..., :12], wide, tall], 3), 0)

    shapes = [(2, 16, 16, 36), (1, 11, 12, 1), (11, 1, 12, 1)]
    check(graph("float16", shapes, build, expected), kernels=None)
    names = list(primfuncs(graph("float16", shapes, build, expected).module))
    assert not any("concat" in name and "direct" in name for name in names)
