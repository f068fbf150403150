"""The measuring of products: its shapes, its table, and constants that are found again."""

from dataclasses import asdict, replace

import pytest
from check import H200

from bench.products import fit, grid, modules, table, tiles
from bench.products.__main__ import parser
from tvm_stitch.device import device_of
from tvm_stitch.kernel.library_product.cost import HALVES, library_us
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.choose import choose_tiles
from tvm_stitch.kernel.tensor_core.cost import GROUPED as TIMING
from tvm_stitch.kernel.tensor_core.cost import Sized, compared_us
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.target import full_target

DEVICE, HOPPER = device_of(H200), full_target(H200)


def test_every_shape_has_a_name_of_its_own():
    for shapes in (grid.timed(), grid.checked()):
        assert len({shape.name for shape in shapes}) == len(shapes) > 150
    assert parser().parse_args(["--list"]).list


def test_what_is_multiplied_is_what_the_name_says():
    shape = grid.Shape("float16", 32, 64, 48, 3, False, True, "residual bias")
    assert shape.name == "float16 3*32x64x48 TT residual bias"
    assert modules.parameters(shape) == [(3, 64, 32), (3, 48, 64), (48,), (3, 32, 48)]
    (predicted,) = modules.predicted(modules.fused([shape], H200), DEVICE).values()
    assert predicted.library is None and predicted.ours > 0


def row(name, library, ours, predicted_library, predicted_ours):
    predicted = {"library": predicted_library, "ours": predicted_ours}
    return {"shape": name, "library_us": library, "ours_us": ours, "predicted": predicted}


def test_the_table_says_how_far_the_chosen_way_is_behind():
    rows = [row("a", 10.0, 12.0, 9.0, 11.0), row("b", 15.0, 12.0, 9.0, 11.0)]
    rows.append(row("c", 15.0, None, 9.0, None))
    assert [table.behind(each) for each in rows] == [1.0, 1.25, 1.0]
    said = table.summary(rows)
    assert "within 5 % of the best on 67%" in said and "1.25  b" in said
    assert "by the clock" not in said
    clocked = [{**rows[0], "clock_us": 8.0}, {**rows[1], "clock_us": 15.0}, rows[2]]
    assert "by the clock: 1.118 times as fast in the mean, 1.25 at best" in table.summary(clocked)


def test_constants_are_found_again():
    shapes = [shape for shape in grid.timed() if shape.dtype == "float16" and shape.rows > 200][::4]
    tiles = tuple(replace(tile, rate=1.2 * tile.rate) for tile in HALVES.tiles)
    true = replace(HALVES, tiles=tiles, bandwidth_share=0.6)
    rows = [
        {**asdict(shape), "library_us": library_us(product, DEVICE, true) + fit.EVENTS_US}
        for shape, product in zip(shapes, fit.products(shapes, H200), strict=True)
    ]
    (found,) = fit.fit(rows, DEVICE, H200)
    assert found.typical_error < 0.02
    # The tiles that compute none of these products faster than others keep their rates.
    pairs = zip(found.timing.tiles, HALVES.tiles, strict=True)
    ratios = [tile.rate / first.rate for tile, first in pairs]
    moved = [ratio for ratio in ratios if abs(ratio - 1) > 0.05]
    assert len(moved) >= 3 and moved == pytest.approx([1.2] * len(moved), rel=0.1)


def test_tiles_that_are_timed_are_legal_and_of_many_sizes():
    shapes = grid.swept()
    assert len({shape.name for shape in shapes}) == len(shapes)
    for product in fit.products(shapes[5:8], HOPPER):
        found = tiles.sizes(product, device_of(HOPPER))
        assert len(set(found)) == len(found) > tiles.NEAREST
        assert choose_tiles([product], device_of(HOPPER)) == found[0]


def test_a_module_of_products_by_given_tiles():
    shapes = [grid.Shape("bfloat16", 64, 256, 96), grid.Shape("bfloat16", 96, 256, 64)]
    own = Tiles(64, 48, 64, 16, 48, 3, warpgroups=True)
    chosen = {modules.function_name(1): own}
    mod = tiles.by_tiles(modules.fused(shapes, HOPPER), chosen, HOPPER)
    found = {
        name: Tiles.from_json(str(function.attrs[TILES_ATTRIBUTE]))
        for name, function in modules.functions(mod).items()
    }
    assert found[modules.function_name(1)] == own != found[modules.function_name(0)]


def test_constants_of_tiles_are_found_again():
    device, shapes = device_of(HOPPER), grid.swept()
    true = replace(TIMING, rate=1500.0, l2_bytes=60.0, starts=3000.0)
    rows = [
        {**asdict(shape), "tiles": asdict(own), "tiles_us": compared_us(sized, own, device, true)}
        for shape, product in zip(shapes, fit.products(shapes, HOPPER), strict=True)
        for sized in [Sized.of([product])]
        for own in tiles.sizes(product, device)
    ]
    for row in rows:
        row["tiles_us"] += fit.EVENTS_US
    found = tiles.fit(rows, device, HOPPER)
    assert found.products == len(rows) and found.typical_error < 0.01
    assert found.timing.l2_bytes == pytest.approx(60.0, rel=0.03)
    assert found.timing.starts == pytest.approx(3000.0, rel=0.1)
    said = table.swept([{**row, "shape": "a", "ok": False, "error": 0.5} for row in rows[:1]])
    assert "wrong by 5.0e-01" in said
