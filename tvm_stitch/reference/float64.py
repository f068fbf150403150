"""A module with every floating dtype made float64.

Comes in: a Relax module and the PrimFuncs it calls. Goes out: the same module, in which nothing is
rounded to less than float64 any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import Call, IRModule

from tvm_stitch.errors import InputError


def in_float64(mod: IRModule) -> IRModule:
    """The module with every floating dtype made float64, its PrimFuncs included."""
    _refuse_what_depends_on_the_dtype(mod)
    return retyped(mod)


def retyped(mod: IRModule) -> IRModule:
    """As `in_float64`, whatever the module calls."""
    tensors: list[np.ndarray] = []

    def take_out(constant: ir.GenericConst) -> ir.GenericConst:
        if not _is_floating_constant(constant):
            return constant
        tensors.append(constant.value.numpy().astype("float64"))
        return ir.GenericConst(tvm.runtime.tensor(np.array(len(tensors) - 1)), constant.ty)

    def put_back(constant: ir.GenericConst) -> Any:
        dtype = getattr(constant.ty, "dtype", None)
        if dtype is None or str(dtype.dtype) != "float64":
            return constant
        return relax.const(tensors[int(constant.value.numpy())], "float64")

    # A dtype may sit in a type, an operator's attributes, an immediate or a cast, of Relax or TIR.
    # The JSON form is the one view of a module that shows all of them alike. The tensors stay out
    # of it: they are large, and are known already.
    light = tvm_ffi.structural_map(mod, (ir.GenericConst, take_out))
    graph = json.loads(tvm.ir.save_json(light))
    _retype(graph["nodes"])
    return tvm_ffi.structural_map(tvm.ir.load_json(json.dumps(graph)), (ir.GenericConst, put_back))


_FLOATING = re.compile(r"b?float\d+(_\w+?)?(?P<lanes>x\d+)?")


def is_floating(dtype: str) -> bool:
    """Whether numbers of this dtype are floating-point, however narrow."""
    return _FLOATING.fullmatch(dtype) is not None


def _float64(dtype: Any) -> Any:
    """The same dtype in float64, whatever its lanes; anything else unchanged."""
    match = _FLOATING.fullmatch(dtype) if isinstance(dtype, str) else None
    return f"float64{match['lanes'] or ''}" if match else dtype


def _retype(nodes: Sequence[dict[str, Any]]) -> None:
    """Make every floating dtype in the JSON form of a module float64, in place."""
    for node in nodes:
        if node["type"] == "ir.FloatImm":
            dtype = nodes[node["data"]["ty"]]["data"]["dtype"]
            node["data"]["value"] = _unbounded(node["data"]["value"], dtype)
    for node in nodes:
        data = node.get("data")
        if node["type"] == "DataType":
            node["data"] = _float64(data)
        elif isinstance(data, dict):
            for key in data:
                if "dtype" in key:
                    data[key] = _float64(data[key])


def _unbounded(value: float, dtype: str) -> float:
    """The largest number of a dtype, which stands for no bound at all, becomes float64's."""
    scalar = dtype.split("x")[0]
    try:
        largest = float(ml_dtypes.finfo(scalar).max)
    except (TypeError, ValueError):
        return value
    if abs(value) != largest:
        return value
    return float(np.copysign(np.finfo("float64").max, value))


def _is_floating_constant(constant: ir.GenericConst) -> bool:
    return isinstance(constant.value, tvm.runtime.Tensor) and is_floating(str(constant.value.dtype))


_TIED_TO_A_DTYPE = {
    "tirx.reinterpret": "it takes bits for numbers",
    "tirx.call_extern": "the function it calls takes its own dtype",
    "tirx.call_pure_extern": "the function it calls takes its own dtype",
    "tirx.call_llvm_intrin": "the intrinsic takes its own dtype",
    "tirx.call_llvm_pure_intrin": "the intrinsic takes its own dtype",
}


def _refuse_what_depends_on_the_dtype(mod: IRModule) -> None:
    for name, function in mod.functions_items():
        if not isinstance(function, tirx.PrimFunc):
            continue

        called: list[str] = []
        tvm_ffi.structural_walk(
            function.body, (Call, lambda call, into=called: into.append(_operator(call)))
        )
        for operator in _TIED_TO_A_DTYPE.keys() & set(called):
            raise InputError(
                f"PrimFunc `{name.name_hint}` has no float64 reference: "
                f"{operator.replace('tirx.', 'T.')} cannot be evaluated in another dtype, because "
                f"{_TIED_TO_A_DTYPE[operator]}. Give a module in which this function is written "
                "with TIR's own operators."
            )


def _operator(call: Call) -> str:
    return getattr(call.op, "name", "")
