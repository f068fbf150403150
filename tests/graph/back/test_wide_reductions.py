"""Reductions that TVM schedules: 32 bits wide inside, whatever they are of."""

import numpy as np
import pytest
import tvm
from check import HALVES, check
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, graph_of

from tvm_stitch.graph.back.launches import nests
from tvm_stitch.graph.back.wide_reductions import with_wide_reductions
from tvm_stitch.tvm_default.default_schedules import DefaultSchedules

SMALL = ("int8", "uint8", "int16", "uint16")
SM90 = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


def small(dtype: str, build, expected, shape=(5, 700)) -> Case:
    values = np.random.default_rng(3).integers(0, 100, shape).astype(dtype)
    return graph_of([(shape, dtype, values)], build, expected)


def kernel(build, shape, dtype: str) -> tirx.PrimFunc:
    """What LegalizeOps makes of an operator."""
    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(build(x)))
    functions = relax.transform.LegalizeOps()(builder.get()).functions.values()
    (found,) = (function for function in functions if isinstance(function, tirx.PrimFunc))
    return found


def narrow_buffers(function: tirx.PrimFunc) -> list[str]:
    buffers = function.body.block.alloc_buffers
    return [b.name for b in buffers if tvm.DataType(str(b.ty.dtype)).bits < 32]


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("name", ("sum", "max", "min"))
def test_small_integers_are_right_in_any_order_of_threads(name, dtype):
    """The last warp of a block must not exchange them where nothing synchronises it."""
    check(
        small(
            dtype,
            lambda emit, x: emit(getattr(op, name)(x, axis=1)),
            lambda x: getattr(x, name)(1).astype(dtype),
        ),
        kernels=None,
    )


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [*HALVES, "int16"])
@pytest.mark.parametrize("name", ("argmax", "argmin"))
def test_the_place_of_the_largest(name, dtype):
    case = small(
        dtype,
        lambda emit, x: emit(getattr(op, name)(x, axis=1)),
        lambda x: getattr(np, name)(x.astype("float64"), axis=1),
    )
    check(case, kernels=None)


@pytest.mark.parametrize("shape, axis", [((5, 700), 1), ((700, 5), 0), ((3, 4, 333), (0, 2))])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("build", (op.sum, op.max, op.min, op.mean))
def test_what_is_reduced_is_wide(build, dtype, shape, axis):
    function = kernel(lambda x: build(x, axis=axis), shape, dtype)
    wide = with_wide_reductions(function)
    assert wide is not function and not narrow_buffers(wide)
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    scheduled = DefaultSchedules(SM90)(mod)["main"]
    assert len(nests(scheduled)) == 1


def test_products_are_left_to_their_own_schedules():
    function = kernel(lambda x: op.matmul(x, x), (8, 8), "float16")
    assert with_wide_reductions(function).same_as(function)


def test_a_mean_of_halves_whose_sum_is_too_large_for_them():
    """TVM's sum of 700 times 200 is infinite in float16."""
    values = np.full((4, 700), 200.0)
    case = graph_of(
        [((4, 700), "float16", values), ((4, 700), "int16", np.ones((4, 700), "int16"))],
        lambda emit, x, y: (emit(op.mean(x, axis=1)), emit(op.sum(y, axis=1))),
        lambda x, y: (x.mean(1), y.sum(1).astype("int16")),
    )
    check(case, kernels=None)


@pytest.mark.parametrize("dtype", HALVES)
def test_an_operator_behind_the_reduction(dtype):
    case = graph(
        dtype,
        [(5, 700)],
        lambda emit, x: emit(op.exp(emit(op.max(x, axis=1)))),
        lambda x: np.exp(x.max(1)),
    )
    check(case, kernels=None)
