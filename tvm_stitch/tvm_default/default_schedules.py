"""TVM's schedules for what is not stitched: the first DLight rule that takes a function.

In: a module of which some PrimFuncs are scheduled. Out: the module with all of them scheduled, or
StitchError with the name of one that no rule takes. A rule that fails on a function does not take
it. Knows no stitching.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import dlight
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.script import tirx as T

from tvm_stitch import timing
from tvm_stitch.cache.schedules import scheduled_once
from tvm_stitch.cache.store import Store
from tvm_stitch.errors import StitchError, last_line
from tvm_stitch.graph.back.launches import nests, outermost_nests
from tvm_stitch.graph.back.wide_reductions import with_wide_reductions
from tvm_stitch.kernel.codegen.prim_func import with_plain_arguments
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import plain_target
from tvm_stitch.workarounds.light_stacks import quick_import_of_intrinsics
from tvm_stitch.workarounds.quick_inlining import inline_where_possible

inline_where_possible()

# So that it comes out of TVM's pass infrastructure as what it was.
tvm_ffi.register_error("StitchError", StitchError)

# A selection, as in argmax, may read its own element anywhere.
_APPLIED = (tvm.ir.Call, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min)
_SCHEDULED = "tirx.is_scheduled"
# Of an element, where all before it is computed in its place, as DLight's rules have it. Beyond,
# they take minutes or longer: of a scan of 64 steps as a tree of slices, of 160 operators and
# 100,000 loads, more than ten.
MOST_LOADS = 1_000


def default_rules() -> list[Any]:
    """The DLight rules of TVM's CUDA pipeline; the last takes nearly everything."""
    gpu = dlight.gpu
    return [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()]


def DefaultSchedules(target: tvm.target.Target, store: Store | None = None) -> tvm.transform.Pass:
    """TVM's schedules for the functions that have none; a store knows those that took long."""
    plain = plain_target(target)

    @tvm.transform.module_pass(opt_level=0, name="DefaultSchedules")
    def schedule(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        with plain:
            functions = mod.functions_items()
            for number, (var, function) in enumerate(functions):
                timing.step(timing.SCHEDULING, number, len(functions))
                attributes = getattr(function, "attrs", None) or {}
                if isinstance(function, tirx.PrimFunc) and not attributes.get(_SCHEDULED, False):
                    how = partial(_scheduled, var.name_hint, function, plain)
                    scheduled = scheduled_once(function, plain, how, store)
                    if scheduled is not None:
                        mod.update_func(var, scheduled.with_attr(_SCHEDULED, True))
        return mod

    return schedule


def _scheduled(
    name: str, function: tirx.PrimFunc, target: tvm.target.Target
) -> tirx.PrimFunc | None:
    """The function as the first rule has it that takes it; None if it launches nothing at all."""
    if not _computes(function):
        return None
    meant = function.attrs.get("target") or target
    if inlined_loads(function) > MOST_LOADS:
        return _finished(_block_by_block(function, meant))
    failed: Exception | None = None
    wide = with_wide_reductions(function)
    for rule in _rules(function):
        try:
            with quick_import_of_intrinsics():
                one = _applied(rule, wide, function, meant)
        except Exception as error:  # rules fail in many ways on shapes they were not made for
            failed = error
            continue
        if one is not None:
            by_hand = bool(nests(function))  # TVM's sorts and the like are bound to threads already
            is_last = isinstance(rule, dlight.gpu.Fallback)
            if not is_last and _loses_guard(one.mod["main"]):
                continue
            if is_last and not by_hand and _folds_epilogue(one.mod["main"]):
                one = _without_epilogues(function, meant)
            return _finished(one)
    if failed is not None:
        raise StitchError(
            f"none of TVM's schedules fits the operator {name}: {last_line(failed)}. Compile the "
            "model without it, or give it a schedule of your own as a tirx.is_scheduled function."
        ) from failed
    # What TVM bound to threads itself no rule takes.
    return _launched_if_any(function) if nests(function) else None


def _computes(function: tirx.PrimFunc) -> bool:
    """Whether anything is left of a function whose loops over nothing are gone."""
    found: list[tirx.Stmt] = []
    kinds = (s_tir.SBlock, tirx.BufferStore, tirx.AttrStmt)
    tvm_ffi.structural_walk(function.body, (kinds, found.append))
    return len(found) > 1 or not isinstance(function.body, s_tir.SBlockRealize)


def inlined_loads(function: tirx.PrimFunc) -> int:
    """Loads of the largest element, once all that no sum is of has gone into its readers."""
    stages = read_stages(function)
    counts: dict[Any, int] = {}
    for stage in () if isinstance(stages, Refused) else stages:
        loads = sum(counts.get(read.buffer, 1) for read in stage.reads)
        counts[stage.output] = 1 if stage.is_reduction else loads
    return max(counts.values(), default=0)


def _rules(function: tirx.PrimFunc) -> list[Any]:
    """The rules that are right for a function.

    Of reductions of pairs (index and value, say) TVM's shuffles exchange what threads that left a
    branch do not have: they are left to rules by which one thread sums alone.
    """
    alone = dlight.gpu.Matmul, dlight.gpu.Fallback
    rules = default_rules()
    return [r for r in rules if isinstance(r, alone)] if _reduces_pairs(function) else rules


def _reduces_pairs(function: tirx.PrimFunc) -> bool:
    found: list[bool] = []

    def visit(block: s_tir.SBlock) -> None:
        found.append(block.init is not None and len(block.writes) > 1)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return any(found)


def _applied(
    rule: Any, wide: tirx.PrimFunc, function: tirx.PrimFunc, target: tvm.target.Target
) -> s_tir.Schedule | None:
    """What a rule makes of a function, in its wide form where that is one kernel as well."""
    gpu = dlight.gpu
    if wide is not function and isinstance(rule, (gpu.GEMV, gpu.Reduction, gpu.GeneralReduction)):
        found = _only(rule.apply(wide, target, False))
        if found is not None and len(nests(found.mod["main"])) == 1:
            return found
    return _only(rule.apply(function, target, False))


def _only(found: Any) -> s_tir.Schedule | None:
    if found is None or isinstance(found, s_tir.Schedule):
        return found
    (one,) = found
    return one


def _loses_guard(function: tirx.PrimFunc) -> bool:
    """Whether threads sum together, under a condition, straight into a result of the function.

    TVM's lowering of such sums drops the condition from the store, which then goes past the end.
    """
    threads: list[Any] = []
    found: list[bool] = []

    def enter(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            threads.append(loop.loop_var)

    def visit(realize: s_tir.SBlockRealize) -> None:
        block = realize.block
        always = isinstance(realize.predicate, tirx.IntImm) and bool(realize.predicate)
        if always or block.init is None:
            return
        together = any(
            axis.iter_type == tirx.IterVar.CommReduce
            and any(var in threads for var in tirx.analysis.undefined_vars(value))
            for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
        )
        stored = (region.source for region in block.writes)
        found.append(together and any(buffer in function.params for buffer in stored))

    tvm_ffi.structural_walk(
        function.body, [(tirx.For, enter), (s_tir.SBlockRealize, visit)], order="pre"
    )
    return any(found)


def _folds_epilogue(function: tirx.PrimFunc) -> bool:
    """Whether a sum is stored as a function of itself: Fallback inlines what comes after it.

    A combiner has its own element as an operand; anything deeper would be applied at each step.
    """
    found: list[bool] = []

    def visit(store: tirx.BufferStore) -> None:
        def own(load: Any) -> bool:
            return isinstance(load, TensorLoad) and load.source.same_as(store.buffer)

        reads: list[Any] = []
        tvm_ffi.structural_walk(
            store.value, (TensorLoad, lambda load: reads.append(load) if own(load) else None)
        )
        operands = [getattr(store.value, side, None) for side in ("a", "b")]
        deeper = isinstance(store.value, _APPLIED) and not any(map(own, operands))
        found.append(deeper and bool(reads))

    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, visit))
    return any(found)


