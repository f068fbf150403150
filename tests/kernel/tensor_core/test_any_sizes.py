"""Tiles of products whose sizes only run time knows, and what they are judged by until then."""

import pytest
import tvm
from check import primfuncs
from products_with_endings import product
from tvm import tirx

from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.tensor_core.build import read_products, tensor_kernel
from tvm_stitch.kernel.tensor_core.choose import any_sizes, choose_tiles, slower_than_fitted
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.read_stages import outputs_of, read_stages

DEVICE = device_of(tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}))
N = tirx.Var("n", "int64")


def function(rows):
    (found,) = primfuncs(
        product("float16", rows, 1024, 2048).module, before="StitchSchedule"
    ).values()
    return found


@pytest.fixture(scope="module")
def products():
    return read_products(function((N, 5)))


def expecting(rows: int, **bounds: int) -> Bounds:
    return Bounds(tuple(bounds.items()), expected=(("n", rows),))


def sizes(points) -> list[int]:
    return [dict(point.of)["n"] for point in points]


def test_they_should_suit_what_is_expected_and_what_is_around_it(products):
    assert sizes(any_sizes(products, NO_BOUNDS)) == [32, 256, 2048]
    assert sizes(any_sizes(products, expecting(64))) == [8, 64, 512]
    assert sizes(any_sizes(products, expecting(3))) == [1, 3, 24]
    assert sizes(any_sizes(products, expecting(64, n=100))) == [8, 64, 100]


def test_few_expected_rows_have_smaller_tiles_than_many(products):
    few, many = (choose_tiles(products, DEVICE, expecting(rows)) for rows in (16, 8192))
    assert few.rows * few.columns < many.rows * many.columns


def test_no_tiles_suit_all_sizes_best(products):
    for rows in (16, 8192):
        bounds = expecting(rows)
        assert (
            slower_than_fitted(products, choose_tiles(products, DEVICE, bounds), DEVICE, bounds) > 1
        )


def cost(rows, bounds: Bounds) -> float:
    own = function(rows)
    stages = read_stages(own)
    return tensor_kernel(stages, outputs_of(own, stages), DEVICE, bounds, ("regional",)).cost_us


def test_what_they_lose_at_other_sizes_counts_where_nobody_states_any():
    """Of stated sizes, and of known ones, it is as fast as it is there."""
    stated = cost((N, 5), Bounds(points=(Extents((("n", 1024),)),)))
    assert stated == pytest.approx(cost(1024, NO_BOUNDS))
    assert cost((N, 5), expecting(1024)) > stated
