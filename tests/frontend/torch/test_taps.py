"""Tables of interpolations say what PyTorch's operators in float64 do, and how gradients go."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.frontend.torch.ops.images.taps import (  # noqa: E402
    cubic,
    linear,
    nearest,
    nearest_exact,
)

_aten = torch.ops.aten
SIZES = [(1, 1), (1, 7), (7, 1), (7, 31), (31, 7), (33, 33), (8, 16), (16, 8), (5, 64), (33, 31)]


def dense(taps):
    """What a table makes of each element of the source: a matrix."""
    found = np.zeros((taps.made, taps.source))
    places = taps.first[:, None] + np.arange(taps.count)
    assert (places >= 0).all()
    assert (places < taps.source).all()
    np.put_along_axis(found, places, taps.weights.astype(np.float64), 1)
    return found


def agree(taps, images):
    """A table is that of an operator, given what this makes of a row for each element."""
    expected = images.reshape(taps.source, -1).numpy().T
    np.testing.assert_allclose(dense(taps), expected, atol=1e-6)
    np.testing.assert_array_equal(dense(taps.transposed()), dense(taps).T)


def rows(count):
    return torch.eye(count, dtype=torch.float64).reshape(count, 1, count)


@pytest.mark.parametrize("scale", [None, 1.9])
def test_tables_are_those_of_pytorch(scale):
    for source, made in [(n, int(n * scale)) for n in (1, 7, 33)] if scale else SIZES:
        x = rows(source)
        for corners in (False, True):
            agree(
                linear(source, made, corners, scale),
                _aten.upsample_linear1d(x, [made], corners, scale),
            )
            high = x.reshape(source, 1, 1, source)
            agree(
                cubic(source, made, corners, scale),
                _aten.upsample_bicubic2d(high, [1, made], corners, None, scale),
            )
        agree(nearest(source, made, scale), _aten.upsample_nearest1d(x, [made], scale))
        agree(nearest_exact(source, made, scale), _aten._upsample_nearest_exact1d(x, [made], scale))


def test_long_rows_take_no_square():
    taps = linear(50_000, 400_000, False, None)
    assert taps.count == 2
    assert taps.transposed().count == 16


def test_what_needs_no_table():
    assert nearest(5, 5, None).is_copy
    assert nearest(1, 9, None).tables == ()
    assert linear(1, 9, False, None).transposed().is_sum
    assert nearest(4, 8, None).tables == nearest(4, 8, None).transposed().tables == ()
    assert [len(each) for each in nearest(4, 6, None).tables] == [6]


@pytest.mark.parametrize("make", (nearest, nearest_exact))
def test_places_of_whole_ratios_are_computed(make):
    for source, made in [(4, 8), (7, 21), (5, 20), (21, 7), (8, 4), (2, 4), *SIZES]:
        taps = make(source, made, None)
        for each in (taps, taps.transposed()):
            if each.progression is not None:
                step, ahead, every = each.progression
                places = (np.arange(each.made) * step + ahead) // every
                np.testing.assert_array_equal(places, each.first)
        larger, smaller = max(source, made), min(source, made)
        if smaller > 1 and larger > smaller and larger % smaller == 0:
            assert taps.progression is not None
