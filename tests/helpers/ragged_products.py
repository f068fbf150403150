"""Rows in groups that lie one behind the other, each by a matrix of its own, as experts have."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import te, tirx
from zoo import Case, Graph

import tvm_stitch
from tvm_stitch.stages.patterns.ragged_product import of_own_group

# Rows, and where groups end: as routers send rows to experts, and as they hardly ever do.
GROUPS = {
    "one": (7, [7]),
    "a single row": (1, [0, 1, 1]),
    "empty ones": (33, [3, 3, 20, 33]),
    "all rows in one": (33, [0, 33, 33]),
    "rows behind all": (33, [1, 9, 9, 30]),
    "all rows behind": (5, [0, 0]),
    "more than a warp": (60, [*range(0, 120, 2)]),
    "of many rows": (300, [17, 145, 145, 149, 150, 278, 299]),
}


def ragged_product(x: te.Tensor, w: te.Tensor, ends: te.Tensor, along: bool) -> te.Tensor:
    """Its tensor expression, summed in float32; the depth or the columns lie along memory."""
    (groups, columns, depth), rows = w.shape, x.shape[0]
    if not along:
        columns, depth = depth, columns
    g, k = te.reduce_axis((0, groups), "g"), te.reduce_axis((0, depth), "k")

    def element(i, j):
        weight = w[g, j, k] if along else w[g, k, j]
        value = x[i, k].astype("float32") * weight.astype("float32")
        return te.sum(of_own_group(value, i, g.var, ends), [g, k])

    return te.compute((rows, columns), element, "ragged")


def matrices_shape(groups: int, depth: int, columns: int, along: bool) -> tuple[int, int, int]:
    return (groups, columns, depth) if along else (groups, depth, columns)


def ragged_function(
    rows: int, depth: int, columns: int, groups: int, along: bool = True
) -> tirx.PrimFunc:
    """Such a product of float16 alone."""
    x = te.placeholder((rows, depth), "float16", "x")
    w = te.placeholder(matrices_shape(groups, depth, columns, along), "float16", "w")
    ends = te.placeholder((groups,), "int32", "ends")
    return te.create_prim_func([x, w, ends, ragged_product(x, w, ends, along)])


def ragged(x: np.ndarray, w: np.ndarray, ends: np.ndarray, along: bool) -> np.ndarray:
    """The same in float64; rows behind the last group are 0."""
    result = np.zeros((x.shape[0], w.shape[1 if along else 2]))
    bounds = np.clip([0, *ends], 0, x.shape[0])
    for matrix, start, end in zip(w.astype("float64"), bounds[:-1], bounds[1:], strict=True):
        own = x[start:end].astype("float64")
        result[start:end] = own @ (matrix.T if along else matrix)
    return result


def check_ragged(
    kernel: tirx.PrimFunc,
    case: tuple[int, list[int]],
    depth: int,
    columns: int,
    along: bool,
    target: tvm.target.Target,
) -> None:
    """A kernel of float16 is right in a shuffled order of threads, and without hazards."""
    rows, ends = case
    rng = np.random.default_rng(0)
    shapes = (rows, depth), matrices_shape(len(ends), depth, columns, along)
    x, w = (rng.standard_normal(shape).astype("float16") for shape in shapes)
    x[ends[-1] :] = np.inf  # which nobody reads
    result, where = np.full((rows, columns), np.nan, "float32"), np.array(ends, "int32")
    run = tvm_stitch.simt.Function(kernel, target, check=True)([x, w, where, result], seed=1)
    assert not run.hazards
    np.testing.assert_allclose(result, ragged(x, w, where, along), rtol=1e-5, atol=1e-4)


def ragged_case(
    dtype: str,
    groups: tuple[int, list[int]],
    depth: int,
    columns: int,
    along: bool = True,
    behind: Callable | None = None,
    expected: Callable = lambda y: y,
) -> Case:
    """A product that is rounded to halves, and what is computed of it, as a module."""
    rows, ends = groups
    g = Graph()
    x = g.input("x", (rows, depth), dtype)
    w = g.input("w", matrices_shape(len(ends), depth, columns, along), dtype)
    where = g.input("ends", (len(ends),), "int32", np.array(ends, "int32"))
    builder = tvm.relax.BlockBuilder()
    with builder.function("main", g.params):
        with builder.dataflow():
            y = builder.emit_te(ragged_product, *g.params, along, primfunc_name_hint="ragged")
            y = builder.emit(tvm.relax.op.astype(y, dtype))
            output = builder.emit_output(y if behind is None else behind(builder.emit, y))
        builder.emit_func_output(output)
    return Case(builder.get(), tuple(g.arrays), (expected(ragged(x, w, where, along)),))
