"""Transposed convolutions that become plain ones of more filters: which, and what they give."""

import re

import pytest
from check import cuda_of
from library_convolutions import TARGET, calls, check, module
from library_stand_in import stand_in
from tvm import tirx
from tvm.relax import op

from tvm_stitch.build import lowering_context, stitch_passes
from tvm_stitch.library import locate
from tvm_stitch.library.convolution import DATA, FORWARD


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN):
        yield


def upsampled(rank, data, weight, dtype="float16", ends=False, **how):
    """A transposed convolution, perhaps with a bias and ReLU behind it."""

    def body(emit, x, w, *bias):
        found = emit(getattr(op.nn, f"conv{rank}d_transpose")(x, w, **how))
        return emit(op.nn.relu(emit(op.add(found, *bias)))) if ends else found

    bias = [(weight[1], *(1,) * rank)] if ends else []
    return module(body, data, weight, *bias, dtype=dtype)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("rank", "data", "sizes", "how"),
    [
        (1, (2, 8, 21), (4,), {"strides": 2, "padding": 1}),
        (1, (2, 8, 33), (16,), {"strides": 8, "padding": 4}),
        (1, (1, 8, 31), (10,), {"strides": 5, "padding": 3, "output_padding": 1}),
        (1, (2, 8, 7), (3,), {"strides": 3}),
        (2, (2, 8, 5, 7), (2, 2), {"strides": (2, 2)}),
        (2, (1, 8, 33, 31), (4, 4), {"strides": (2, 2), "padding": (1, 1)}),
        (2, (2, 8, 17, 16), (4, 2), {"strides": (2, 2), "padding": (1, 0, 0, 0)}),
        (2, (2, 8, 16, 9), (4, 1), {"strides": (2, 1), "padding": (1, 0)}),
        (2, (1, 8, 33, 31), (4, 4), {"strides": (2, 2), "padding": (0, 1, 2, 0)}),
        (3, (1, 8, 3, 4, 5), (2, 2, 2), {"strides": (2, 2, 2)}),
    ],
)
@pytest.mark.parametrize(
    ("dtype", "tf32"), [("float16", False), ("float32", True), ("float32", False)]
)
def test_steps_that_the_windows_are_multiples_of(rank, data, sizes, how, dtype, tf32):
    mod = upsampled(rank, data, (8, 4, *sizes), dtype, **how)
    check(mod, tf32=tf32)
    (found,), refused = calls(mod, tf32)
    assert found.what == FORWARD and set(found.strides) == {1} and not refused
    assert found.channels_last == (dtype == "float16" or tf32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_what_is_behind_puts_the_results_in_order(dtype):
    """Two kernels: of the filters (and images, with channels last); and the shuffle, bias, ReLU."""
    how = {"strides": (2, 2), "padding": (1, 1)}
    check(upsampled(2, (2, 8, 16, 16), (8, 4, 4, 4), dtype, ends=True, **how), kernels=2)


def test_the_shuffle_reads_vectors_of_channels():
    """Behind the results that are left out at the beginning, too."""

    def body(emit, x, w):
        first = emit(op.permute_dims(x, (0, 3, 1, 2)))
        found = emit(op.nn.conv2d_transpose(first, w, strides=(2, 2), padding=(1, 1)))
        return emit(op.permute_dims(emit(op.nn.relu(found)), (0, 2, 3, 1)))

    mod = module(body, (16, 64, 64, 64), (64, 64, 4, 4))
    with lowering_context(), TARGET:
        for each in stitch_passes(TARGET):
            mod = each(mod)
    kernels = [each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    assert any(re.search(r"\(uint4\*\)\(\w*shuffled_ptr", cuda_of(each)) for each in kernels)


@pytest.mark.parametrize(
    ("data", "weight", "how"),
    [
        ((2, 8, 16, 16), (8, 4, 3, 3), {"strides": (2, 2), "padding": (1, 1)}),  # 4 x 4: 1.8 times
        ((2, 8, 8, 8), (8, 4, 4, 4), {"strides": (2, 2), "padding": (1, 1)}),  # 9 x 9 of 8 x 8
        ((2, 8, 16, 16), (8, 4, 3, 3), {"padding": (1, 1)}),  # no steps
        ((2, 8, 16, 16), (8, 2, 4, 4), {"strides": (2, 2), "groups": 2}),
        ((2, 8, 16, 16), (8, 4, 2, 2), {"strides": (2, 2), "output_padding": (1, 1)}),  # beyond
        (
            (2, 8, 32, 32),
            (8, 4, 4, 4),
            {"strides": (2, 2), "padding": (1, 1, 0, 0), "output_padding": (1, 1)},
        ),
    ],
)
def test_what_does_not_pay_is_a_gradient(data, weight, how):
    mod = upsampled(2, data, weight, **how)
    check(mod)
    assert calls(mod)[0][0].what == DATA


def test_kernels_of_float32_for_gradients_are_worth_less():
    how = {"strides": (2, 2), "padding": (1, 1)}
    shapes = (2, 8, 8, 8), (8, 4, 4, 4)
    found = [calls(upsampled(2, *shapes, dtype, **how))[0][0] for dtype in ("float16", "float32")]
    assert [each.what for each in found] == [DATA, FORWARD]


@pytest.mark.parametrize(
    ("size", "filters", "dtype", "what"),
    [
        (4, 127, "float16", FORWARD),
        (4, 128, "float16", DATA),  # they fill a tile
        (2, 128, "float16", FORWARD),  # windows side by side: a product
        (4, 128, "float32", FORWARD),
    ],
)
def test_many_filters_of_halves_whose_windows_overlap_are_a_gradient(size, filters, dtype, what):
    padding = ((size - 2) // 2,) * 2
    how = {"strides": (2, 2), "padding": padding}
    mod = upsampled(2, (2, 8, 32, 32), (8, filters, size, size), dtype, **how)
    assert [each.what for each in calls(mod)[0]] == [what]


def test_sizes_of_images_that_change():
    batch, side = (tirx.Var(name, "int64") for name in ("batch", "side"))
    mod = upsampled(2, (batch, 8, side, side), (8, 4, 4, 4), strides=(2, 2), padding=(1, 1))
    (found,), refused = calls(mod)
    assert found.what == FORWARD and not refused
