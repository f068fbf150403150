"""Programs and a Schedule become one thread-bound TIR function.

In: the fused PrimFunc, its Programs, a Schedule that kernel/choose found legal. Out: a PrimFunc
with the same parameters, and a workspace in the global scheme, that TVM's CUDA target builds.
Decides nothing: mapping comes from the Schedule, what is kept from
kernel/analysis/keep_or_recompute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.keep_or_recompute import Residency, residency_of
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.analysis.transposed_reads import tiling_of
from tvm_stitch.kernel.codegen.length_dispatch import block_uniform, dispatch
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads
from tvm_stitch.kernel.codegen.thread_indexing import Position, blocks_of
from tvm_stitch.kernel.codegen.tir_builder import Writer, int64, sequence
from tvm_stitch.kernel.cooperative.emit_column_sums import GridPart, workspace
from tvm_stitch.kernel.cooperative.emit_persistent_row import (
    PersistentRow,
    PersistentTile,
    persistent_tiles,
)
from tvm_stitch.kernel.cooperative.emit_row_segment import RowSegmentPart, shared_tile
from tvm_stitch.kernel.cooperative.workspace import crossing_views, crossing_workspace
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Mapping, Schedule
from tvm_stitch.kernel.ir.stage import (
    Expr,
    Var,
    as_int64,
    buffer_shape,
    constant,
    product,
    substitute,
)
from tvm_stitch.kernel.rows.emit import Part, emit_batch
from tvm_stitch.kernel.rows.emit_transposed import TilePart, TilePosition
from tvm_stitch.kernel.rows.shared_input import interleave_blocks, shares_input
from tvm_stitch.kernel.small_matmul.emit import ProductPart
from tvm_stitch.kernel.small_matmul.program import ProductProgram

# From so many places of the grid come blocks that run side by side, where a kernel has parts with
# rows and parts without: one that computes then overlaps with one that waits for memory. The glue
# of a BERT layer takes 30.4 us that way and 32.3 part by part; parts of one kind, such as an
# optimizer's 40 tensors, gain nothing and lose up to 3 %.
STREAMS = 8
UNBOUNDED = 2**62  # columns


def emit(
    func: tirx.PrimFunc,
    programs: tuple[Program, ...],
    schedule: Schedule,
    longest: Sequence[int] = (),
) -> tirx.PrimFunc:
    """The kernel; `longest` are bounds that the model states of the programs' row lengths."""
    shared = workspaces(programs, schedule)
    bounds = tuple(longest) or (UNBOUNDED,) * len(programs)
    host = dispatch(programs, schedule, bounds, lambda own: _launch(programs, own, shared))
    return kernel_function(func, host, shared)


def workspaces(programs: tuple[Program, ...], schedule: Schedule) -> list[Var]:
    """The buffers that a kernel wants besides its tensors: none or one."""
    if schedule.blocks:
        return [crossing_workspace(programs)]
    own = zip(programs, schedule.parts, strict=True)
    return [workspace(program, mapping) for program, mapping in own if program.column_reductions]