def _without_epilogues(function: tirx.PrimFunc, target: tvm.target.Target) -> s_tir.Schedule:
    """As DLight's Fallback has it, with what comes after a reduction in a loop nest of its own."""
    schedule = s_tir.Schedule(function)
    for info in normalize_prim_func(schedule):
        if not info.is_reduction():
            with suppress(s_tir.ScheduleError):
                schedule.compute_inline(info.block_rv)
                continue
        _bind(schedule, info, target)
    return schedule


def _block_by_block(function: tirx.PrimFunc, target: tvm.target.Target) -> s_tir.Schedule:
    """Every block in a kernel of its own, what lies between them in memory."""
    schedule = s_tir.Schedule(function)
    for info in normalize_prim_func(schedule):
        _bind(schedule, info, target)
    return schedule


def _bind(schedule: s_tir.Schedule, info: Any, target: tvm.target.Target) -> None:
    """Threads for the elements of a block; each sums what there is to be summed by itself."""
    block = info.block_rv
    loops = schedule.get_loops(block)
    kinds = list(zip(loops, info.dom_kind(), strict=True))
    spatial = [loop for loop, kind in kinds if kind == "S"] or [schedule.add_unit_loop(block)]
    others = [loop for loop, kind in kinds if kind != "S"]
    schedule.reorder(*spatial, *others)
    most = dlight.base.max_threads_per_block(target)
    blocks, threads = schedule.split(schedule.fuse(*spatial), factors=[None, most])
    schedule.bind(blocks, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    if info.is_reduction() and others:
        schedule.decompose_reduction(block, others[0])


def _finished(schedule: s_tir.Schedule) -> tirx.PrimFunc:
    return _launched_if_any(with_plain_arguments(schedule.mod["main"]))


def _launched_if_any(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with its kernels launched only if they have blocks: CUDA refuses a grid of none.

    The number of blocks depends on the shapes that a kernel is called with.
    """
    found = [(nest.stmt, nest.has_blocks) for nest in outermost_nests(function)]
    guards = {stmt: condition for stmt, condition in found if condition is not None}
    if not guards:
        return function

    def guarded(stmt: tirx.Stmt) -> tirx.Stmt:
        condition = guards.get(stmt)
        if condition is None:
            return stmt
        return tirx.IfThenElse(T.tvm_thread_invariant(condition), stmt, None)

    body = tvm_ffi.structural_map(function.body, ((tirx.For, tirx.AttrStmt), guarded))
    return tirx.PrimFunc(function.params, body, function.ret_type, function.attrs)
