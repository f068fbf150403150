"""Large matrix products of halves run on tensor cores, with what follows them."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from check import A100, H200, HALVES, check, primfuncs
from tensor_products import (
    check_product,
    linear,
    product_function,
    projected,
    read_product,
    with_tiles,
)
from tvm import relax, te, tirx
from tvm.relax import op
from zoo import Case, Graph, graph

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.device import device_of
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.choose import DEEP, SHALLOW, choose_tiles
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of, tile_reasons
from tvm_stitch.stages.stage import Refused

DEVICE = device_of(H200)
T4 = tvm.target.Target({"kind": "cuda", "arch": "sm_75"})
ALL_TILES = tuple(dict.fromkeys((*DEEP, *SHALLOW)))
SMALL = Tiles(32, 64, 32, 16, 32, 3)


def by_entries(dtype: str, entries: tuple[int, ...], rows: int, depth: int, columns: int) -> Case:
    """A product for each entry of a batch, rectified."""

    def build(emit, x, y):
        return emit(op.nn.relu(projected(emit, x, y, dtype)))

    shapes = [(*entries, rows, depth), (*entries, depth, columns)]
    return graph(dtype, shapes, build, lambda x, y: np.maximum(x @ y, 0))


def product_of(case: Case, options: Options | None = None) -> TensorProduct | Refused:
    """What the only function with a product computes, as StitchSchedule gets it."""
    functions = primfuncs(case.module, options=options, before="StitchSchedule").values()
    found = [read_product(function) for function in functions]
    products = [each for each in found if isinstance(each, TensorProduct)]
    return products[0] if products else found[0]


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "tiles", dict.fromkeys((*DEEP, *SHALLOW)), ids=lambda t: f"{t.rows}x{t.columns}x{t.depth}"
)
def test_every_size_of_tiles(dtype, tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    check(linear(dtype, 150, 200, 136), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "rows, depth, columns",
    [(33, 66, 130), (31, 1000, 33), (17, 1027, 72), (1000, 31, 257), (64, 65, 1027), (40, 130, 31)],
)
def test_odd_sizes(rows, depth, columns, monkeypatch):
    """Tiles reach beyond the ends of rows, columns and depth; vectors are as wide as may be."""
    with_tiles(monkeypatch, SMALL)
    check(linear("float16", rows, depth, columns), orders=2)


@pytest.mark.parametrize("entries", [(3,), (2, 3), (1, 2)])
def test_a_product_for_each_entry(entries, monkeypatch):
    with_tiles(monkeypatch, SMALL)
    check(by_entries("bfloat16", entries, 33, 72, 40), orders=2)


@pytest.mark.parametrize(("left", "right"), [((3, 2), (2,)), ((2,), (3, 2)), ((3, 1, 2), (2, 2))])
def test_a_batch_that_shares_the_matrices_of_another(left, right, monkeypatch):
    """Outer entries of one factor alone: as of heads, each with its own weights."""
    with_tiles(monkeypatch, SMALL)

    def build(emit, x, y):
        return emit(op.nn.relu(projected(emit, x, y, "float16")))

    shapes = [(*left, 33, 72), (*right, 72, 40)]
    case = graph("float16", shapes, build, lambda x, y: np.maximum(x @ y, 0))
    assert isinstance(product_of(case), TensorProduct)
    check(case, orders=2)


def test_rows_of_several_axes_are_rows():
    case = linear("float16", 20, 72, 264, 3)
    found = product_of(case)
    assert isinstance(found, TensorProduct)
    assert (found.entries, found.rows, found.columns, found.contracted) == (1, 60, 264, 72)
    check(case, orders=2)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_either_factor_may_lie_transposed_in_memory(left, right):
    """A function that reads them so: neighbours in memory are along the depth or beside it."""
    rows, depth, columns = 40, 72, 48
    function = product_function(rows, depth, columns, left, right)
    found = read_product(function)
    assert isinstance(found, TensorProduct)
    assert (found.left.by_depth, found.right.by_depth) == (not left, right)
    check_product(function, SMALL, H200)


def test_a_half_result_is_summed_in_float32_and_rounded_once():
    def build(emit, x, w):
        return emit(op.matmul(x, w))

    case = graph("float16", [(64, 2000), (2000, 96)], build, lambda x, w: x @ w)
    assert isinstance(product_of(case), TensorProduct)
    verified = check(case, orders=2)
    assert verified.errors[0].error < 1e-3


def test_a_float32_result_stays_as_it_is():
    def build(emit, x, w):
        return emit(op.matmul(x, w, "float32"))

    case = graph("bfloat16", [(70, 130), (130, 90)], build, lambda x, w: x @ w)
    check(case, orders=2)


def test_what_follows_reads_rows_columns_and_single_elements():
    """A factor for each row, one for all, a mask by column that decides what is read."""

    def build(emit, x, w, scale, mask, one):
        y = emit(op.matmul(x, w, "float32"))
        y = emit(op.multiply(emit(op.multiply(y, scale)), one))
        return emit(op.where(emit(op.greater(mask, relax.const(0.0, "float16"))), y, scale))

    def expected(x, w, scale, mask, one):
        return np.where(mask > 0, (x @ w) * scale * one, scale)

    g = Graph()
    shapes = [((40, 72), "float16"), ((72, 200), "float16"), ((40, 1), "float32")]
    shapes += [((200,), "float16"), ((1, 1), "float32")]
    arrays = [g.input(f"p{n}", *each) for n, each in enumerate(shapes)]
    case = g.case(build, expected(*arrays))
    functions = primfuncs(case.module)
    assert sum(TILES_ATTRIBUTE in function.attrs for function in functions.values()) == 1
    check(case, orders=2, kernels=None)


def test_on_an_older_gpu_with_such_tensor_cores():
    check(linear("bfloat16", 33, 72, 130), orders=2, target=A100)


@pytest.mark.parametrize(
    "case, reason",
    [
        (linear("float32", 64, 100, 264), "a product of float32"),
        (linear("float16", 7, 100, 264), "a product of 7 rows, too few for tensor cores"),
    ],
)
def test_what_goes_another_way(case, reason):
    found = product_of(case)
    assert isinstance(found, Refused)
    assert found.reason == reason
    kernels = primfuncs(case.module).values()
    assert not any(TILES_ATTRIBUTE in kernel.attrs for kernel in kernels)


def test_an_older_gpu_gets_the_default_kernel():
    case = linear("float16", 64, 100, 264)
    kernels = primfuncs(case.module, target=T4).values()
    assert not any(TILES_ATTRIBUTE in kernel.attrs for kernel in kernels)
    assert choose_tiles([product_of(case)], device_of(T4)).reason.startswith(
        "T4 has no tensor cores"
    )


def test_shared_memory_can_be_switched_off():
    case = linear("float16", 64, 100, 264)
    kernels = primfuncs(case.module, options=Options(schemes=("local", "warp"))).values()
    assert not any(TILES_ATTRIBUTE in kernel.attrs for kernel in kernels)


def test_the_report_says_what_the_kernel_does():
    report = tvm_stitch.explain(linear("float16", 512, 768, 768).module, H200)
    (kernel,) = report.kernels
    assert kernel.scheme == "regional" and kernel.stitched and not report.fallbacks
    assert "tensor cores" in kernel.mapping
    assert kernel.why.startswith("a product of 512 x 768 x 768 on tensor cores")
    assert kernel.bytes_min == 2 * (3 * 512 * 768 + 768 * 768 + 768)
    assert kernel.predicted_us > kernel.floor_us > 0


def test_deep_products_get_tiles_that_leave_no_multiprocessor_without_work():
    """Of 4096 x 3072 x 768, tiles of 96 rows make 258 blocks, two for nearly every one of 132."""
    found = read_product(product_function(4096, 3072, 768))
    tiles = choose_tiles([found], DEVICE)
    assert (tiles.rows, tiles.columns) == (96, 128)
    assert blocks_of(found, tiles) == 258
    large = choose_tiles([read_product(product_function(2048, 4096, 11008))], DEVICE)
    assert (large.rows, large.columns) == (128, 128)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"warp_rows": 24}, "a warp of 24 x 32 results"),
        ({"rows": 40}, "tiles that warps do not divide"),
        ({"depth": 24}, "3 stages, 24 deep"),
        ({"stages": 1}, "1 stages, 32 deep"),
        ({"rows": 1024, "columns": 1024}, "a block of 65536 threads"),
        ({"stages": 40}, "bytes of shared memory, a block has"),
        ({"rows": 512, "columns": 256, "warp_rows": 128, "warp_columns": 64}, "registers of each"),
    ],
)
def test_illegal_tiles_say_why(change, reason):
    found = read_product(product_function(512, 1024, 512))
    reasons = list(tile_reasons(found, replace(SMALL, **change), DEVICE))
    assert any(reason in each for each in reasons), reasons


def test_tiles_are_data():
    assert Tiles.from_json(SMALL.to_json()) == SMALL


def product_and_rounding(rounded) -> tirx.PrimFunc:
    """A square product, rounded to halves at the places that `rounded` says of each element."""
    size = 64
    a, b = (te.placeholder((size, size), "float16", name) for name in "xw")
    k = te.reduce_axis((0, size), "k")
    total = te.compute(
        (size, size),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), k),
        "product",
    )
    result = te.compute((size, size), lambda i, j: rounded(total, i, j).astype("float16"), "half")
    return te.create_prim_func([a, b, result])


def test_a_rounding_that_moves_elements_is_not_taken_for_the_product():
    plain = read_product(product_and_rounding(lambda total, i, j: total[i, j]))
    assert isinstance(plain, TensorProduct) and not plain.after
    moved = read_product(product_and_rounding(lambda total, i, j: total[j, i]))
    assert isinstance(moved, Refused)
    assert moved.reason == "half reads other elements than its own"


def test_rows_that_are_looked_up_are_no_factor():
    size = 64
    a, b = (te.placeholder((size, size), "float16", name) for name in "xw")
    rows = te.placeholder((size,), "int64", "rows")
    k = te.reduce_axis((0, size), "k")
    result = te.compute(
        (size, size),
        lambda i, j: te.sum(a[rows[i], k].astype("float32") * b[k, j].astype("float32"), k),
        "product",
    )
    found = read_product(te.create_prim_func([a, b, rows, result]))
    assert isinstance(found, Refused)
    assert found.reason == "a product of what is looked up by indices in memory"