def _launch(programs: tuple[Program, ...], schedule: Schedule, shared: list[Var]) -> tirx.Stmt:
    """One kernel and its launch, unless its grid is empty."""
    writer = Writer()
    views: dict[Var, Var] = {}
    if schedule.blocks:
        views |= crossing_views(programs, shared[0], writer)
    for program in programs:
        for buffer in (*program.inputs, *program.outputs):
            if buffer not in views:
                views[buffer] = writer.view(buffer, product(buffer_shape(buffer)))
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread = block_var.astype("int64"), thread_var.astype("int64")
    parts = tuple(zip(programs, schedule.parts, strict=True))
    if schedule.blocks:
        _rounds(parts, schedule, views, block, thread, writer)
        first: Expr = int64(schedule.blocks)
    else:
        flat = [writer.view(buffer, product(buffer_shape(buffer))) for buffer in shared]
        in_step = bool(shares_input(programs, schedule.parts))
        place = tirx.Var("place", "int64") if in_step else block
        bodies = _bodies(parts, views, flat, place, thread)
        writer.add(
            interleave_blocks(place, block, bodies) if in_step else _side_by_side(block, bodies)
        )
        first = bodies[-1][0]
    body = _scratch_apart(writer.done())
    if len({mapping.split for mapping in schedule.parts}) > 1 and not schedule.blocks:
        number = tirx.Var("block", "int32")
        body = substitute(body, {block_var: _interleaved(number, constant(first))})
        block_var = number
    resident = schedule.min_blocks_per_sm or max(
        mapping.min_blocks_per_sm for mapping in schedule.parts
    )
    body = on_threads(body, thread_var, schedule.block_threads, resident)
    cluster = max(mapping.cluster for mapping in schedule.parts)
    if cluster > 1:
        body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(cluster), body)
    body = bound(block_var, "blockIdx.x", first, body)
    return (
        body
        if constant(first) is not None
        else tirx.IfThenElse(block_uniform(first > 0), body, None)
    )


def _bodies(
    parts: Iterable[tuple[Program, Mapping]],
    views: dict[Var, Var],
    shares: list[Var],
    block: Expr,
    thread: Expr,
    tile: Var | None = None,
    waiting: PersistentTile | None = None,
) -> list[tuple[Expr, tirx.Stmt]]:
    """For each part the number of the block after its last, and its statements."""
    first: Expr = int64(0)
    bodies: list[tuple[Expr, tirx.Stmt]] = []
    for program, mapping in parts:
        inner = Writer()
        own = block - first
        if constant(first) is None:
            # TVM would compute multiples of it once for many addresses, and no longer see that
            # these are aligned: it has no vectors of eight addresses to go on with. Nor would it
            # if it had to correct quotients for numbers that may be negative: hence unsigned.
            own = as_int64(inner.value("own_block", tirx.Cast("uint32", own)))
        place = own, thread, inner
        if isinstance(program, ProductProgram):
            products = ProductPart(program, mapping, views, *place)
            products.emit()
            first = first + products.position.blocks
            bodies.append((first, inner.done()))
            continue
        residency = residency_of(program, mapping)
        program = apply_online(program, mapping)
        part: Part | GridPart | RowSegmentPart
        if mapping.blocks:
            share = shares[0] if program.column_reductions else None
            part = GridPart(program, residency, mapping, views, share, *place)
            part.emit()
        elif waiting is not None and program.space.row_segment is not None:
            part = RowSegmentPart(program, residency, mapping, views, *place, tile, waiting)
            part.emit()
        elif waiting is not None and program.persistent_inputs:
            part = _staying_row(program, residency, mapping, views, place, waiting)
            emit_batch([part])
            part.leave()
        elif mapping.tile:
            position = TilePosition(tiling_of(program), program.space, mapping, *place)
            part = TilePart(program, residency, mapping, views, position, thread, inner)
            emit_batch([part])
        else:
            positions = [
                Position(program.space, mapping, *place, number=number)
                for number in range(mapping.batch)
            ]
            part = Part(program, residency, mapping, views, positions[0], thread, inner)
            emit_batch([part, *map(part.beside, positions[1:])])
        first = first + part.position.blocks
        bodies.append((first, inner.done()))
    return bodies


