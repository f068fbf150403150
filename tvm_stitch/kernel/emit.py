"""Programs and a Schedule become one thread-bound TIR function.

In: the fused PrimFunc, its Programs, a Schedule that kernel/choose found legal. Out: a PrimFunc
with the same parameters, and a workspace in the global scheme, that TVM's CUDA target builds.
Decides nothing: mapping comes from the Schedule, what is kept from
kernel/analysis/keep_or_recompute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.kind import Limit
from tvm_stitch.kernel.codegen.block_order import (
    by_ranges,
    in_streams,
    interleave_blocks,
    own_block,
)
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, aligned, is_not_asked_for
from tvm_stitch.kernel.codegen.length_dispatch import dispatch, refusal
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, block_uniform, sequence
from tvm_stitch.kernel.cooperative.emit_persistent_row import RoundPlace, persistent_tiles
from tvm_stitch.kernel.cooperative.emit_row_segment import shared_tile
from tvm_stitch.kernel.cooperative.workspace import crossing_views, crossing_workspace
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.shared_input import shares_input
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    buffer_size,
    constant,
    element_bytes,
    elements_of,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

UNBOUNDED = 2**62  # columns
STATIC, DYNAMIC = "shared", "shared.dyn"  # scopes of shared memory
MERGED_WRONGLY = 4  # dynamic arrays from which on TVM may put two in one place


def emit(
    func: tirx.PrimFunc,
    programs: tuple[Program, ...],
    schedule: Schedule,
    longest: Sequence[int] = (),
    limits: Sequence[Limit] = (),
) -> tirx.PrimFunc:
    """The kernel; `longest` are bounds that the model states of the programs' row lengths.

    The host refuses what is beyond `limits`.
    """
    shared = workspaces(programs, schedule)
    bounds = tuple(longest) or (UNBOUNDED,) * len(programs)
    host = dispatch(programs, schedule, bounds, lambda own: _launch(programs, own, shared))
    own = (limit for each in programs for limit in kind_of(each).limits(each))
    refused = [refusal(*limit) for limit in (*limits, *own)]
    return kernel_function(func, sequence([*refused, host]), shared)


def workspaces(programs: tuple[Program, ...], schedule: Schedule) -> list[Var]:
    """The buffers that a kernel wants besides its tensors: none or one.

    Where the host picks one of several kernels, it is that of the one with the most blocks.
    """
    if schedule.blocks:
        return [crossing_workspace(programs)]
    most = max(_variants(schedule), key=lambda each: max(part.blocks for part in each.parts))
    own = zip(programs, most.parts, strict=True)
    found = [kind_of(program).workspace(program, mapping) for program, mapping in own]
    return [buffer for buffer in found if buffer is not None]


def _variants(schedule: Schedule) -> list[Schedule]:
    return [schedule, *(_variants(schedule.longer) if schedule.longer is not None else [])]


def _launch(programs: tuple[Program, ...], schedule: Schedule, shared: list[Var]) -> tirx.Stmt:
    """One kernel and its launch, unless its grid is empty."""
    writer = Writer()
    views: dict[Var, Var] = {}
    if schedule.blocks:
        views |= crossing_views(programs, shared[0], writer)
    for program in programs:
        for buffer in (*program.inputs, *program.outputs):
            if buffer not in views:
                views[buffer] = writer.view(buffer, buffer_size(buffer))
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread = block_var.astype("int64"), thread_var.astype("int64")
    parts = tuple(zip(programs, schedule.parts, strict=True))
    if schedule.blocks:
        _rounds(parts, schedule, Place(views, block, thread, writer))
        first: Expr = int64(schedule.blocks)
    else:
        flat = [writer.view(buffer, buffer_size(buffer)) for buffer in shared]
        co_scheduled = bool(shares_input(programs, schedule.parts))
        at = tirx.Var("place", "int64") if co_scheduled else block
        bodies = _bodies(parts, Place(views, at, thread, writer, *flat))
        writer.add(
            interleave_blocks(at, block, bodies) if co_scheduled else by_ranges(block, bodies)
        )
        first = bodies[-1][0]
    body = with_all_asked_for(_scratch_apart(writer.done()))
    if len({mapping.split for mapping in schedule.parts}) > 1 and not schedule.blocks:
        number, own = tirx.Var("block", "int32"), Writer()
        taken = in_streams(number, first)
        if constant(first) is None:  # once: a long expression, of a symbol
            taken = own.value("place", taken)
        own.add(substitute(body, {block_var: taken}))
        body, block_var = own.done(), number
    body = on_threads(body, thread_var, schedule.block_threads, schedule.told_blocks)
    cluster = max(mapping.cluster for mapping in schedule.parts)
    if cluster > 1:
        body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(cluster), body)
    body = bound(block_var, "blockIdx.x", first, body)
    return (
        body
        if constant(first) is not None
        else tirx.IfThenElse(block_uniform(first > 0), body, None)
    )


def _bodies(parts: Iterable[tuple[Program, Mapping]], place: Place) -> list[tuple[Expr, tirx.Stmt]]:
    """For each part the number of the block after its last, and its statements."""
    first: Expr = int64(0)
    bodies: list[tuple[Expr, tirx.Stmt]] = []
    for program, mapping in parts:
        inner = Writer()
        is_known = constant(first) is not None
        own = place.block - first if is_known else own_block(place.block, first, inner)
        there = replace(place, block=own, writer=inner)
        first = first + kind_of(program).emit(program, mapping, there)
        bodies.append((first, inner.done()))
    return bodies


def _rounds(parts: Sequence[tuple[Program, Mapping]], schedule: Schedule, place: Place) -> None:
    """Round after round, with a barrier of the grid in between.

    Of the rounds that read large tensors every other one is reversed: what was read last is
    likely to be in the L2.
    """
    writer, block = place.writer, place.block
    tile = shared_tile(parts, writer)
    tiles = persistent_tiles(parts, schedule.blocks, writer)
    rounds = [[p for p in parts if p[0].round == n] for n in range(parts[-1][0].round + 1)]
    sizes = [sum(NOMINAL.size(p.space.size) for p, _ in own) for own in rounds]
    is_reversed = False
    for number, own in enumerate(rounds):
        if number:
            writer.add(tirx.Evaluate(T.cuda.grid_sync()))
            if tiles:  # for TVM, which would look for a place of its own
                writer.add(tirx.Evaluate(T.tvm_storage_sync("shared.dyn")))
        iterations = _iterations(own, schedule.blocks, place)
        with writer.serial(iterations, "iteration") as iteration:
            iteration = iterations - 1 - iteration if is_reversed else iteration
            there = RoundPlace(
                views=place.views,
                block=iteration * schedule.blocks + block,
                thread=place.thread,
                writer=writer,
                tile=tile,
                tiles=tiles,
                iteration=iteration,
                is_reversed=is_reversed,
            )
            writer.add(by_ranges(there.block, _bodies(own, there)))
            if any(program.row_reductions for program, _ in own):
                # The next iteration's reductions write where this one's are still being read.
                writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))
        if 2 * sizes[number] >= max(sizes):
            is_reversed = not is_reversed


def _iterations(parts: Sequence[tuple[Program, Mapping]], blocks: int, place: Place) -> Expr:
    """How often a block of the grid takes one of those that a round's parts ask for."""
    places = [Position(p.space, m, replace(place, writer=Writer())).blocks for p, m in parts]
    total = tvm.sym.Analyzer().simplify(sum(places, int64(blocks - 1)))
    iterations = tvm.sym.Analyzer().simplify(tirx.floordiv(total - place.block, blocks))
    if constant(total) is not None:
        return iterations
    # Once, in 32 bits.
    return as_int64(place.writer.value("iterations", iterations.astype("int32")))


