"""Large matrix products of halves: alone, with an epilogue, and by tiles of one's choice."""

import numpy as np
import tvm
from tvm import te, tirx
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch.kernel.tensor_core import choose as choose_tensor
from tvm_stitch.kernel.tensor_core.build import emit_products, read_products
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.stages.stage import Refused


def projected(emit, x, w, dtype: str):
    """A product summed in float32 and rounded, as importers write it."""
    return emit(op.astype(emit(op.matmul(x, w, "float32")), dtype))


def linear(dtype: str, rows: int, depth: int, columns: int, *batch: int) -> Case:
    """A projection, its bias and a residual."""

    def build(emit, x, w, b, r):
        return emit(op.add(emit(op.add(projected(emit, x, w, dtype), b)), r))

    shapes = [(*batch, rows, depth), (depth, columns), (columns,), (*batch, rows, columns)]
    return graph(dtype, shapes, build, lambda x, w, b, r: x @ w + b + r)


def linear_of_torch(dtype: str, rows: int, depth: int, columns: int) -> Case:
    """The same by weights of which each column lies along memory, as PyTorch keeps them."""

    def build(emit, x, w, b, r):
        turned = emit(op.permute_dims(w))
        return emit(op.add(emit(op.add(projected(emit, x, turned, dtype), b)), r))

    shapes = [(rows, depth), (columns, depth), (columns,), (rows, columns)]
    return graph(dtype, shapes, build, lambda x, w, b, r: x @ w.T + b + r)


def read_product(function: tirx.PrimFunc) -> TensorProduct | Refused:
    """The only product that a fused PrimFunc computes."""
    found = read_products(function)
    if isinstance(found, Refused):
        return found
    (product,) = found
    return product


def product_function(
    rows: int, depth: int, columns: int, left: bool = False, right: bool = False
) -> tirx.PrimFunc:
    """A product alone, of factors of which either may lie transposed."""
    a = te.placeholder((depth, rows) if left else (rows, depth), "float16", "x")
    b = te.placeholder((columns, depth) if right else (depth, columns), "float16", "w")
    k = te.reduce_axis((0, depth), "k")

    def element(i, j):
        own = a[k, i] if left else a[i, k]
        other = b[j, k] if right else b[k, j]
        return te.sum(own.astype("float32") * other.astype("float32"), k)

    return te.create_prim_func([a, b, te.compute((rows, columns), element, "product")])


def check_product(function: tirx.PrimFunc, tiles: Tiles, target: tvm.target.Target) -> None:
    """A product alone, by these tiles, is right and without hazards."""
    found = read_product(function)
    kernel = emit_products(function, [found], tiles)
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in param.ty.shape] for param in function.params]
    arrays = [rng.standard_normal(shape).astype("float16") for shape in shapes[:2]]
    result = np.zeros(shapes[2], "float32")
    run = tvm_stitch.simt.Function(kernel, target, check=True)([*arrays, result], seed=1)
    wide = [array.astype("float64") for array in arrays]
    own, other = (
        array if factor.by_depth == (factor is found.left) else array.T
        for array, factor in zip(wide, (found.left, found.right), strict=True)
    )
    assert not run.hazards
    np.testing.assert_allclose(result, own @ other, rtol=1e-5, atol=1e-4)


def with_tiles(monkeypatch, *sizes: Tiles) -> None:
    """No other tiles than these, however few blocks they make."""
    monkeypatch.setattr(choose_tensor, "DEEP", sizes)
    monkeypatch.setattr(choose_tensor, "SHALLOW", sizes)
    for grouped in ("GROUPED", "GROUPED_SHALLOW"):
        monkeypatch.setattr(choose_tensor, grouped, ())
    monkeypatch.setattr(choose_tensor, "SPLITS", (1,))
