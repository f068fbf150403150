"""Large matrix products of halves run on tensor cores, with what follows them."""

import numpy as np
import pytest
import tvm
from check import H200, HALVES, check, primfuncs
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.device import device_of
from tvm_stitch.kernel import tensor_tiles
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.kernel.tensor import emit_product, read_product
from tvm_stitch.kernel.tensor_product import TensorProduct
from tvm_stitch.kernel.tensor_tiles import SIZES, Tiles

DEVICE = device_of(H200)
T4 = tvm.target.Target({"kind": "cuda", "arch": "sm_75"})
SMALL = Tiles(32, 64, 32, 16, 32, 3)


def projected(emit, x, w, dtype: str):
    """A product summed in float32 and rounded, as importers write it."""
    return emit(op.astype(emit(op.matmul(x, w, "float32")), dtype))


def linear(dtype: str, rows: int, depth: int, columns: int, *batch: int) -> Case:
    """A projection, its bias and a residual."""

    def build(emit, x, w, b, r):
        return emit(op.add(emit(op.add(projected(emit, x, w, dtype), b)), r))

    shapes = [(*batch, rows, depth), (depth, columns), (columns,), (*batch, rows, columns)]
    return graph(dtype, shapes, build, lambda x, w, b, r: x @ w + b + r)


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


def with_tiles(monkeypatch, *sizes: Tiles) -> None:
    """No other tiles than these, however few blocks they make."""
    monkeypatch.setattr(tensor_tiles, "SIZES", sizes)
    monkeypatch.setattr(tensor_tiles, "BUSY_BLOCKS", 0)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("tiles", SIZES, ids=lambda t: f"{t.rows}x{t.columns}")
def test_every_size_of_tiles(dtype, tiles, monkeypatch):
    with_tiles(monkeypatch, tiles)
    check(linear(dtype, 150, 200, 136), orders=2)


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
    x = tirx.decl_buffer((depth, rows) if left else (rows, depth), "float16", "x")
    w = tirx.decl_buffer((columns, depth) if right else (depth, columns), "float16", "w")
    function = _product_function(x, w, (rows, depth, columns), left, right)
    found = read_product(function)
    assert isinstance(found, TensorProduct)
    assert (found.left.by_depth, found.right.by_depth) == (not left, right)
    kernel = emit_product(function, found, SMALL)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(e) for e in b.ty.shape]).astype("float16") for b in (x, w)]
    result = np.zeros((rows, columns), "float32")
    run = tvm_stitch.simt.Function(kernel, H200, check=True)([*arrays, result], seed=1)
    wide = [array.astype("float64") for array in arrays]
    exact = (wide[0].T if left else wide[0]) @ (wide[1].T if right else wide[1])
    assert not run.hazards
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-5)


def _product_function(x, w, sizes, left, right) -> tirx.PrimFunc:
    from tvm import te

    rows, depth, columns = sizes
    a = te.placeholder((depth, rows) if left else (rows, depth), "float16", "x")
    b = te.placeholder((columns, depth) if right else (depth, columns), "float16", "w")
    k = te.reduce_axis((0, depth), "k")

    def element(i, j):
        own = a[k, i] if left else a[i, k]
        other = b[j, k] if right else b[k, j]
        return te.sum(own.astype("float32") * other.astype("float32"), k)

    return te.create_prim_func([a, b, te.compute((rows, columns), element, "product")])
