"""Products of few rows, as where a model decodes: alone, with what follows, several in a launch."""

import numpy as np
import pytest
from check import A100, H200, HALVES, check, primfuncs
from tensor_products import linear, linear_of_torch, product_function, projected
from tvm import relax
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.errors import StitchError
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.library_product.cost import library_us
from tvm_stitch.kernel.skinny_matmul.build import (
    SKINNY_ATTRIBUTE,
    SkinnyKernel,
    emit_skinny,
    read_skinny,
    skinny_kernel,
)
from tvm_stitch.kernel.skinny_matmul.tiles import SkinnyTiles, tiles_from_json, tiles_to_json
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

DEVICE = device_of(H200)


LAYOUTS = pytest.mark.parametrize("case", (linear_of_torch, linear), ids=("along", "across"))


def tiles_of(case: Case, target=H200) -> list[tuple[SkinnyTiles, ...]]:
    """The tiles of the kernels of few rows that a module has."""
    functions = primfuncs(case.module, target=target).values()
    attributes = [(function.attrs or {}).get(SKINNY_ATTRIBUTE) for function in functions]
    return [tiles_from_json(str(each)) for each in attributes if each is not None]


def chosen(rows: int, depth: int, columns: int, along: bool) -> SkinnyKernel | Refused:
    """The kernel of a product alone."""
    function = product_function(rows, depth, columns, right=along)
    stages = read_stages(function)
    return skinny_kernel(stages, outputs_of(function, stages), DEVICE, NO_BOUNDS, SCHEMES)


@pytest.mark.spread(3)
@LAYOUTS
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "rows, depth, columns",
    [(2, 1000, 328), (3, 512, 1000), (7, 72, 136), (9, 2072, 72), (15, 1032, 264), (14, 136, 520)],
)
def test_odd_sizes(case, dtype, rows, depth, columns):
    made = case(dtype, rows, depth, columns)
    assert len(tiles_of(made)) == 1
    check(made, orders=2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("depth, columns", [(512, 1000), (1032, 264), (2048, 512)])
def test_a_single_row_by_columns_that_lie_along_memory(dtype, depth, columns):
    """What others compute as a reduction of columns; a bias and a residual go along."""
    made = linear(dtype, 1, depth, columns)
    assert len(tiles_of(made)) == 1
    check(made, orders=2)


def test_a_single_query_a_key_and_a_value_share_a_launch():
    def build(emit, x, q, k, v):
        return [projected(emit, x, each, "float16") for each in (q, k, v)]

    shapes = [(1, 1024), (1024, 1024), (1024, 256), (1024, 264)]
    case = graph("float16", shapes, build, lambda x, q, k, v: (x @ q, x @ k, x @ v))
    check(case, kernels=1, orders=2)


def test_a_single_row_by_columns_across_memory_is_a_reduction_of_rows():
    assert not tiles_of(linear_of_torch("float16", 1, 512, 1000))


@pytest.mark.parametrize("columns", [65, 1027])
def test_columns_that_lie_along_the_depth_may_be_any_number(columns):
    made = linear_of_torch("float16", 5, 136, columns)
    assert len(tiles_of(made)) == 1
    check(made, orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("along", (True, False), ids=("along", "across"))
@pytest.mark.parametrize("warps", (1, 4, 8))
@pytest.mark.parametrize("chunks", (1, pytest.param(2, marks=pytest.mark.slow), 4))
def test_every_tile(along, warps, chunks):
    """Warps with several steps, with one, and with none; a rest that is no whole chunk."""
    for columns in (16,) if along else (16, 32, 64):
        tiles = SkinnyTiles(columns, warps, chunks)
        for rows, depth in ((3, 72), (16, 520)):
            right(product_function(rows, depth, 88, right=along), tiles)


def right(function, tiles: SkinnyTiles) -> None:
    """A product alone by tiles is right in shuffled orders of threads, and without hazards."""
    found = read_skinny(function)
    assert not isinstance(found, Refused)
    kernel = emit_skinny(function, found, [tiles])
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in param.ty.shape] for param in function.params]
    x, w = (rng.standard_normal(shape).astype("float16") for shape in shapes[:2])
    result = np.zeros(shapes[2], "float32")
    run = tvm_stitch.simt.Function(kernel, H200, check=True)([x, w, result], seed=1)
    assert not run.hazards
    wide = w.astype("float64")
    expected = x.astype("float64") @ (wide.T if found[0].right.by_depth else wide)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_what_is_not_finite_stays_in_its_column():
    """Lanes beyond the last row and column read the last one; what they compute is not stored."""
    function = product_function(3, 200, 71, right=True)
    (product,) = read_skinny(function)
    kernel = emit_skinny(function, [product], [SkinnyTiles(16, 4, 2)])
    x, w = np.ones((3, 200), "float16"), np.ones((71, 200), "float16")
    x[2, 7], w[70, 199] = np.nan, np.inf
    result = np.zeros((3, 71), "float32")
    tvm_stitch.simt.Function(kernel, H200)([x, w, result], seed=1)
    assert np.isnan(result[2]).all() and (result[:2, :70] == 200).all()
    assert np.isposinf(result[:2, 70]).all()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("entries", [(3,), (2, 3)])
