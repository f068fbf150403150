"""Operators of a module as it came have numbers, which go with them through decomposition.

In: a Relax module before any pass. Out: the number of every variable that an operator computes.
What a decomposition writes for an operator has the operator's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

import tvm
from tvm import relax

from tvm_stitch.graph.front.decompose.view import RESHAPES


def numbered(mod: tvm.IRModule) -> dict[relax.Var, int]:
    """The operators in order; other names of what they compute, and parts of it, are theirs."""
    found: dict[relax.Var, int] = {}
    count = 0
    for _, function in mod.functions_items():
        if not isinstance(function, relax.Function):
            continue
        for block in function.body.blocks:
            for binding in block.bindings[:]:
                value = binding.value
                other = value.tuple_value if isinstance(value, relax.TupleGetItem) else value
                if isinstance(other, relax.Var) and other in found:
                    found[binding.var] = found[other]
                elif isinstance(value, tvm.ir.Call):
                    found[binding.var] = count
                    count += 1
    return found


def needed(mod: tvm.IRModule, numbers: Mapping[relax.Var, int]) -> set[int]:
    """The operators on which a result depends, or that no pass may leave out; views aside.

    One view of another is a single one once they are written out, and nothing is launched for it.
    """
    found: set[int] = set()
    for _, function in mod.functions_items():
        if not isinstance(function, relax.Function):
            continue
        wanted = set(relax.analysis.free_vars(function.body.body))
        for block in reversed(function.body.blocks):
            for binding in reversed(block.bindings[:]):
                var = binding.var
                if var in wanted or not isinstance(var, relax.DataflowVar):
                    wanted.update(relax.analysis.free_vars(binding.value))
                    if var in numbers and not _is_view(binding.value):
                        found.add(numbers[var])
    return found


def are_as_they_came(
    mod: tvm.IRModule, numbers: Mapping[relax.Var, int], all_of: Iterable[int]
) -> bool:
    """Whether the calls of a module are operators, each of them once, and those of `all_of`."""
    calls = [
        numbers.get(binding.var, -1)
        for function in mod.functions.values()
        if isinstance(function, relax.Function)
        for block in function.body.blocks
        for binding in block.bindings[:]
        if isinstance(binding.value, tvm.ir.Call)
    ]
    return len(calls) == len(set(calls)) and -1 not in calls and set(calls) >= set(all_of)


def followed(
    numbers: Mapping[relax.Var, int], before: tvm.IRModule, after: tvm.IRModule
) -> dict[relax.Var, int]:
    """The numbers of the same variables after passes that give some of them new types.

    LegalizeOps makes a variable anew where it writes a symbolic extent in another way, and then all
    that depend on it. Their names and their order stay.
    """
    found = dict(numbers)
    for name, function in after.functions_items():
        if not isinstance(function, relax.Function) or name not in before.functions:
            continue
        new = [var for var in _variables(function) if var not in found]
        if not new:
            continue
        known = set(_variables(function))
        old = [v for v in _variables(before[name]) if v in numbers and v not in known]
        names = [var.name for var in old], [var.name for var in new]
        for block in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
            for place in range(block.size):
                found[new[block.b + place]] = numbers[old[block.a + place]]
    return found


def _is_view(value: relax.Expr) -> bool:
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in RESHAPES


def _variables(function: relax.Function) -> list[relax.Var]:
    return [binding.var for block in function.body.blocks for binding in block.bindings[:]]
