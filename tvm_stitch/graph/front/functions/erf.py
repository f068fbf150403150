"""erf where a constant is added to it, as in GELU, by an exponential.

In: a module after Decompose. Out: the same module, such erfs as calls of TIR. CUDA's erff takes
twice the instructions, for digits near zero that are lost in 1 + erf(x): there an absolute error of
a rounding of 1 is as good. Knows no kernel and no device.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call, Expr, GenericConst

from tvm_stitch.graph.front.decompose.stages import dtype_of

# erf(x) = 1 - 2 / (1 + 2 ** (x * polynomial of x * x)): 2 / ln(2) times the polynomial of degree 6
# whose tanh is nearest to erf anywhere, 5.8e-8. Its highest coefficient is positive, so that large
# arguments end at 1.
EXPONENT = (
    3.2558156, 0.2965185, -5.3201818e-4, -1.8054456e-3, 2.5885608e-4, -1.72711e-5, 4.5866507e-7,
)  # fmt: skip
_DTYPE = "float32"


def SumOfErf() -> tvm.transform.Pass:
    """The pass; it comes after Decompose and before LegalizeOps."""

    @tvm.transform.module_pass(opt_level=0, name="SumOfErf")
    def sum_of_erf(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        summed = {
            var: _summed_erfs(function)
            for var, function in mod.functions_items()
            if isinstance(function, relax.Function) and "Primitive" not in (function.attrs or {})
        }
        if not any(summed.values()):
            return mod
        for var, erfs in summed.items():
            if erfs:
                rewriter = _Rewriter(mod, erfs)
                rewriter.builder_.update_func(var, rewriter.visit_expr(mod[var]))
                mod = rewriter.builder_.get()
        return mod

    return sum_of_erf


def approximated(x: Expr) -> Expr:
    """erf of a float32 value, with an absolute error of a rounding or two of 1."""
    one, two = tirx.const(1.0, _DTYPE), tirx.const(2.0, _DTYPE)
    square = x * x
    factors = [tirx.const(factor, _DTYPE) for factor in reversed(EXPONENT)]
    exponent = x * reduce(lambda total, factor: total * square + factor, factors)
    return one - two / (one + tirx.exp2(exponent))


Uses = dict[relax.Var, list[relax.VarBinding]]


def _summed_erfs(function: relax.Function) -> set[relax.Var]:
    """The dataflow variables of a function that are erfs and go into sums with constants alone."""
    uses: Uses = {}
    erfs = []
    for binding in (b for block in function.body.blocks for b in block.bindings):
        if not isinstance(binding, relax.VarBinding):
            continue
        for used in relax.analysis.free_vars(binding.value):
            uses.setdefault(used, []).append(binding)
        inner = isinstance(binding.var, relax.DataflowVar)
        if inner and _is(binding.value, "relax.erf") and dtype_of(binding.var) == _DTYPE:
            erfs.append(binding.var)
    return {var for var in erfs if _ends_in_sums(var, uses)}


def _ends_in_sums(var: relax.Var, uses: Uses) -> bool:
    """Whether all that becomes of a value of at most 1 is a sum with a constant of its size."""
    return var in uses and all(
        (_is(use.value, "relax.add") and _adds_or_scales(use.value, least=0.5))
        or (
            _is(use.value, "relax.multiply")
            and _adds_or_scales(use.value, most=0.5)
            and isinstance(use.var, relax.DataflowVar)
            and _ends_in_sums(use.var, uses)
        )
        for use in uses[var]
    )


def _is(value: Any, name: str) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == name


def _adds_or_scales(call: Call, least: float = 0.0, most: float = math.inf) -> bool:
    """Whether an operand is one number, of such a size."""
    return any(
        isinstance(operand, GenericConst)
        and operand.value.numpy().size == 1
        and least <= abs(operand.value.numpy().item()) <= most
        for operand in call.args
    )


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, erfs: set[relax.Var]) -> None:
        super().__init__(mod)
        self._erfs = erfs

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """An erf of the set as a call of TIR."""
        if binding.var not in self._erfs:
            super().visit_var_binding_(binding)
            return
        (operand,) = binding.value.args
        call = self.builder_.call_te(_erf, self.visit_expr(operand), primfunc_name_hint="erf")
        # The variable is the same: by it graph/front/origins knows of which operator the erf is.
        self.builder_.emit_normalized(relax.VarBinding(binding.var, self.builder_.normalize(call)))


def _erf(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *index: approximated(x(*index)), name="erf")
