"""Schedules a module's kernels, and runs them, each from its CUDA source on the CPU executor.

In: a module of call_tirs with static shapes, and its inputs in float64. Out: its outputs in
float64. Stitched kernels and TVM's own are run alike, for their errors to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from check import H200
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

import tvm_stitch
from tvm_stitch import InputError, simt
from tvm_stitch.build import lowering_context, stitch_passes
from tvm_stitch.simt.lowering import cuda_source

Array = np.ndarray


def by_default(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The module as TVM's CUDA pipeline lowers it; raises InternalError where it refuses to."""
    with target:
        for each in cuda_pipeline.legalize_passes(target):
            module = each(module)
    return module


def launched(module: tvm.IRModule) -> tuple[str, ...]:
    """The kernels in the CUDA source of a whole compilation."""
    try:
        return simt.kernel_names(cuda_source(tvm_stitch.compile(module, H200)))
    except InputError:  # there is no source
        return ()


def scheduled(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every kernel scheduled, by stitching or by TVM."""
    with H200:
        for each in stitch_passes(H200):
            module = each(module)
    return module


def scheduled_by_default(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every kernel scheduled by TVM."""
    with H200:
        for each in stitch_passes(H200):
            if each.info.name not in ("StitchOps", "StitchSchedule"):
                module = each(module)
    return module


def run_lowered(
    module: tvm.IRModule,
    arrays: Sequence[Array],
    target: tvm.target.Target,
    settings: tvm.transform.PassContext | None = None,
    check: bool = False,
) -> list[Array]:
    """The outputs of main. With `check`, hazards are looked for; they are errors."""
    main = module["main"]
    run = _Run(module, target, settings or lowering_context(), check)
    for param, array in zip(main.params, arrays, strict=True):
        run.values[param] = _as_dtype(array, str(param.ty.dtype))
    for block in main.body.blocks:
        for binding in block.bindings:
            run.values[binding.var] = run.value(binding.value)
    result, ty = run.value(main.body.body), main.ret_ty
    types = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    leaves = result if isinstance(result, list) else [result]
    return [_as_float64(leaf, str(each.dtype)) for leaf, each in zip(leaves, types, strict=True)]


class _Run:
    """The value of every variable: arrays in their own dtype, bfloat16 as bits."""

    def __init__(
        self,
        module: tvm.IRModule,
        target: tvm.target.Target,
        settings: tvm.transform.PassContext,
        check: bool,
    ) -> None:
        self.module, self.target, self.settings, self.check = module, target, settings, check
        self.values: dict[Any, Any] = {}

    def value(self, expr: Any) -> Any:
        if expr in self.values:
            return self.values[expr]
        if isinstance(expr, relax.Tuple):
            return [self.value(field) for field in expr.fields]
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value)[expr.index]
        if isinstance(expr, tvm.ir.GenericConst):
            return expr.value.numpy()
        if expr.op.name == "relax.reshape":
            return self.value(expr.args[0]).reshape([int(extent) for extent in expr.ty.shape])
        assert expr.op.name == "relax.call_tir", expr
        (ty,) = expr.ty_args
        outputs = [_unwritten(t) for t in (ty.fields if isinstance(ty, relax.TupleType) else [ty])]
        inputs = [self.value(argument) for argument in expr.args[1].fields]
        with self.settings:
            function = simt.Function(self.module[expr.args[0]], self.target, check=self.check)
        run = function([*inputs, *outputs])
        assert run.ok, str(run)
        return outputs if isinstance(ty, relax.TupleType) else outputs[0]


def _unwritten(ty: Any) -> Array:
    """An output before its kernel ran: not-a-number shows what is left out."""
    shape, dtype = tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
    if dtype == "bfloat16":
        return np.full(shape, 0x7FC0, "uint16")
    return np.full(shape, np.nan if dtype.startswith("float") else 0).astype(dtype)


def _as_dtype(array: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        return array.astype(ml_dtypes.bfloat16).view("uint16")
    return array.astype(dtype)


def _as_float64(array: Array, dtype: str) -> Array:
    return array.view(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype).astype("float64")
