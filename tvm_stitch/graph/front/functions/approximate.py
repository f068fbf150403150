"""Functions that cost many instructions become ones that the hardware has: Options.fast_math.

In: a module after LegalizeOps. Out: the same module, in its TIR erf and sigmoid by way of tanh,
which is one instruction where CUDA is compiled with fast maths, as TVM compiles it. In float32
whatever the operand's width. Knows no kernel, and no device: on one without that instruction the
result is right, but no faster. The erf of a GELU is none any more: graph/front/functions/erf made
it cheap before.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.stage import Expr, dtype_of

# erf(x) = tanh(x * polynomial of x * x), fitted for the least error anywhere: 2.9e-6. The highest
# coefficient is positive, so that large arguments end at 1.
ERF = (1.1283581, 0.10293293, -4.9681752e-4, -4.1514088e-4, 3.2244443e-5)
_WIDE = "float32"


def Approximate() -> tvm.transform.Pass:
    """The pass; put it after LegalizeOps."""

    @tvm.transform.module_pass(opt_level=0, name="Approximate")
    def approximate(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        for var, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in function.attrs:
                mod.update_func(var, tvm_ffi.structural_map(function, (tvm.ir.Call, _approximated)))
        return mod

    return approximate


def _approximated(call: tvm.ir.Call) -> Expr:
    known = _KNOWN.get(getattr(call.op, "name", ""))
    dtype = dtype_of(call)
    if known is None or dtype not in (_WIDE, "float16", "bfloat16"):
        return call
    (x,) = call.args
    result = known(x if dtype == _WIDE else x.astype(_WIDE))
    return call if result is None else result if dtype == _WIDE else result.astype(dtype)


def _erf(x: Expr) -> Expr | None:
    # The operand is written out several times. Operators of Relax have a plain one.
    plain = x.value if isinstance(x, tirx.Cast) else x
    if not isinstance(plain, tvm.ir.TensorLoad):
        return None
    square = x * x
    factors = [tirx.const(factor, _WIDE) for factor in reversed(ERF)]
    return tirx.tanh(x * reduce(lambda sum_, factor: sum_ * square + factor, factors))


def _sigmoid(x: Expr) -> Expr:
    half = tirx.const(0.5, _WIDE)
    return half + half * tirx.tanh(half * x)


_KNOWN = {"tirx.erf": _erf, "tirx.sigmoid": _sigmoid}
