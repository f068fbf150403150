"""Products on tensor cores by groups of four warps, where the GPU and code for it allow that."""

from dataclasses import replace

import pytest
import tvm
from check import H200, HALVES, check
from tensor_products import check_product, linear, product_function, read_product, with_tiles
from tvm.s_tir import dlight

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.kernel.tensor_core.choose import GROUPED, GROUPED_SHALLOW, choose_tiles
from tvm_stitch.kernel.tensor_core.cost import predicted_us
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of, fitted, tile_reasons
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import full_target, plain_target
from tvm_stitch.tvm_default import default_schedules

HOPPER = full_target(H200)
DEVICE = device_of(HOPPER)
SMALL = Tiles(64, 48, 64, 16, 48, 3, warpgroups=True)
SWAPPED = Tiles(40, 64, 64, 40, 16, 3, warpgroups=True)
# Every width and height once: others differ from these in numbers only.
SIDES = {
    (tiles.swapped, tiles.sides[1]): replace(tiles, stages=3)
    for tiles in GROUPED
    if not tiles.min_blocks_per_sm and tiles.sides[0] == (64, 128)[tiles.sides[1] % 32 == 0]
}
ALL_TILES = (*SIDES.values(), Tiles(192, 80, 64, 16, 80, 4, warpgroups=True), *GROUPED_SHALLOW)


def named(tiles: Tiles) -> str:
    return f"{tiles.rows}x{tiles.columns}x{tiles.stages}{'-swapped' * tiles.swapped}"


@pytest.mark.parametrize("tiles", ALL_TILES, ids=named)
def test_every_size_of_tiles(tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    dtype = HALVES[ALL_TILES.index(tiles) % 2]
    check(linear(dtype, 150, 328, 136), orders=2, target=HOPPER)


@pytest.mark.spread(2)
@pytest.mark.parametrize("tiles", [SMALL, SWAPPED], ids=named)
@pytest.mark.parametrize(
    "rows, depth, columns",
    [(17, 8, 8), (33, 72, 1000), (1027, 64, 40), (64, 128, 48), (65, 1032, 8)],
)
def test_odd_sizes(tiles, rows, depth, columns, monkeypatch):
    """Tiles reach beyond the ends of rows, columns and depth; of one stage and of many."""
    with_tiles(monkeypatch, tiles)
    check(linear("float16", rows, depth, columns), orders=2, target=HOPPER)


@pytest.mark.spread(2)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "tiles",
    [
        Tiles(128, 64, 64, 16, 64, 3, warpgroups=True),
        Tiles(128, 104, 64, 16, 104, 3, warpgroups=True),
        Tiles(104, 64, 64, 104, 16, 3, warpgroups=True),
        Tiles(16, 128, 64, 16, 16, 4, warpgroups=True),
    ],
    ids=named,
)
def test_either_factor_may_lie_transposed_in_memory(left, right, tiles):
    rows, depth = 72, 264
    function = product_function(rows, depth, 2 * tiles.columns, left, right)
    found = read_product(function)
    assert not list(tile_reasons(found, tiles, DEVICE))
    check_product(function, tiles, HOPPER)


def test_what_rows_and_columns_groups_of_warps_have_goes_to_json_and_back():
    assert SWAPPED.swapped and SWAPPED.sides == (64, 40) and SWAPPED.threads == 128
    assert not SMALL.swapped and SMALL.sides == (64, 48)
    assert Tiles.from_json(SWAPPED.to_json()) == SWAPPED


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 63, 64, 100, 197, 300, 1027, 3152])
@pytest.mark.parametrize("columns", [8, 40, 136, 768, 1000, 11008])
def test_tiles_are_legal_whatever_the_sizes(rows, columns):
    if rows < 16:
        assert isinstance(read_product(product_function(rows, 776, columns)), Refused)
        return
    found = read_product(product_function(rows, 776, columns))
    tiles = choose_tiles([found], DEVICE)
    assert tiles.warpgroups and not list(tile_reasons(found, tiles, DEVICE))


def test_a_deep_product_goes_by_groups_of_warps_in_code_for_this_gpu_alone():
    found = read_product(product_function(2048, 4096, 11008))
    assert choose_tiles([found], DEVICE).warpgroups
    assert not choose_tiles([found], device_of(H200)).warpgroups
    report = tvm_stitch.explain(linear("float16", 2048, 1024, 2048).module, "sm_90")
    assert report.target == "sm_90a" and "warps in groups" in report.kernels[0].mapping


@pytest.mark.parametrize(
    "sizes, size, blocks",
    [
        ((1024, 3072, 768), (96, 64), 132),
        ((1024, 768, 3072), (144, 192), 128),
        ((3152, 3072, 768), (144, 128), 132),
        ((1024, 4096, 4096), (128, 256), 128),
        ((300, 4096, 4096), (160, 64), 128),
        ((8192, 64, 4096), (64, 128), 4096),
        ((384, 128, 64), (64, 64), 6),
    ],
)
def test_tiles_fill_whole_waves_of_132_multiprocessors(sizes, size, blocks):
    product = read_product(product_function(*sizes))
    tiles = choose_tiles([product], DEVICE)
    assert tiles.warpgroups and (tiles.rows, tiles.columns) == size
    assert blocks_of(product, tiles) == blocks


