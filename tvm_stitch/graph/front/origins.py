"""Operators of a module as it came have numbers, which go with them through decomposition.

In: a Relax module before any pass. Out: the number of every variable that an operator computes.
What a decomposition writes for an operator has the operator's number.
"""

from __future__ import annotations

import tvm
from tvm import relax


def numbered(mod: tvm.IRModule) -> dict[relax.Var, int]:
    """The operators in order; other names of what they compute, and parts of it, are theirs."""
    found: dict[relax.Var, int] = {}
    count = 0
    for _, function in mod.functions_items():
        if not isinstance(function, relax.Function):
            continue
        for block in function.body.blocks:
            for binding in block.bindings:
                value = binding.value
                other = value.tuple_value if isinstance(value, relax.TupleGetItem) else value
                if isinstance(other, relax.Var) and other in found:
                    found[binding.var] = found[other]
                elif isinstance(value, tvm.ir.Call):
                    found[binding.var] = count
                    count += 1
    return found
