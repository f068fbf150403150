"""Programmatic dependent launch: a grid is launched before the one in front of it is complete.

In: a module of scheduled PrimFuncs, and the GPU. Out: the module in which each kernel waits for the
grids in front before anything else, and is launched early for it. The wait is over when they are
complete and what they have stored is visible; since every kernel waits, so is all that they waited
for. Whoever else launches behind such a kernel does so without the attribute, and waits as always.

Nothing stands before a wait, as ptxas moves loads that count as invariant in front of one that
branches stand before; executable/load_order.py checks it in machine code. Nor would it pay: with
prefetches of its weights into the L2 a step of a Llama took 340.8 us, without 337.8.

No kernel says that dependents may be launched (griddepcontrol.launch_dependents): they are when its
blocks have ended. T5 and MobileNetV3 were slower where kernels said so behind their waits. Knows
nothing of what a kernel computes.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.device import Device
from tvm_stitch.graph.back.launches import bound_axis, outermost_nests
from tvm_stitch.kernel.codegen.prim_func import COOPERATIVE, LAUNCH_ATTRIBUTE

DEPENDENT = "tirx.use_programtic_dependent_launch"  # TVM's spelling
OLDEST = 90  # compute capability 9.0


def DependentLaunch(device: Device) -> tvm.transform.Pass:
    """The pass over scheduled functions; for a GPU without such launches it does nothing."""

    @tvm.transform.module_pass(opt_level=0, name="DependentLaunch")
    def dependent_launch(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        if device.capability < OLDEST:
            return mod
        mod = mod.clone()
        for var, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc):
                mod.update_func(var, with_dependent_launch(function))
        return mod

    return dependent_launch


def with_dependent_launch(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with kernels that wait, each at its top.

    One without kernels stays, and a cooperative one: TVM's runtime launches by one attribute alone.
    """
    tags = [str(tag) for tag in (function.attrs or {}).get(LAUNCH_ATTRIBUTE, ())]
    kernels = outermost_nests(function)
    if not kernels or COOPERATIVE in tags:
        return function
    waiting = _with_waits(function, {_innermost(each.stmt) for each in kernels})
    # In front: the tag of dynamic shared memory has to be the last.
    others = [tag for tag in tags if tag != DEPENDENT]
    return waiting.with_attr(LAUNCH_ATTRIBUTE, [DEPENDENT, *others])


def _with_waits(function: tirx.PrimFunc, bindings: Set[tirx.Stmt]) -> tirx.PrimFunc:
    """The function with a wait before what stands in these bindings of threads."""

    def visit(stmt: tirx.Stmt) -> tirx.Stmt:
        return _waiting(stmt) if stmt in bindings else stmt

    kinds = (tirx.For, tirx.AttrStmt)
    return function.with_body(tvm_ffi.structural_map(function.body, (kinds, visit)))


def _innermost(nest: tirx.Stmt) -> tirx.Stmt:
    """The last of the bindings that a kernel begins with.

    Behind it threads may be bound once more, in parts that follow each other, as DLight's; what
    stands before them all threads of the block execute. Virtual threads are loops, in which nobody
    has to wait again.
    """
    while _is_of_threads(nest.body):
        nest = nest.body
    return nest


def _is_of_threads(stmt: tirx.Stmt) -> bool:
    bound = bound_axis(stmt) if isinstance(stmt, (tirx.For, tirx.AttrStmt)) else None
    return bound is not None and not bound[0].startswith("vthread")


def _waiting(stmt: tirx.Stmt) -> tirx.Stmt:
    """A binding, in which threads wait before they do what they do; one where they do stays."""
    rest = stmt.body.seq if isinstance(stmt.body, tirx.SeqStmt) else [stmt.body]
    wait = tirx.Evaluate(T.ptx["griddepcontrol.wait"]())
    if tvm_ffi.structural_equal(rest[0], wait):
        return stmt
    body = tirx.SeqStmt([wait, *rest])
    if isinstance(stmt, tirx.AttrStmt):
        return tirx.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body)
    how = stmt.thread_binding, stmt.annotations, stmt.step
    return tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, *how)
