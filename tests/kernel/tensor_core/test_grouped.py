"""Several products that wait for nothing of each other in one launch, each on its own blocks."""

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from check import H200, HALVES
from tvm import te, tirx

from tvm_stitch import simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import kernel_of
from tvm_stitch.kernel.tensor_core.build import TensorKernel, emit_products, read_products
from tvm_stitch.kernel.tensor_core.cost import Sized, predicted_us
from tvm_stitch.kernel.tensor_core.grouped import MOST_PRODUCTS, co_scheduled
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of, fitted_to_all
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import full_target

HOPPER = full_target(H200)
DEVICE = device_of(HOPPER)
BY_WARPS = Tiles(32, 64, 32, 16, 32, 3)
BY_GROUPS = Tiles(64, 128, 64, 16, 128, 4, min_blocks_per_sm=2, warpgroups=True)


@dataclass(frozen=True)
class Each:
    """One of the products: its columns, which factor it reads, and what it ends with."""

    columns: int
    depth: int = 72
    rows: int = 40
    left: str = "x"
    bias: bool = False
    dtype: str = "float16"


def ending(own: Each, x: te.Tensor, number: int) -> tuple[list[te.Tensor], te.Tensor]:
    """A product of an input by a weight, perhaps with a bias: the parameters, the result."""
    w = te.placeholder((own.columns, own.depth), own.dtype, f"w{number}")
    k = te.reduce_axis((0, own.depth), "k")

    def element(i, j):
        return te.sum(x[i, k].astype("float32") * w[j, k].astype("float32"), k)

    result = te.compute((x.shape[0], own.columns), element, f"product{number}")
    if not own.bias:
        return [w], result
    b = te.placeholder((own.columns,), own.dtype, f"b{number}")
    ended = te.compute(
        result.shape, lambda i, j: result[i, j].astype(own.dtype) + b[j], f"sum{number}"
    )
    return [w, b], ended


def grouped_function(*each: Each, rows: tirx.Var | None = None) -> tirx.PrimFunc:
    """Products of inputs by weights, each with what it ends with; of symbolic rows if given."""
    lefts: dict[str, te.Tensor] = {}
    weights: list[te.Tensor] = []
    results: list[te.Tensor] = []
    for number, own in enumerate(each):
        shape = (own.rows if rows is None else rows, own.depth)
        x = lefts.setdefault(own.left, te.placeholder(shape, own.dtype, own.left))
        given, result = ending(own, x, number)
        weights += given
        results.append(result)
    return te.create_prim_func([*lefts.values(), *weights, *results])


def check_grouped(
    *each: Each, tiles: Tiles, mixed: bool = False, rows: int = 40, is_symbolic: bool = False
) -> None:
    """Products of one launch by these tiles are right, and without hazards in any order."""
    function = grouped_function(*each, rows=tirx.Var("m", "int64") if is_symbolic else None)
    products = read_products(function)
    assert len(products) == len(each)
    kernel = emit_products(function, products, fitted_to_all(products, tiles), mixed)
    rng, given, exact = np.random.default_rng(0), {}, {}
    for param in function.params:
        shape = [rows if isinstance(e, tirx.Var) else int(e) for e in param.ty.shape]
        dtype = np.dtype(str(param.ty.dtype))
        values = rng.standard_normal(shape).astype(dtype)
        given[param.name] = values.view("uint16") if dtype == ml_dtypes.bfloat16 else values
        exact[param.name] = values.astype("float64")
    outputs = list(given)[-len(each) :]
    for seed in range(2):
        arrays = [array.copy() for array in given.values()]
        run = simt.Function(kernel, HOPPER, check=True)(arrays, seed=seed)
        assert not run.hazards
        for number, own in enumerate(each):
            wanted = exact[own.left] @ exact[f"w{number}"].T
            if own.bias:
                wanted = wanted + exact[f"b{number}"]
            got = arrays[list(given).index(outputs[number])]
            got = got.view(own.dtype) if got.dtype == "uint16" else got
            unit = {"float16": 2e-3, "bfloat16": 2e-2}[own.dtype] if own.bias else 1e-4
            np.testing.assert_allclose(got.astype("float64"), wanted, rtol=unit, atol=8 * unit)


