"""What FuseTIR makes of Primitive functions, tried out away from their module.

In: a module of Primitive functions and what they call. Out: PrimFuncs by name.
"""

from __future__ import annotations

import tvm
from tvm import relax, tirx


def merged(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The Primitive functions of a module, each as one PrimFunc."""
    builder = relax.BlockBuilder(mod)
    names = []
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            # FuseTIR drops what nobody calls.
            names.append(var.name_hint)
            params = [relax.Var(param.name, param.ty) for param in function.params]
            with builder.function(f"calls_{var.name_hint}", params):
                with builder.dataflow():
                    result = builder.emit_output(tvm.ir.Call(var, params))
                builder.emit_func_output(result)
    with tvm.transform.PassContext(opt_level=3):
        fused = relax.transform.FuseTIR()(builder.get())
    return {name: fused[name] for name in names}
