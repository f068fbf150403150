"""Products of few rows, as of a model that decodes: alone, with what follows, two that meet."""

import numpy as np
import pytest
from check import H200, HALVES, check, primfuncs
from tensor_products import linear, projected
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.kernel.skinny_matmul.build import SKINNY_ATTRIBUTE


def weights_of_torch(dtype: str, rows: int, depth: int, columns: int) -> Case:
    """A projection by weights of which each column lies along memory, its bias and a residual."""

    def build(emit, x, w, b, r):
        turned = emit(op.permute_dims(w))
        return emit(op.add(emit(op.add(projected(emit, x, turned, dtype), b)), r))

    shapes = [(rows, depth), (columns, depth), (columns,), (rows, columns)]
    return graph(dtype, shapes, build, lambda x, w, b, r: x @ w.T + b + r)


def gated(dtype: str, rows: int, depth: int, columns: int, along: bool) -> Case:
    """A gated unit: two products of the same rows, silu of one times the other."""

    def build(emit, x, gate, up):
        turned = (emit(op.permute_dims(each)) if along else each for each in (gate, up))
        one, other = (projected(emit, x, each, dtype) for each in turned)
        return emit(op.multiply(emit(op.nn.silu(one)), other))

    def expected(x, gate, up):
        one, other = (x @ (each.T if along else each) for each in (gate, up))
        return one / (1 + np.exp(-one)) * other

    shape = (columns, depth) if along else (depth, columns)
    return graph(dtype, [(rows, depth), shape, shape], build, expected)


def kernels(case: Case, target=H200) -> list:
    """Kernels of few rows in a module as it is built."""
    functions = primfuncs(case.module, target=target).values()
    return [function for function in functions if SKINNY_ATTRIBUTE in (function.attrs or {})]


@pytest.mark.spread(4)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", (weights_of_torch, linear), ids=("along", "across"))
@pytest.mark.parametrize(
    "rows, depth, columns", [(3, 512, 1000), (2, 1000, 328), (7, 72, 136), (15, 1032, 72)]
)
def test_a_product_of_few_rows(case, dtype, rows, depth, columns):
    made = case(dtype, rows, depth, columns)
    assert len(kernels(made)) == 1
    check(made, orders=2)
