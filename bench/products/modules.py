"""A Relax module of many products, each a function of its own, and its kernels by one way.

In: Shapes, and the schemes that are allowed. Out: an executable, and what the models predict. There
is no planning: every product is fused with what it ends with, as TVM would do it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from bench.products.grid import Shape
from tvm_stitch import Options, transform
from tvm_stitch.build import lowering_context
from tvm_stitch.device import Device
from tvm_stitch.executable.link import linked
from tvm_stitch.graph.front.legalize import Legalize
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.ir.mapping import LIBRARY, SCHEMES
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tvm_default.default_schedules import DefaultSchedules

WAYS: Mapping[str, tuple[str, ...]] = {
    "library": (LIBRARY,),
    "ours": tuple(scheme for scheme in SCHEMES if scheme != LIBRARY),
}


CLOCK = "clock"  # the library's, by the fastest of its algorithms


def function_name(number: int) -> str:
    """The Relax function of a shape, by its place."""
    return f"product_{number}"


def module_of(shapes: Sequence[Shape]) -> tvm.IRModule:
    """One Relax function for each shape."""
    builder = relax.BlockBuilder()
    for number, shape in enumerate(shapes):
        _add(builder, function_name(number), shape)
    return builder.get()


def parameters(shape: Shape) -> list[tuple[int, ...]]:
    """The shapes of the tensors that a product's function takes."""
    lead = (shape.batch,) if shape.batch > 1 else ()
    left, right = (shape.rows, shape.depth), (shape.depth, shape.columns)
    found = [
        (*lead, *(left if shape.left_by_depth else left[::-1])),
        (*lead, *(right[::-1] if shape.right_by_depth else right)),
    ]
    found += [(shape.columns,)] if "bias" in shape.parts else []
    return found + ([(*lead, shape.rows, shape.columns)] if "residual" in shape.parts else [])


def _add(builder: relax.BlockBuilder, name: str, shape: Shape) -> None:
    names = ["left", "right", *(part for part in ("bias", "residual") if part in shape.parts)]
    given = {
        each: relax.Var(each, relax.TensorType(extents, shape.dtype))
        for each, extents in zip(names, parameters(shape), strict=True)
    }
    turn = [1, 0] if shape.batch == 1 else [0, 2, 1]
    with builder.function(name, list(given.values())):
        with builder.dataflow():
            emit = builder.emit
            left, right = given["left"], given["right"]
            left = left if shape.left_by_depth else emit(op.permute_dims(left, turn))
            right = emit(op.permute_dims(right, turn)) if shape.right_by_depth else right
            found = emit(op.matmul(left, right))
            for part in shape.parts:
                found = emit(_ended(part, found, given, shape.dtype))
            output = builder.emit_output(found)
        builder.emit_func_output(output)


def _ended(part: str, found: Any, given: Mapping[str, Any], dtype: str) -> Any:
    if part in given:
        return op.add(found, given[part])
    if part == "scale":
        return op.multiply(found, relax.const(0.125, dtype))
    return op.nn.relu(found) if part == "ReLU" else op.nn.gelu_tanh(found)


def exact(shape: Shape, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What a product comes to, in float64."""
    left, right, *rest = (array.astype(np.float64) for array in arrays)
    left = left if shape.left_by_depth else left.swapaxes(-1, -2)
    found = left @ (right.swapaxes(-1, -2) if shape.right_by_depth else right)
    named = dict(zip((p for p in ("bias", "residual") if p in shape.parts), rest, strict=True))
    for part in shape.parts:
        if part in named:
            found = found + named[part]
        elif part == "scale":
            found = found * 0.125
        elif part == "ReLU":
            found = np.maximum(found, 0)
        else:
            inner = np.sqrt(2 / np.pi) * (found + 0.044715 * found**3)
            found = found / 2 * (1 + np.tanh(inner))
    return found


def fused(shapes: Sequence[Shape], target: tvm.target.Target) -> tvm.IRModule:
    """The module with a PrimFunc for each product and what it ends with."""
    passes = [
        transform.Decompose(),
        relax.transform.EliminateCommonSubexpr(),
        Legalize(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.ConvertToDataflow(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    with target:
        return tvm.transform.Sequential(passes)(module_of(shapes))


@dataclass(frozen=True)
class Predicted:
    """What the models say of a product, in microseconds; None where there is no such kernel."""

    library: float | None
    ours: float | None


def predicted(mod: tvm.IRModule, device: Device) -> dict[str, Predicted]:
    """The predictions by Relax function; of those that call one kernel."""
    found = {}
    for name, function in functions(mod).items():
        stages = read_stages(function)
        if isinstance(stages, Refused):
            continue
        costs: dict[str, float | None] = dict.fromkeys(WAYS)
        for way, schemes in WAYS.items():
            outputs = outputs_of(function, stages)
            kernel = choose_kernel(stages, outputs, device, schemes=schemes)
            if not isinstance(kernel, Refused) and kernel.is_product:
                costs[way] = kernel.cost_us
        found[name] = Predicted(**costs)
    return found


def functions(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The one PrimFunc that each Relax function calls."""
    found: dict[str, tirx.PrimFunc] = {}
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            called = [
                mod[binding.value.args[0]]
                for block in function.body.blocks
                for binding in block.bindings
                if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
            ]
            if len(called) == 1:
                found[var.name_hint] = called[0]
    return found


def scheduled(mod: tvm.IRModule, target: tvm.target.Target, way: str) -> tvm.IRModule:
    """The fused module with its kernels by one way; what that cannot do is TVM's."""
    schemes = WAYS["library" if way == CLOCK else way]
    options = Options(schemes=schemes, timed_products=way == CLOCK)
    passes = [transform.StitchSchedule(target, None, options), DefaultSchedules(target)]
    with lowering_context(), target:
        return tvm.transform.Sequential(passes)(mod)


def executable(mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Machine code for a scheduled module."""
    passes = [*cuda_pipeline.dataflow_lower_passes(target), *cuda_pipeline.finalize_passes(target)]
    with lowering_context(), target:
        return linked(tvm.transform.Sequential(passes)(mod), target, None)