def _staying_row(
    program: Program,
    residency: Residency,
    mapping: Mapping,
    views: dict[Var, Var],
    place: tuple[Expr, Expr, Writer],
    waiting: PersistentTile,
) -> PersistentRow:
    """Whole rows of which the first wait, each turn of the grid in a place of its own."""
    block, thread, writer = place
    position = Position(program.space, mapping, *place)
    row = PersistentRow(program, residency, mapping, views, position, thread, writer, {}, waiting)
    blocks = -(-mapping.persistent_rows // mapping.block_rows)
    if blocks:
        row.slot_of_row = int64(0)
        row.waits_if = block < blocks if blocks < blocks_of(program.space, mapping) else None
    return row


def _rounds(
    parts: Sequence[tuple[Program, Mapping]],
    schedule: Schedule,
    views: dict[Var, Var],
    block: Expr,
    thread: Expr,
    writer: Writer,
) -> None:
    """Round after round, all blocks meeting in between.

    Of the rounds that read large tensors every other one goes the way back: what was read last is
    likely to be in the L2.
    """
    tile = shared_tile(parts, writer)
    tiles = persistent_tiles(parts, schedule.blocks, writer)
    rounds = [[p for p in parts if p[0].round == n] for n in range(parts[-1][0].round + 1)]
    sizes = [sum(constant(p.space.size) or 0 for p, _ in own) for own in rounds]
    back = False
    for number, own in enumerate(rounds):
        if number:
            writer.add(tirx.Evaluate(T.cuda.grid_sync()))
            if tiles:  # for TVM, which would look for a place of its own
                writer.add(tirx.Evaluate(T.tvm_storage_sync("shared.dyn")))
        iterations = _iterations(own, schedule.blocks, block)
        with writer.serial(iterations, "turn") as iteration:
            iteration = iterations - 1 - iteration if back else iteration
            waiting = PersistentTile(tiles, iteration, back)
            place = iteration * schedule.blocks + block
            bodies = _bodies(own, views, [], place, thread, tile, waiting)
            writer.add(_side_by_side(place, bodies))
            if any(program.row_reductions for program, _ in own):
                # The next turn's reductions write where this one's are still being read.
                writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))
        if 2 * sizes[number] >= max(sizes):
            back = not back


def _iterations(parts: Sequence[tuple[Program, Mapping]], blocks: int, block: Expr) -> Expr:
    """How often a block of the grid takes one of those that a round's parts ask for."""
    places = [Position(p.space, m, block, int64(0), Writer()).blocks for p, m in parts]
    total = sum(constant(count) or 0 for count in places)
    iterations = tirx.floordiv(int64(total + blocks - 1) - block, blocks)
    return tvm.sym.Analyzer().simplify(iterations)


def _scratch_apart(body: tirx.Stmt) -> tirx.Stmt:
    """All static shared memory lives from the kernel's start to its end.

    TVM's StorageRewrite would give the scratch of one reduction to the next. That costs a barrier,
    which cannot be placed where parts lie side by side; and other blocks of a cluster may write
    there earlier than TVM can see.
    """
    scratch: list[tirx.AllocBuffer] = []

    def visit(stmt: tirx.AllocBuffer) -> tirx.Stmt:
        if stmt.buffer.ty.storage_scope != "shared":
            return stmt
        scratch.append(stmt)
        return sequence([])

    rest = tvm_ffi.structural_map(body, (tirx.AllocBuffer, visit))
    uses = [tirx.Evaluate(alloc.buffer.ptr_to([0])) for alloc in scratch]
    return sequence([*scratch, rest, *uses])


def _interleaved(block: Expr, count: int | None) -> Expr:
    """The place in the grid's order that a block takes: every stream gets the next in turn."""
    if count is None or count < 2 * STREAMS:
        return block
    each = count // STREAMS
    place = block % STREAMS * each + block // STREAMS
    most = each * STREAMS  # the few after that keep their places
    return place if most == count else tirx.Select(block < most, place, block)


def _side_by_side(block: Expr, bodies: list[tuple[Expr, tirx.Stmt]]) -> tirx.Stmt:
    """Each block finds its part by halving. The branches are uniform in a block."""
    if len(bodies) == 1:
        return bodies[0][1]
    half = len(bodies) // 2
    return tirx.IfThenElse(
        block_uniform(block < bodies[half - 1][0]),
        _side_by_side(block, bodies[:half]),
        _side_by_side(block, bodies[half:]),
    )
