"""Attention is the library's where that takes less time, by a model near to measurements."""

import pytest

from tvm_stitch.device import device_of
from tvm_stitch.graph.front.attention.cost import library_us, own_us, refused_as_slower
from tvm_stitch.library.attention import NO_MASK, TOP_LEFT, Attention, Bias, Place
from tvm_stitch.target import full_target

DEVICE = device_of(full_target("nvidia/nvidia-h200"))
PLACE = Place(0, 8, 8, 8)


def of(batch, heads, queries, keys, depth, mask=NO_MASK, key_heads=None, bias=None):
    return Attention(
        mask, 1.0, batch, heads, key_heads or heads, queries, keys, depth, depth,
        PLACE, PLACE, PLACE, PLACE, bias,
    )  # fmt: skip


# Microseconds on an H200: of cuDNN, and of the package's own kernels where those were measured.
MEASURED = {
    (32, 12, 128, 128, 64): (9.2, 21.5),
    (16, 12, 197, 197, 64): (13.6, 42.3),
    (4, 8, 1024, 1024, 40): (23.9, 98.0),
    (4, 8, 1027, 77, 40): (10.0, None),
    (2, 2, 31, 31, 16): (4.7, None),
    (8, 32, 1, 2048, 128): (64.6, None),
    (1, 32, 2048, 2048, 128): (None, 316.0),
}


@pytest.mark.parametrize("sizes", MEASURED)
def test_near_what_was_measured(sizes):
    found = library_us(of(*sizes), DEVICE), own_us(of(*sizes), DEVICE)
    for us, measured in zip(found, MEASURED[sizes], strict=True):
        assert measured is None or measured / 1.6 < us < measured * 1.3


def test_attention_of_models_is_the_librarys():
    for sizes in list(MEASURED)[:4]:
        assert refused_as_slower(of(*sizes), DEVICE) is None


@pytest.mark.parametrize("sizes", [(2, 2, 31, 31, 16), (1, 8, 1, 64, 64)])
def test_small_attention_stays_one_kernel(sizes):
    assert "cuDNN would take" in refused_as_slower(of(*sizes), DEVICE).reason


def test_masks_spare_half_and_biases_are_read():
    sizes = 1, 32, 2048, 2048, 128
    plain, causal = (library_us(of(*sizes, mask), DEVICE) for mask in (NO_MASK, TOP_LEFT))
    assert causal < 0.6 * plain
    sizes = 8, 32, 1, 2048, 64
    bias = Bias(0, 32 * 2048, 2048, 2048, 1)
    assert library_us(of(*sizes, bias=bias), DEVICE) > library_us(of(*sizes), DEVICE)
    assert library_us(of(*sizes, key_heads=1), DEVICE) < library_us(of(*sizes), DEVICE)