def test_a_product_for_each_entry(entries, dtype):
    """Rows and a matrix of their own, as of experts or of heads behind a cache."""

    def build(emit, x, y):
        return emit(op.nn.relu(projected(emit, x, y, dtype)))

    shapes = [(*entries, 5, 72), (*entries, 72, 88)]
    case = graph(dtype, shapes, build, lambda x, y: np.maximum(x @ y, 0))
    assert len(tiles_of(case)) == 1
    check(case, orders=2)


def test_a_result_in_float32_with_a_gelu_behind_it():
    def build(emit, x, w):
        return emit(op.nn.gelu_tanh(emit(op.matmul(x, w, "float32"))))

    def expected(x, w):
        y = x @ w
        return y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))

    case = graph("bfloat16", [(4, 256), (256, 136)], build, expected)
    assert len(tiles_of(case)) == 1
    check(case, orders=2)


def test_a_query_a_key_and_a_value_share_a_launch():
    """Of any layout and any number of columns, each on blocks of its own."""

    def build(emit, x, q, k, v):
        turned = emit(op.permute_dims(q))
        return [projected(emit, x, each, "float16") for each in (turned, k, v)]

    shapes = [(4, 256), (512, 256), (256, 128), (256, 72)]
    case = graph("float16", shapes, build, lambda x, q, k, v: (x @ q.T, x @ k, x @ v))
    (tiles,) = tiles_of(case)
    assert len(tiles) == 3 and len({each.threads for each in tiles}) == 1
    check(case, orders=2)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


GATES = {"silu": (op.nn.silu, silu), "gelu": (op.nn.gelu_tanh, gelu)}
GATES["sigmoid"] = op.sigmoid, lambda x: 1 / (1 + np.exp(-x))


def gated(dtype, rows, depth, columns, along, gate="silu") -> Case:
    """Two products of one input, of which one is the other's gate."""
    emitted, exact = GATES[gate]

    def build(emit, x, w, v):
        ways = (emit(op.permute_dims(each)) if along else each for each in (w, v))
        own, other = (projected(emit, x, each, dtype) for each in ways)
        return emit(op.multiply(emit(emitted(own)), other))

    def expected(x, w, v):
        own, other = (x @ (each.T if along else each) for each in (w, v))
        return exact(own) * other

    of_weights = (columns, depth) if along else (depth, columns)
    return graph(dtype, [(rows, depth), of_weights, of_weights], build, expected)


@pytest.mark.spread(3)
@pytest.mark.parametrize("along", (True, False), ids=("along", "across"))
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "rows, depth, columns, gate",
    [
        (2, 1000, 328, "silu"), (3, 512, 1000, "gelu"), (7, 72, 136, "sigmoid"),
        (8, 2072, 72, "silu"), (15, 1032, 264, "gelu"), (16, 136, 520, "silu"),
    ],
)  # fmt: skip
def test_a_gate_and_what_it_gates_are_one_kernel(along, dtype, rows, depth, columns, gate):
    made = gated(dtype, rows, depth, columns, along, gate)
    assert len(tiles_of(made)) == 1
    check(made, kernels=1, orders=2)


@pytest.mark.parametrize("columns", [65, 1027])
def test_a_gate_of_any_number_of_columns(columns):
    made = gated("bfloat16", 5, 136, columns, along=True)
    assert len(tiles_of(made)) == 1
    check(made, kernels=1, orders=2)


def test_a_gate_of_a_single_row_by_columns_that_lie_along_memory():
    check(gated("float16", 1, 512, 1000, along=False), kernels=1, orders=2)


def test_biases_and_what_else_is_needed_of_a_gated_product():
    """The gate is an output as well, and a third product is added to what comes out."""

    def build(emit, x, w, v, u, b):
        own, other, third = (projected(emit, x, each, "float16") for each in (w, v, u))
        gate = emit(op.sigmoid(emit(op.add(own, b))))
        return gate, emit(op.add(emit(op.multiply(gate, other)), third))

    def expected(x, w, v, u, b):
        gate = 1 / (1 + np.exp(-(x @ w + b)))
        return gate, gate * (x @ v) + x @ u

    case = graph("float16", [(6, 256), *[(256, 136)] * 3, (136,)], build, expected)
    assert len(tiles_of(case)) == 1
    check(case, kernels=1, orders=2)


