"""A product that reads a transposed operand in place, by extents known at run time alone."""

from __future__ import annotations

import tvm
from check import H200, primfuncs
from tvm import relax, s_tir, tirx

from tvm_stitch.build import stitch_passes


def test_the_extents_of_a_product_read_in_place_are_those_of_its_tensors() -> None:
    for function in primfuncs(_product()).values():
        s_tir.Schedule(function)  # refuses a symbol that is defined nowhere


def test_tvms_schedules_take_it() -> None:
    with H200:
        module = tvm.transform.Sequential(stitch_passes(H200))(_product())
    assert all("tirx.is_scheduled" in function.attrs for function in _primfuncs(module))


def _primfuncs(module: tvm.IRModule) -> list[tirx.PrimFunc]:
    return [f for f in module.functions.values() if isinstance(f, tirx.PrimFunc)]


def _product() -> tvm.IRModule:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    x = relax.Var("x", relax.TensorType((n, m), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            other = builder.emit(relax.op.exp(x))
            turned = builder.emit(relax.op.permute_dims(x, axes=[1, 0]))
            out = builder.emit_output(relax.op.matmul(other, turned))
        builder.emit_func_output(out)
    return builder.get()