TILES = {
    "by warps": BY_WARPS,
    "by groups of warps": BY_GROUPS,
    "by warps of a cluster": replace(BY_WARPS, splits=4),
    "by groups of warps of a cluster": replace(BY_GROUPS, min_blocks_per_sm=0, splits=2),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("tiles", TILES.values(), ids=TILES)
def test_products_of_several_widths_with_ends_of_their_own(dtype, tiles):
    own = [Each(136, bias=True), Each(72), Each(264, bias=True)]
    check_grouped(*(replace(each, dtype=dtype) for each in own), tiles=tiles)


@pytest.mark.parametrize("tiles", TILES.values(), ids=TILES)
@pytest.mark.parametrize("mixed", [False, True])
def test_blocks_of_one_product_after_the_other_and_in_step(tiles, mixed):
    own = Each(136, rows=300)
    check_grouped(own, replace(own, columns=520), own, tiles=tiles, mixed=mixed)


@pytest.mark.parametrize("tiles", TILES.values(), ids=TILES)
@pytest.mark.parametrize("rows", [1, 40, 130])
@pytest.mark.parametrize("mixed", [False, True])
def test_rows_that_run_time_tells(tiles, rows, mixed):
    own = (Each(136, bias=True), Each(72), Each(40))
    check_grouped(*own, tiles=tiles, mixed=mixed, rows=rows, is_symbolic=True)


def test_odd_sizes_other_inputs_and_depths():
    """Nothing need be the same: accesses are as wide as each product's factors allow."""
    own = [Each(33, 66, 31), Each(130, 1027, 17, "y", bias=True), Each(257, 31, 100, "z")]
    check_grouped(*own, tiles=BY_WARPS)


def test_shallow_products_have_no_more_stages_than_they_need():
    """The deepest says how many stages there are, and the shallowest is done after its only one."""
    own = [Each(136, 64), Each(136, 1032, left="y")]
    check_grouped(*own, tiles=BY_GROUPS)


def test_halves_of_both_sorts():
    check_grouped(Each(136), Each(72, left="y", dtype="bfloat16"), tiles=BY_GROUPS)


def test_the_deepest_come_first():
    function = grouped_function(Each(64, 72), Each(64, 512, left="y"), Each(64, 200, left="z"))
    assert [each.contracted for each in read_products(function)] == [512, 200, 72]


def test_a_kernel_of_several_says_how_many_and_counts_each_tensor_once():
    function = grouped_function(Each(768, 768, 1024), Each(768, 768, 1024), Each(256, 768, 1024))
    kernel = kernel_of(function, DEVICE)
    assert isinstance(kernel, TensorKernel) and kernel.parts == 3
    assert set(kernel.buffers) == set(function.params)
    assert len(kernel.buffers) == len(function.params)
    assert kernel.check() is None


def test_more_than_code_has_room_for_are_refused():
    own = [Each(64 + 8 * number) for number in range(MOST_PRODUCTS + 1)]
    found = read_products(grouped_function(*own))
    assert isinstance(found, Refused) and "more than one kernel has products" in found.reason
    assert len(read_products(grouped_function(*own[1:]))) == MOST_PRODUCTS


def test_what_is_computed_beside_products_is_refused():
    x, w = te.placeholder((64, 72), "float16", "x"), te.placeholder((72, 48), "float16", "w")
    k = te.reduce_axis((0, 72), "k")
    function = te.create_prim_func(
        [
            *(x, w),
            te.compute((64, 48), lambda i, j: te.sum(x[i, k] * w[k, j], k), "product"),
            te.compute((64, 72), lambda i, j: x[i, j] * x[i, j], "square"),
        ]
    )
    assert isinstance(read_products(function), Refused)


def test_waves_are_those_of_one_grid():
    """Three times 96 blocks take three waves of 132, and launch once."""
    one = Each(768, 768, 1024)
    several = read_products(grouped_function(one, one, one))
    tiles = Tiles(64, 128, 64, 16, 128, 6, warpgroups=True)
    assert [blocks_of(each, tiles) for each in several] == [96, 96, 96]
    assert Sized.of(several).blocks(tiles) == 288
    alone = predicted_us(several[:1], tiles, DEVICE)
    assert 2 * alone < predicted_us(several, tiles, DEVICE) < 3 * alone
    half = read_products(grouped_function(replace(one, rows=640), replace(one, rows=640)))
    both, first = (predicted_us(each, tiles, DEVICE) for each in (half, half[:1]))
    assert both < 1.1 * first


def test_all_blocks_count_as_the_slowest():
    one, deep = Each(768, 768, 640), Each(768, 3072, 640, "y")
    several = read_products(grouped_function(one, deep))
    tiles = Tiles(64, 128, 64, 16, 128, 6, warpgroups=True)
    together, alone = (predicted_us(p, tiles, DEVICE) for p in (several, several[:1]))
    assert alone < together < 1.1 * alone


@pytest.mark.parametrize(
    "rows, depth, columns, is_better",
    [
        (1024, 768, 768, False),  # all of it stays in the L2
        (16384, 2048, 1024, True),
        (8192, 8192, 8192, False),  # the weights would not
    ],
)
def test_in_step_where_a_shared_input_would_be_read_again(rows, depth, columns, is_better):
    own = Each(columns, depth, rows)
    assert co_scheduled(read_products(grouped_function(own, own, own)), DEVICE) == is_better
    assert not co_scheduled(read_products(grouped_function(own, replace(own, left="y"))), DEVICE)
    assert not co_scheduled(read_products(grouped_function(own)), DEVICE)
