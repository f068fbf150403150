"""TVM's lowering of kernels that are written out: by all cores, and without a pass for the longest.

TVM's passes go through one function after another, on one core. They are C++, run without Python's
lock, and change nothing that two functions have in common: here each kernel goes through them by
itself, in a thread, and what comes out is the same.

CompactBufferAllocation makes buffers as small as what is read and written of them. For that it
simplifies, at every access to one, all conditions around it. A kernel of 60 parts, each a range of
blocks, with 53 counters of batch norms among them, takes it 1.3 of 2.6 seconds, kernels of three
rounds 0.3 of 0.5. It finds nothing where a kernel allocates just what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import tvm
from tvm import tirx

from tvm_stitch.processes.pickled import jobs
from tvm_stitch.stages.visit import walked

COMPACTION = "s_tir.CompactBufferAllocation"
# It takes what is alone in a module for what a program begins with.
ALONE = "tirx.AnnotateEntryFunc"
# Conditions from which on a kernel goes without compaction: of fewer it takes a fifth of the time.
MANY = 20

Passes = Callable[[tvm.IRModule], tvm.IRModule]
Functions = dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]


def passed(
    mod: tvm.IRModule, passes: Passes, written_out: Set[str], exact: Set[str] = frozenset()
) -> tvm.IRModule:
    """What passes make of a module, of which the functions of these names are kernels already.

    And of `exact` are those that allocate just what they use.
    """
    others: Functions = {}
    kernels: list[tuple[int, bool, Functions]] = []
    for var, function in mod.functions_items():
        name = str((function.attrs or {}).get("global_symbol", var.name_hint))
        if name in written_out:
            kernels.append((_conditions(function), name in exact, {var: function}))
        else:
            others[var] = function
    kernels.sort(key=lambda each: -each[0])  # those that take longest first
    parts = [
        (found, [COMPACTION] if is_exact and length >= MANY else [])
        for length, is_exact, found in kernels
    ]
    parts += [(others, [])] if others else []
    if len(parts) > 1:
        parts = [(functions, [*without, ALONE]) for functions, without in parts]
    return _merged(mod, _in_threads(mod, passes, parts))


def each_passed(mod: tvm.IRModule, passes: Passes) -> tvm.IRModule:
    """What passes make of a module whose functions are kernels, of each by itself."""
    parts = [({var: function}, list[str]()) for var, function in mod.functions_items()]
    return _merged(mod, _in_threads(mod, passes, parts))


def _in_threads(
    mod: tvm.IRModule, passes: Passes, parts: Sequence[tuple[Functions, list[str]]]
) -> list[tvm.IRModule]:
    """What passes make of each part of a module, some of them left out, in the settings of now."""
    current = tvm.transform.PassContext.current()
    scope = tvm.target.Target.current(allow_none=True)
    instruments = list(current.instruments)

    def made(part: tuple[Functions, list[str]]) -> tvm.IRModule:
        functions, without = part
        context = tvm.transform.PassContext(
            opt_level=int(current.opt_level),
            required_pass=list(current.required_pass),
            disabled_pass=[*current.disabled_pass, *without],
            instruments=instruments,
            config=dict(current.config),
        )
        with scope or nullcontext(), context:
            return passes(tvm.IRModule(functions, attrs=mod.attrs))

    threads = min(jobs(), len(parts))
    if threads < 2 or instruments:  # who watches passes expects one after the other
        return list(map(made, parts))
    with ThreadPoolExecutor(threads, "tvm-stitch-lower") as pool:
        return list(pool.map(made, parts))


def _conditions(function: tirx.PrimFunc) -> int:
    found: list[tirx.IfThenElse] = []
    walked(function.body, (tirx.IfThenElse, found.append))
    return len(found)


def _merged(mod: tvm.IRModule, parts: Sequence[tvm.IRModule]) -> tvm.IRModule:
    functions: Functions = {}
    attributes = dict(mod.attrs or {})
    for part in parts:
        functions |= dict(part.functions)
        attributes |= dict(part.attrs or {})
    return tvm.IRModule(functions, attrs=attributes)
