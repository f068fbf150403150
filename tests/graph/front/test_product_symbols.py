"""A product that reads a transposed operand in place, by extents known at run time alone."""

from __future__ import annotations

import numpy as np
import tvm
from check import H200, check, primfuncs, primfuncs_of
from tvm import s_tir, tirx
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.build import stitch_passes


def test_the_extents_of_a_product_read_in_place_are_those_of_its_tensors() -> None:
    functions = primfuncs(_product().module)
    assert set(functions) == {"stitched_tir_exp", "matmul"}  # none turns the operand
    for function in functions.values():
        s_tir.Schedule(function)  # refuses a symbol that is defined nowhere


def test_it_is_right() -> None:
    check(_product(), kernels=None)


def test_tvms_schedules_take_it() -> None:
    with H200:
        module = tvm.transform.Sequential(stitch_passes(H200))(_product().module)
    functions = primfuncs_of(module).values()
    assert functions and all("tirx.is_scheduled" in function.attrs for function in functions)


def _product() -> Case:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    return graph(
        "float32",
        [((n, 5), (m, 7))],
        lambda emit, x: emit(op.matmul(emit(op.exp(x)), emit(op.permute_dims(x, [1, 0])))),
        lambda x: np.exp(x) @ x.T,
    )
