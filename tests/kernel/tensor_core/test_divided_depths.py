"""Products whose depth the blocks of a cluster share, because their tiles are few."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tvm
from check import A100, H200, HALVES, check
from tensor_products import (
    check_product,
    linear,
    product_function,
    projected,
    read_product,
    with_tiles,
)
from tvm import tirx
from tvm.relax import op
from zoo import Case, gelu64, graph

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.codegen import cluster_exchange
from tvm_stitch.kernel.tensor_core.build import emit_products, tensor_kernel
from tvm_stitch.kernel.tensor_core.choose import choose_tiles, fastest_first
from tvm_stitch.kernel.tensor_core.cost import predicted_us
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of, iterations_of, tile_reasons
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.target import full_target

HOPPER = full_target(H200)
DEVICE = device_of(HOPPER)
BY_WARPS = Tiles(32, 64, 32, 16, 32, 3, splits=2)
BY_GROUPS = Tiles(64, 48, 64, 16, 48, 3, warpgroups=True, splits=4)
SWAPPED = Tiles(40, 64, 64, 40, 16, 3, warpgroups=True, splits=8)
ALL_TILES = {"warps": BY_WARPS, "groups": BY_GROUPS, "swapped": SWAPPED}
by_all_tiles = pytest.mark.parametrize("tiles", ALL_TILES.values(), ids=ALL_TILES)


@pytest.mark.spread(2)
@by_all_tiles
@pytest.mark.parametrize("splits", [2, 4, 8])
@pytest.mark.parametrize(
    "rows, depth, columns",
    [(17, 8, 8), (33, 72, 1000), (300, 520, 40), (64, 128, 48), (65, 1032, 136)],
)
def test_odd_sizes(tiles, splits, rows, depth, columns):
    """Depths that blocks divide and do not, also of fewer parts than blocks."""
    check_product(product_function(rows, depth, columns), replace(tiles, splits=splits), HOPPER)


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows, depth, columns", [(17, 66, 130), (31, 1000, 33), (40, 31, 257)])
def test_odd_columns_are_read_by_narrower_vectors(rows, depth, columns, monkeypatch):
    with_tiles(monkeypatch, BY_WARPS)
    check(linear("float16", rows, depth, columns), orders=2, target=HOPPER)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@by_all_tiles
def test_either_factor_may_lie_transposed_in_memory(left, right, tiles):
    check_product(product_function(72, 264, 2 * tiles.columns, left, right), tiles, HOPPER)


@pytest.mark.spread(2)
@by_all_tiles
@pytest.mark.parametrize("dtype", HALVES)
def test_a_bias_and_a_residual(tiles, dtype, monkeypatch):
    with_tiles(monkeypatch, tiles)
    check(linear(dtype, 100, 328, 136), target=HOPPER)


@pytest.mark.parametrize("rows", [17, 33, 300])
def test_rows_that_run_time_tells(rows, monkeypatch):
    with_tiles(monkeypatch, BY_GROUPS)
    check(linear("float16", (tirx.Var("n", "int64"), rows), 328, 136), target=HOPPER)


def with_gelu_and_two_results(dtype: str, *entries: int) -> Case:
    """A projection that is wanted as it is, and after a bias, GELU and a residual."""

    def build(emit, x, w, b, r):
        y = projected(emit, x, w, dtype)
        ended = emit(op.add(emit(op.nn.gelu(emit(op.add(y, b)))), r))
        return emit(tvm.relax.Tuple([y, ended]))

    def expected(x, w, b, r):
        return x @ w, gelu64(x @ w + b) + r

    shapes = [(*entries, 50, 264), (*entries, 264, 72), (72,), (*entries, 50, 72)]
    return graph(dtype, shapes, build, expected)


@by_all_tiles
def test_gelu_a_residual_and_two_results(tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    check(with_gelu_and_two_results("bfloat16"), target=HOPPER)


@by_all_tiles
def test_a_product_for_each_entry(tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    check(with_gelu_and_two_results("float16", 3), orders=2, target=HOPPER)


def run_of(tiles: Tiles, seed: int) -> tuple[np.ndarray, list]:
    """A product by tiles in some order of all threads: the result, and hazards."""
    function = product_function(70, 520, 136)
    kernel = emit_products(function, [read_product(function)], tiles)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float16") for shape in ((70, 520), (520, 136))]
    result = np.zeros((70, 136), "float32")
    run = simt.Function(kernel, HOPPER, check=True)([*arrays, result], seed=seed)
    return result, list(run.hazards)


@by_all_tiles
def test_sums_are_the_same_in_every_order(tiles):
    results = [run_of(tiles, seed)[0] for seed in range(3)]
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("barrier", ["publish", "leave"])
def test_both_barriers_of_the_cluster_are_needed(barrier, monkeypatch):
    """Blocks would read what is not there yet, or what is there no longer."""
    assert not run_of(BY_WARPS, 1)[1]
    monkeypatch.setattr(cluster_exchange, barrier, lambda writer: None)
    assert run_of(BY_WARPS, 1)[1]


def chosen(*sizes: int, device=DEVICE, **how) -> Tiles:
    return choose_tiles([read_product(product_function(*sizes))], device, **how)


@pytest.mark.parametrize(
    "sizes, splits",
    [
        ((17, 4096, 4096), 2),
        ((64, 3072, 768), 4),
        ((17, 3072, 768), 8),
        ((768, 16384, 768), 4),
        ((300, 4096, 4096), 1),
        ((1024, 4096, 4096), 1),
        ((2048, 4096, 11008), 1),
        ((300, 768, 3072), 1),
        ((64, 768, 768), 1),
    ],
)
def test_the_depth_is_divided_where_tiles_are_few_and_it_is_long(sizes, splits):
    product, tiles = read_product(product_function(*sizes)), chosen(*sizes)
    assert tiles.splits == splits
    if splits > 1:
        assert blocks_of(product, tiles) <= DEVICE.multiprocessors
        assert iterations_of(product, tiles) == -(-sizes[1] // (tiles.depth * splits))
        alone = choose_tiles([product], DEVICE, schemes=["regional"])
        assert alone.splits == 1
        assert predicted_us([product], tiles, DEVICE) < predicted_us([product], alone, DEVICE)


def test_gpus_without_clusters_divide_nothing():
    assert chosen(64, 3072, 768, device=device_of(A100)).splits == 1
    product = read_product(product_function(64, 3072, 768))
    assert all(
        tiles.splits == 1 for tiles in fastest_first([product], [BY_WARPS], device_of(A100))[1:]
    )
    assert "A100 does not have" in next(tile_reasons(product, BY_WARPS, device_of(A100)))


def test_the_exchange_counts():
    """Twice as many blocks do not take half the time."""
    product = read_product(product_function(64, 3072, 768))
    one, two, eight = (
        predicted_us([product], Tiles(64, 64, 64, 16, 64, 6, warpgroups=True, splits=n), DEVICE)
        for n in (1, 2, 8)
    )
    assert one / 2 < two < one and one / 8 < eight < two


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"splits": 3}, "rows that 3 blocks do not share"),
        ({"splits": 16}, "rows that 16 blocks do not share"),
    ],
)
def test_illegal_tiles_say_why(change, reason):
    product = read_product(product_function(512, 1024, 512))
    assert not list(tile_reasons(product, BY_GROUPS, DEVICE))
    reasons = tile_reasons(product, replace(BY_GROUPS, **change), DEVICE)
    assert any(reason in each for each in reasons)


def test_records_of_before_are_read():
    data = json.loads(BY_GROUPS.to_json())
    assert Tiles.from_json(json.dumps(data)) == BY_GROUPS
    del data["splits"]
    assert Tiles.from_json(json.dumps(data)) == replace(BY_GROUPS, splits=1)


def test_the_report_names_the_cluster():
    report = tvm_stitch.explain(linear("float16", 64, 3072, 768).module, HOPPER)
    (kernel,) = report.kernels
    assert kernel.scheme == "cluster"
    assert kernel.mapping.endswith("each by a cluster of 4 blocks")


def test_clusters_can_be_switched_off():
    function = product_function(64, 3072, 768)
    stages = read_stages(function)
    for schemes, splits in ((("regional", "cluster"), 4), (("regional",), 1)):
        kernel = tensor_kernel(stages, outputs_of(function, stages), DEVICE, NO_BOUNDS, schemes)
        assert kernel.tiles.splits == splits