@pytest.mark.parametrize(
    "sizes, tiles, measured",
    [
        ((1024, 3072, 768), Tiles(96, 64, 64, 96, 16, 10, warpgroups=True), 13.7),
        ((3152, 3072, 768), Tiles(144, 128, 64, 144, 16, 6, warpgroups=True), 27.2),
        ((1024, 768, 2304), Tiles(96, 192, 64, 96, 16, 6, warpgroups=True), 10.1),
        ((4096, 4096, 4096), Tiles(128, 256, 64, 16, 256, 4, warpgroups=True), 179.1),
        ((300, 4096, 4096), Tiles(80, 128, 64, 80, 16, 8, warpgroups=True), 24.1),
        ((512, 3072, 768), Tiles(64, 64, 64, 16, 64, 10, warpgroups=True), 11.2),
        ((1024, 1000, 1000), Tiles(64, 128, 64, 16, 128, 8, warpgroups=True), 11.6),
    ],
)
def test_the_model_knows_what_was_measured_on_an_h200(sizes, tiles, measured):
    """Of bench/products/h200-tiles.json, less what two events measure besides."""
    product = read_product(product_function(*sizes))
    assert predicted_us([product], tiles, DEVICE) == pytest.approx(measured, rel=0.18)


def test_resident_blocks_and_latency_count():
    """Too few stages ahead wait for each copy; a block alone waits for its results to be stored."""
    product = read_product(product_function(2048, 4096, 768))
    deep, flat = (Tiles(128, 128, 64, 16, 128, n, warpgroups=True) for n in (6, 3))
    assert predicted_us([product], flat, DEVICE) > 1.1 * predicted_us([product], deep, DEVICE)


def test_what_is_compiled_may_use_them_whatever_target_is_in_scope():
    with H200:
        executable = tvm_stitch.compile(linear("float16", 2048, 1024, 2048).module, H200)
    assert "wgmma.mma_async" in "".join(sources(executable.mod))


def sources(module):
    """The CUDA sources of a built module and of all that it imports."""
    own = [module.inspect_source()] if module.kind == "cuda" else []
    return own + [source for each in module.imports for source in sources(each)]


def test_factors_with_few_neighbours_in_memory_go_another_way():
    """Columns of 2056 bytes begin at every 8 bytes, vectors of 16 at every second."""
    found = read_product(product_function(2048, 4096, 1028))
    tiles = choose_tiles([found], DEVICE)
    assert not tiles.warpgroups
    (reason,) = tile_reasons(found, fitted(found, GROUPED[0]), DEVICE)
    assert "too few for lines of 128 bytes" in reason


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"rows": 32}, "rows or a depth"),
        ({"warp_rows": 32}, "rows or a depth"),
        ({"depth": 32}, "rows or a depth"),
        ({"warp_columns": 16}, "columns that a group"),
        ({"columns": 512, "warp_columns": 512}, "columns that a group"),
        ({"columns": 44, "warp_columns": 44}, "a warp of 16 x 44"),
        ({"rows": 48, "warp_rows": 48, "warp_columns": 16}, "rows or a depth"),
        ({"rows": 264, "warp_rows": 264, "columns": 64, "warp_columns": 16}, "columns that a"),
        ({"stages": 2}, "2 stages, 64 deep"),
    ],
)
def test_illegal_tiles_say_why(change, reason):
    found = read_product(product_function(512, 1024, 512))
    assert not list(tile_reasons(found, SMALL, DEVICE))
    assert not list(tile_reasons(found, SWAPPED, DEVICE))
    reasons = list(tile_reasons(found, replace(SMALL, **change), DEVICE))
    assert any(reason in each for each in reasons), reasons


def test_targets_for_one_gpu_alone():
    assert full_target("sm_90").attrs["arch"] == full_target("sm_90a").attrs["arch"] == "sm_90a"
    assert full_target("sm_80").attrs["arch"] == "sm_80"
    with_host = full_target(tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm"))
    assert with_host.host.kind.name == "llvm"


def test_what_is_left_to_tvm_is_scheduled_by_the_number_of_the_architecture():
    """DLight looks at digits: for sm_90a it would leave tensor cores aside."""
    given = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    assert plain_target(given).attrs["arch"] == "sm_90"
    assert plain_target(H200).attrs["arch"] == "sm_90"
    seen = []

    class Rule(dlight.ScheduleRule):
        def apply(self, func, target, _tunable):
            seen.append(str(target.attrs["arch"]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_schedules, "default_rules", lambda: [Rule()])
        with given:
            default_schedules.DefaultSchedules(given)(
                tvm.IRModule({"main": product_function(40, 72, 48)})
            )
    assert seen == ["sm_90"]
