"""Narrow tensors are widened by what reads parts of them; what products end with stays whole."""

import numpy as np
import pytest
from check import HALVES, check, plan_of
from planned import read
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, graph_of

from tvm_stitch import Options

N = tirx.Var("n", "int64")


def operators(case: Case) -> list[str]:
    return [node.name for node in read(case.module).nodes if node.is_operator]


def wide(emit, x, dtype: str = "float32"):
    return emit(op.astype(x, dtype))


def shifted(dtype: str, shape=(9, 40), by=(40,), to: str = "float32") -> Case:
    """A sum with a narrow tensor that goes along the last axis, or further."""

    def build(emit, x, b):
        return emit(op.add(x, wide(emit, b, to)))

    return graph_of([(shape, to, None), (by, dtype, None)], build, lambda x, b: x + b)


def biased(dtype: str, rows: int = 150, constant: bool = False) -> Case:
    """A product with its bias, added in float32 and rounded once, as PyTorch's addmm is."""
    kept = np.arange(136) % 7 - 3.0

    def build(emit, x, w, b):
        bias = relax.const(kept.astype("float16"), dtype) if constant else b
        product = emit(op.matmul(x, w, out_dtype="float32"))
        return emit(op.astype(emit(op.add(product, wide(emit, bias))), dtype))

    shapes = [(rows, 200), (200, 136), (136,)]
    return graph(dtype, shapes, build, lambda x, w, b: x @ w + (kept if constant else b))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("by", [(40,), (9, 1), (1,), ()])
def test_what_broadcasts_widens_it_itself(dtype, by):
    case = shifted(dtype, by=by)
    assert operators(case) == ["add"]
    check(case)


def test_singles_are_narrow_beside_doubles():
    assert operators(shifted("float32", to="float64")) == ["add"]


def test_what_reads_all_of_it_leaves_the_cast_alone():
    assert operators(shifted("float16", by=(9, 40))) == ["cast", "add"]


def test_rounding_stays():
    def build(emit, x, b):
        return emit(op.add(x, wide(emit, b, "float16")))

    case = graph_of([((9, 40), "float16", None), ((40,), "float32", None)], build, np.add)
    assert operators(case) == ["cast", "add"]


def test_results_stay_wide():
    def build(emit, x, b):
        bias = wide(emit, b)
        return bias, emit(op.add(x, bias))

    case = graph_of(
        [((9, 40), "float32", None), ((40,), "float16", None)], build, lambda x, b: (b, x + b)
    )
    assert operators(case) == ["cast", "add"]
    check(case, kernels=None)


def test_of_one_tensor_read_twice_each_reading_is_seen_for_itself():
    def build(emit, x):
        row = wide(emit, x)
        column = emit(op.permute_dims(row, [1, 0]))
        return emit(op.subtract(row, column)), emit(op.add(row, row))

    def expected(x):
        return x - x.T, x + x

    case = graph_of([((1, 40), "float16", None)], build, expected)
    assert operators(case).count("subtract") == 1
    check(case, kernels=None)


def test_several_readers_of_one_function():
    def build(emit, x, y, b, c):
        return (
            emit(op.add(x, wide(emit, b))),
            emit(op.add(y, wide(emit, c))),
            emit(op.add(emit(op.multiply(x, y)), emit(op.sum(y, [0])))),
        )

    inputs = [((9, 40), "float32", None)] * 2
    narrow = [((40,), "float16", None), ((40,), "bfloat16", None)]
    case = graph_of([*inputs, *narrow], build, lambda x, y, b, c: (x + b, y + c, x * y + y.sum(0)))
    assert operators(case).count("cast") == 0
    check(case, kernels=None)


def test_rows_of_any_number():
    case = shifted("bfloat16", ((N, 9), 40))
    assert operators(case) == ["add"]
    check(case)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("constant", [False, True])
def test_a_product_ends_with_its_bias(dtype, constant):
    case = biased(dtype, constant=constant)
    (group,) = plan_of(case.module).groups
    assert len(group.nodes) == 3, "the product, its bias, and rounding"
    check(case, options=Options())