def _scratch_apart(body: tirx.Stmt) -> tirx.Stmt:
    """All static shared memory lives to the kernel's end; dynamic as well, where TVM errs.

    TVM's StorageRewrite would give the scratch of one reduction to the next. That costs a barrier,
    which cannot be placed where parts lie side by side; and other blocks of a cluster may write
    there earlier than TVM can see.

    MergeSharedMemoryAllocations puts a large array in the place of several small ones. If one of
    these had another's place before, it then begins where the first of them does, which may be in
    use. That takes four arrays. Footprints count all of them.
    """
    found: dict[str, list[tirx.AllocBuffer]] = {STATIC: [], DYNAMIC: []}

    def note(stmt: tirx.AllocBuffer) -> None:
        found.setdefault(stmt.buffer.ty.storage_scope, []).append(stmt)

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, note))
    scopes = {STATIC, DYNAMIC} if len(found[DYNAMIC]) >= MERGED_WRONGLY else {STATIC}

    def without(stmt: tirx.AllocBuffer) -> tirx.Stmt:
        return sequence([]) if stmt.buffer.ty.storage_scope in scopes else stmt

    rest = tvm_ffi.structural_map(body, (tirx.AllocBuffer, without))
    static, dynamic = found[STATIC], found[DYNAMIC] if DYNAMIC in scopes else []
    # Of dynamic memory an address is not counted as a use.
    uses = [tirx.Evaluate(alloc.buffer.ptr_to([0])) for alloc in static]
    uses += [tirx.Evaluate(alloc.buffer.access_ptr("r")) for alloc in dynamic]
    return sequence([*static, *dynamic, rest, *uses])


def with_all_asked_for(body: tirx.Stmt) -> tirx.Stmt:
    """With so much more dynamic shared memory that TVM asks the driver for what there is in all."""
    static, dynamic = [0], [0]

    def visit(stmt: tirx.AllocBuffer) -> None:
        size = (elements_of(stmt.buffer) or 0) * element_bytes(stmt.buffer)
        scope = stmt.buffer.ty.storage_scope
        if scope == STATIC:
            static.append(aligned(size))
        elif scope == DYNAMIC:
            dynamic.append(size)

    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, visit))
    if not is_not_asked_for(sum(static), sum(dynamic)):
        return body
    # Beside the largest: others may get each other's place. MergeSharedMemoryAllocations counts no
    # address_of as a use, and fails where there is no other.
    writer, size = Writer(), STATIC_SHARED - max(dynamic)
    more = writer.allocate("more", size, "uint8", DYNAMIC)
    use = tirx.Evaluate(more.access_ptr("r"))
    for stmt in (use, body, use):
        writer.add(stmt)
    return writer.done()
