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
from tvm_stitch.kernel.tensor_core.tiles import Tiles, fitted, tile_reasons
from tvm_stitch.target import full_target, plain_target
from tvm_stitch.tvm_default import default_schedules

HOPPER = full_target(H200)
DEVICE = device_of(HOPPER)
ALL_TILES = (*GROUPED, *GROUPED_SHALLOW)
SMALL = Tiles(64, 48, 64, 16, 48, 3, warpgroups=True)


@pytest.mark.parametrize("tiles", ALL_TILES, ids=lambda t: f"{t.rows}x{t.columns}x{t.stages}")
def test_every_size_of_tiles(tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    dtype = HALVES[ALL_TILES.index(tiles) % 2]
    check(linear(dtype, 150, 328, 136), orders=2, target=HOPPER)


@pytest.mark.parametrize(
    "rows, depth, columns",
    [(17, 8, 8), (33, 72, 1000), (1000, 64, 40), (64, 128, 48), (65, 1032, 8)],
)
def test_odd_sizes(rows, depth, columns, monkeypatch):
    """Tiles reach beyond the ends of rows, columns and depth; of one stage and of many."""
    with_tiles(monkeypatch, SMALL)
    check(linear("float16", rows, depth, columns), orders=2, target=HOPPER)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("columns", [64, 96])
def test_either_factor_may_lie_transposed_in_memory(left, right, columns):
    rows, depth = 72, 264
    function = product_function(rows, depth, 2 * columns, left, right)
    found = read_product(function)
    tiles = Tiles(128, columns, 64, 16, columns, 3, warpgroups=True)
    assert not list(tile_reasons(found, tiles, DEVICE))
    check_product(function, tiles, HOPPER)


def test_a_deep_product_goes_by_groups_of_warps_in_code_for_this_gpu_alone():
    found = read_product(product_function(2048, 4096, 11008))
    assert choose_tiles([found], DEVICE).warpgroups
    assert not choose_tiles([found], device_of(H200)).warpgroups
    report = tvm_stitch.explain(linear("float16", 2048, 1024, 2048).module, "sm_90")
    assert report.target == "sm_90a" and "warps in groups" in report.kernels[0].mapping


@pytest.mark.parametrize(
    "sizes, size",
    [
        ((4096, 768, 768), (128, 256, 4)),
        ((512, 3072, 768), (64, 64, 8)),
        ((1024, 1024, 1024), (64, 128, 6)),
        ((8192, 64, 4096), (64, 128, 1)),
        ((384, 128, 64), (64, 64, 2)),
    ],
)
def test_tiles_that_were_the_fastest(sizes, size):
    tiles = choose_tiles([read_product(product_function(*sizes))], DEVICE)
    assert tiles.warpgroups and (tiles.rows, tiles.columns, tiles.stages) == size


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
        ({"stages": 2}, "2 stages, 64 deep"),
    ],
)
def test_illegal_tiles_say_why(change, reason):
    found = read_product(product_function(512, 1024, 512))
    assert not list(tile_reasons(found, SMALL, DEVICE))
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
