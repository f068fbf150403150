"""TVM's lowering of kernels of many parts, without a pass that takes most of the time there.

CompactBufferAllocation makes buffers as small as what is read and written of them. For that it
simplifies, at every access to one, all conditions around it. A kernel of 60 parts, each a range of
blocks, with 53 counters of batch norms among them, takes it 3 of the 9 seconds that all of a
ResNet's forward kernels are lowered in. It finds nothing there: kernels that are written out
allocate what they use, but for padding at the end of some arrays in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import tvm
from tvm import tirx

from tvm_stitch.stages.visit import walked

COMPACTION = "s_tir.CompactBufferAllocation"
# It takes what is alone in a module for what a program begins with.
_ALONE = "tirx.AnnotateEntryFunc"
# Conditions from which on a kernel goes without: of 100, compaction takes half of the lowering.
MANY = 100


def passed(
    mod: tvm.IRModule, passes: Callable[[tvm.IRModule], tvm.IRModule], written_out: Set[str]
) -> tvm.IRModule:
    """What passes make of a module, of which the functions of these names are kernels already."""
    long: dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc] = {}
    others: dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc] = {}
    for var, function in mod.functions_items():
        name = str((function.attrs or {}).get("global_symbol", var.name_hint))
        is_long = name in written_out and _conditions(function) >= MANY
        (long if is_long else others)[var] = function
    if not long:
        return passes(mod)
    if not others:
        with _without(COMPACTION):
            return passes(mod)
    with _without(COMPACTION, _ALONE):
        found = passes(tvm.IRModule(long, attrs=mod.attrs))
    with _without(_ALONE):
        rest = passes(tvm.IRModule(others, attrs=mod.attrs))
    return _merged(found, rest)


def _conditions(function: tirx.PrimFunc) -> int:
    found: list[tirx.IfThenElse] = []
    walked(function.body, (tirx.IfThenElse, found.append))
    return len(found)


def _without(*names: str) -> tvm.transform.PassContext:
    """The current settings without these passes."""
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=int(current.opt_level),
        required_pass=list(current.required_pass),
        disabled_pass=[*current.disabled_pass, *names],
        instruments=list(current.instruments),
        config=dict(current.config),
    )


def _merged(one: tvm.IRModule, other: tvm.IRModule) -> tvm.IRModule:
    functions = {**dict(one.functions), **dict(other.functions)}
    return tvm.IRModule(functions, attrs={**dict(one.attrs or {}), **dict(other.attrs or {})})
