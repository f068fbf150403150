"""TVM's LegalizeOps, and what keeps its TIR from being CUDA that no compiler takes.

In: a Relax module. Out: the same in TIR. Functions that CUDA has for wider floats alone compute in
float32 where TVM would do it in halves; infinities of bfloat16 are given by their bits. Knows no
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx, topi

from tvm_stitch.graph.front.arg_reduce import legalize_argmax, legalize_argmin
from tvm_stitch.graph.front.convolution.direct import CONVOLUTIONS, legalize_convolution
from tvm_stitch.graph.front.empty import FewerLoops
from tvm_stitch.graph.front.functions.legalized_once import LegalizeOnce
from tvm_stitch.graph.front.functions.take import legalize_take
from tvm_stitch.graph.front.pooling.adaptive import legalize_adaptive_avg_pool
from tvm_stitch.graph.front.pooling.channels_last import POOLINGS, legalize_pooling
from tvm_stitch.graph.front.pooling.max_backward import legalize_max_pool2d_backward
from tvm_stitch.graph.front.scattered.scatter_nd import legalize_scatter_nd
from tvm_stitch.stages.bfloat16_constants import by_bits
from tvm_stitch.stages.stage import Expr, dtype_of

_WIDE = "float32"
_HALVES = ("float16", "bfloat16")
# Functions that CUDA does not have for halves, by their names in TIR.
_WIDE_ONLY = frozenset(
    f"tirx.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "hypot"),
        *("log1p", "nearbyint", "round", "sinh"),
    )
)


def Legalize(scattered: bool = True) -> tvm.transform.Pass:
    """The pass that stands for relax.transform.LegalizeOps.

    Without `scattered` what indices send to rows is summed as TVM does.
    """
    own = {**LEGALISATIONS, **({"relax.scatter_nd": legalize_scatter_nd} if scattered else {})}
    passes = [LegalizeOnce(own), FewerLoops(), Printable()]
    return tvm.transform.Sequential(passes, name="Legalize")


def Printable() -> tvm.transform.Pass:
    """Rewrite what CUDA cannot say in halves, in the TIR of functions that nobody has scheduled."""

    @tvm.transform.module_pass(opt_level=0, name="Printable")
    def printable(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        rules = ((tvm.ir.Call, _call), (tirx.Mod, _mod), (tirx.FloatImm, by_bits))
        for var, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in function.attrs:
                mod.update_func(var, tvm_ffi.structural_map(function, rules))
        return mod

    return printable


def _call(call: tvm.ir.Call) -> Expr:
    name, dtype = getattr(call.op, "name", ""), dtype_of(call)
    if name == "tirx.pow" and dtype != "float64":
        base, exponent = (argument.astype(_WIDE) for argument in call.args)
        if isinstance(exponent, tirx.FloatImm) and math.isfinite(exponent.value):
            return _constant_power(base, exponent.value).astype(dtype)
        return _power(base, exponent).astype(dtype)
    if name not in _WIDE_ONLY or dtype not in _HALVES:
        return call
    arguments = [argument.astype(_WIDE) for argument in call.args]
    return tirx.call_intrin(_WIDE, name, *arguments).astype(dtype)


def _power(base: Expr, exponent: Expr) -> Expr:
    """A power as C has it, made of the hardware's exp2(exponent * log2(base)).

    TVM compiles CUDA with --use_fast_math, whose powers know no base below 0, no infinity to the
    power of 0, and no 1 to the power of infinity.
    """
    zero, one, two, infinity = (tirx.const(number, _WIDE) for number in (0.0, 1.0, 2.0, math.inf))
    size = tirx.abs(base)
    whole = tirx.floor(exponent) == exponent
    odd = tirx.all(whole, tirx.floor(exponent / two) * two != exponent)
    value = tirx.power(tirx.Select(tirx.any(whole, size == infinity), size, base), exponent)
    is_one = tirx.any(exponent == zero, base == one, tirx.all(whole, size == one))
    value = tirx.Select(is_one, one, value)
    return tirx.Select(odd, tirx.copysign(value, base), value)


def _constant_power(base: Expr, exponent: float) -> Expr:
    """The same, of an exponent that is known and finite."""
    if exponent == 0.0:
        return tirx.const(1.0, _WIDE)
    size = tirx.abs(base)
    if exponent != math.floor(exponent):
        size = tirx.Select(size == tirx.const(math.inf, _WIDE), size, base)
    value = tirx.power(size, tirx.const(exponent, _WIDE))
    return tirx.copysign(value, base) if exponent % 2 == 1 else value


def _mod(quotient: tirx.Mod) -> Expr:
    dtype = dtype_of(quotient)
    if dtype not in _HALVES:
        return quotient
    return tirx.Mod(quotient.a.astype(_WIDE), quotient.b.astype(_WIDE)).astype(dtype)


def _in_float32(name: str, function: Callable[..., Any]) -> Callable[..., Expr]:
    """Legalise as TVM does, except for bfloat16, which topi refuses."""
    usual = tvm.ir.Op.get(f"relax.{name}").get_attr("FLegalize")

    def legalize(builder: relax.BlockBuilder, call: tvm.ir.Call) -> Expr:
        if "bfloat16" not in [str(argument.ty.dtype) for argument in call.args]:
            return usual(builder, call)
        dtype = str(call.ty.dtype)

        def compute(*operands: Any) -> Any:
            return topi.cast(function(*[topi.cast(each, _WIDE) for each in operands]), dtype)

        return builder.call_te(compute, *call.args, primfunc_name_hint=name)

    return legalize


_REFUSED = {
    "isfinite": topi.isfinite,
    "isinf": topi.isinf,
    "isnan": topi.isnan,
    "mod": topi.mod,
    "power": topi.power,
}


def _full(builder: relax.BlockBuilder, call: tvm.ir.Call) -> Expr:
    """As TVM does, except for infinities and not-a-number, on which its topi.full fails."""
    shape, fill = call.args
    shape = shape if isinstance(shape, relax.ShapeExpr) else getattr(shape.ty, "shape", None)
    value = fill.value.numpy().item() if isinstance(fill, tvm.ir.GenericConst) else 0.0
    if math.isfinite(value) or not isinstance(shape, relax.ShapeExpr):
        return tvm.ir.Op.get(call.op.name).get_attr("FLegalize")(builder, call)
    dtype = str(call.ty.dtype)
    number = tirx.const(value, dtype)
    return builder.call_te(topi.full, shape.values, dtype, number, primfunc_name_hint="full")


# Operators that TVM's own legalisation fails on in some cases, or warns of; with one that does not.
LEGALISATIONS = {
    **{f"relax.{name}": _in_float32(name, function) for name, function in _REFUSED.items()},
    **{f"relax.{name}": _full for name in ("full", "full_like")},
    "relax.argmax": legalize_argmax,
    "relax.argmin": legalize_argmin,
    **{f"relax.nn.adaptive_avg_pool{n}d": legalize_adaptive_avg_pool for n in (1, 2, 3)},
    "relax.grad.max_pool2d_backward": legalize_max_pool2d_backward,
    **{f"relax.{name}": legalize_pooling for name in POOLINGS},
    "relax.take": legalize_take,
    **{f"relax.{name}": legalize_convolution for name in CONVOLUTIONS},
}