def halved(dtype, rows, depth, columns, along, gate="silu") -> Case:
    """The same by a matrix that has the columns of both, behind a bias and a view."""
    emitted, exact = GATES[gate]

    def build(emit, x, w, b):
        turned = emit(op.permute_dims(w)) if along else w
        both = emit(op.add(projected(emit, x, turned, dtype), b))
        both = emit(op.reshape(both, (rows, 1, 2 * columns)))
        parts = emit(op.split(both, 2, -1))
        own, other = (emit(relax.TupleGetItem(parts, number)) for number in range(2))
        return emit(op.multiply(emit(emitted(own)), other))

    def expected(x, w, b):
        both = (x @ (w.T if along else w) + b)[:, None]
        return exact(both[..., :columns]) * both[..., columns:]

    of_weights = (2 * columns, depth) if along else (depth, 2 * columns)
    return graph(dtype, [(rows, depth), of_weights, (2 * columns,)], build, expected)


@pytest.mark.slow
@pytest.mark.spread(3)
@pytest.mark.parametrize("along", (True, False), ids=("along", "across"))
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "rows, depth, columns, gate",
    [(2, 1000, 328, "silu"), (7, 72, 136, "gelu"), (8, 512, 1000, "silu"), (16, 136, 264, "gelu")],
)
def test_a_gate_and_what_it_gates_by_one_matrix(along, dtype, rows, depth, columns, gate):
    made = halved(dtype, rows, depth, columns, along, gate)
    assert len(tiles_of(made)) == 1
    check(made, kernels=1, orders=2)


@pytest.mark.parametrize("columns", [68, 1027])
def test_halves_of_any_number_of_columns_along_the_depth(columns):
    made = halved("float16", 5, 136, columns, along=True)
    assert len(tiles_of(made)) == 1
    check(made, kernels=1, orders=2)


def test_columns_that_somebody_reads_whole_stay_together():
    def build(emit, x, w):
        both = projected(emit, x, w, "float16")
        parts = emit(op.split(both, 2, -1))
        own, other = (emit(relax.TupleGetItem(parts, number)) for number in range(2))
        return both, emit(op.multiply(own, other))

    def expected(x, w):
        both = x @ w
        return both, both[:, :136] * both[:, 136:]

    case = graph("float16", [(4, 256), (256, 272)], build, expected)
    assert len(tiles_of(case)) == 1
    check(case, kernels=2, orders=2)


def test_products_of_different_inputs_are_no_gated_product():
    def build(emit, x, y, w, v):
        own, other = (projected(emit, *each, "float16") for each in ((x, w), (y, v)))
        return emit(op.multiply(emit(op.nn.silu(own)), other))

    shapes = [(4, 256), (4, 256), (256, 136), (256, 136)]
    case = graph("float16", shapes, build, lambda x, y, w, v: silu(x @ w) * (y @ v))
    assert len(tiles_of(case)) == 2
    check(case, kernels=2, orders=2)


@pytest.mark.parametrize("target", (A100, H200), ids=("sm_80", "sm_90"))
def test_targets_with_tensor_cores_for_halves(target):
    assert len(tiles_of(linear_of_torch("float16", 4, 512, 512), target)) == 1


@pytest.mark.parametrize(
    "rows, depth, columns, reason",
    [
        (17, 512, 512, "17 rows, more than 16"),
        (4, 48, 512, "too small"),
        (4, 516, 512, "vectors of 8"),
    ],
)
def test_what_it_leaves_to_others(rows, depth, columns, reason):
    found = chosen(rows, depth, columns, along=True)
    assert isinstance(found, Refused) and reason in found.reason


@pytest.mark.parametrize("along", (True, False), ids=("along", "across"))
def test_small_matrices_are_ours_and_large_ones_of_many_rows_the_librarys(along):
    """As measured on an H200, bench/results/h200/skinny.md."""
    small, large = chosen(4, 768, 768, along), chosen(16, 4096, 11008, along)
    assert small.cost_us < library_us(small.products[0], DEVICE)
    assert large.cost_us > library_us(large.products[0], DEVICE)


@pytest.mark.parametrize("rows", (2, 8))
@pytest.mark.parametrize("depth, columns", [(4096, 11008), (11008, 4096), (8192, 8192)])
def test_weights_of_large_models_are_ours_where_the_depth_lies_along_memory(rows, depth, columns):
    found = chosen(rows, depth, columns, along=True)
    assert found.cost_us < library_us(found.products[0], DEVICE)


def test_blocks_of_one_wave_and_a_half_have_short_steps():
    """Of which more are resident: all of 352, where of long steps 264 would be."""
    (short,), (long,) = (chosen(4, 2048, columns, along=True).tiles for columns in (5632, 4096))
    assert short.warps == long.warps and short.chunks < long.chunks


def test_tiles_are_read_as_they_were_written():
    tiles = (SkinnyTiles(16, 8, 4), SkinnyTiles(32, 8, 1))
    assert tiles_from_json(tiles_to_json(tiles)) == tiles
    with pytest.raises(StitchError):
        tiles_from_json('[{"columns": 0, "warps": 8, "chunks": 4}]')
