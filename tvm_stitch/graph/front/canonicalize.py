"""TVM's CanonicalizeBindings, where it keeps what a module says of its symbols.

A match_cast to a symbol of a parameter is a check, made when the module runs. TVM takes it for the
definition of the symbol, and puts in the extent of the tensor wherever the symbol stands, also for
the parameter's own: types are lost, and the check as well.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax


def CanonicalizeBindings() -> tvm.transform.Pass:
    """The pass; it leaves modules alone that check extents against symbols of parameters."""

    @tvm.transform.module_pass(opt_level=0, name="CanonicalizeBindings")
    def canonicalize(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        functions = (f for f in mod.functions.values() if isinstance(f, relax.Function))
        if any(map(_checks_parameters, functions)):
            return mod
        return relax.transform.CanonicalizeBindings()(mod)

    return canonicalize


def _checks_parameters(function: relax.Function) -> bool:
    """Whether a match_cast names a symbol that a parameter has already given a value."""
    given = {var for param in function.params for var in relax.analysis.tir_vars_in_type(param.ty)}
    found: list[bool] = []

    def visit(expr: Any) -> None:
        for block in expr.blocks if isinstance(expr, relax.SeqExpr) else ():
            for binding in block.bindings:
                if isinstance(binding, relax.MatchCast):
                    named = relax.analysis.tir_vars_in_type(binding.ty)
                    found.append(any(var in given for var in named))

    relax.analysis.post_order_visit(function.body, visit)
    return any(found)
