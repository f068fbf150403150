"""Elements without rows as a kind of kernel: see analysis/kind.

A vector of each tensor for a thread; less where that would leave the device idle. With two, the
CUDA compiler moves the second's loads behind the work on the first. Measured on an H200:
silu(a) * b of 8192 x 11008 bf16 takes 126.1 us with one and 127.5 with two, LSTM cell of
4096 x 1024 fp32 47.4 and 49.7, SGD with momentum for 14 M elements 71.3 and 74.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import Address, AddressKey, Frame, Stride
from tvm_stitch.kernel.analysis.kind import ALONE, BESIDE, IN_ROUNDS, Kind, Problem, unsupported
from tvm_stitch.kernel.analysis.profile import SECTOR_BYTES
from tvm_stitch.kernel.analysis.strided_loads import plan_loads
from tvm_stitch.kernel.analysis.why import why_rows
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.elementwise.changed import turns_of, where_changed
from tvm_stitch.kernel.elementwise.emit_register_tile import emit_register_tile
from tvm_stitch.kernel.elementwise.emit_transposed import TilePart, TilePosition
from tvm_stitch.kernel.elementwise.overlapping_reads import (
    RegisterTile,
    find_lines,
    lines_at_once,
)
from tvm_stitch.kernel.elementwise.space import SEARCH, resized
from tvm_stitch.kernel.elementwise.transposed_reads import (
    find_tiling,
    tile_bytes,
    tile_mapping,
    tiling_of,
)
from tvm_stitch.kernel.ir.mapping import WARP, Flat, Transposed
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.rows.emit import Part, emit_batch
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import held_elements, told
from tvm_stitch.kernel.rows.vector_width import vector_width
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Expr, Refused, Var, constant, elements_of
from tvm_stitch.stages.symbolic_analyzer import int64

FLAT_THREADS = 256
# Loads of an element from anywhere, from which on a thread has one element: neighbours read
# neighbouring memory, and with 8 elements each a warp's load touches 8 lines in place of one.
# Worked out, not measured: the gradient of an image enlarged twice has 16.
MOST_GATHERS = 5
MOST_READERS = 16  # of an element, from which on it is a weight's
# Of register tiles: threads of a block, what one may have of vectors at once and of sums, and how
# many a multiprocessor should have at least. On an H200 with bias and ReLU6, of one line and of
# four by 256 and by 128 threads: 3 x 3 over 32 x 112 x 112 x 32 44.2, 27.3 and 25.2 us (cuDNN
# without either 30.9); of one and of seven, 5 x 5 over 32 x 14 x 14 x 672 36.8, 22.1, 18.4 (23.0).
TILE_BLOCK, TILE_REGISTERS, TILE_THREADS = 128, 124, 256


@memoized
def _unsupported(program: Program) -> Refused | None:
    """Weights that every thread would gather element by element: better transposed before.

    Of a depthwise convolution's filters, channel by channel, a thread with neighbouring channels
    reads as many elements as both have, where by tap it reads a vector for each.
    """
    if (refused := unsupported(program)) is not None:
        return refused
    frame, gathered = Frame(program), dict[Var, set[AddressKey]]()
    total = program.elements_expected
    for stage, read in program.reads_at(Where.OTHER):
        size = elements_of(read.buffer)
        if read.buffer in program.inputs and not read.guarded and total and size:
            address = frame.address(stage, read)
            is_shared = size * MOST_READERS <= total and not address.from_memory
            if is_shared and _lies_apart(frame, address):
                gathered.setdefault(read.buffer, set()).add(address.key)
    for buffer, keys in gathered.items():
        if len(keys) > MOST_GATHERS:
            return Refused(f"{len(keys)} elements of {buffer.name} would be gathered for each")
    return None


def _lies_apart(frame: Frame, address: Address) -> bool:
    """Whether the first two columns read neither the same element nor the next."""
    first, second = (address.at(int64(0), int64(column)) for column in (0, 1))
    return constant(frame.analyzer.simplify(second - first)) not in (0, 1, None)


def _candidates(problem: Problem[Program]) -> Iterator[Flat]:
    """See the module's docstring; tiles where something is read transposed."""
    threads = problem.context.threads
    yield from (resized(m, threads) if threads else m for m in _of_any_threads(problem))


def _of_any_threads(problem: Problem[Program]) -> Iterator[Flat]:
    program, device = problem.program, problem.device
    tiling = find_tiling(program)
    if tiling is not None and "regional" in problem.schemes:
        yield tile_mapping(tiling, vector_width(program))
    vector, is_strided = _vector(program)
    if problem.context.place != IN_ROUNDS:
        yield from _register_tiles(problem, vector)
    mapping = Flat(FLAT_THREADS, vector, 1)
    total = program.elements_expected
    full = device.max_threads // FLAT_THREADS
    wanted = (full if is_strided else 2) * device.multiprocessors
    while total is not None and mapping.vector > 1 and -(-total // mapping.reach) < wanted:
        mapping = replace(mapping, vector=mapping.vector // 2)
    wanted = device.multiprocessors // 2
    while total is not None and mapping.threads > WARP and -(-total // mapping.reach) < wanted:
        mapping = replace(mapping, threads=mapping.threads // 2)
    yield mapping


def _register_tiles(problem: Problem[Program], vector: int) -> Iterator[RegisterTile]:
    """Of as many lines as leave work for all multiprocessors."""
    program, total = problem.program, problem.program.elements_expected
    wanted = problem.device.multiprocessors * TILE_THREADS
    most = math.inf if total is None or not wanted else total / (wanted * vector)
    for lines in lines_at_once(program, vector, TILE_REGISTERS, most):
        yield RegisterTile(TILE_BLOCK, vector, 1, lines=lines)


@memoized
def _vector(program: Program) -> tuple[int, bool]:
    """Elements of a thread, one where each is made of many that lie apart; whether any stride.

    Where neighbours stride along, what a thread reads of a row is a sector at most, which an access
    or two take: more would leave a warp's accesses farther apart. And as it computes more of what
    it reads, there are threads to fill the device before any has several elements. Worked out, not
    measured.
    """
    frame, vector = Frame(program), vector_width(program)
    reads = program.reads_at(Where.OTHER)
    found = [frame.address(stage, read) for stage, read in reads if read.buffer in program.inputs]
    loads = plan_loads(frame, found, vector)
    served = {key for load in loads for key in load.slots}
    apart = {each.key for each in found if each.stride is Stride.GATHER}
    alone = {each.key for each in found if each.everywhere.key not in served}
    if len(apart & alone) > MOST_GATHERS:
        return 1, False
    strided = [load for load in loads if load.size > load.lanes]
    while vector > 1 and any(load.lane_bytes * vector > SECTOR_BYTES for load in strided):
        vector //= 2
    return vector, bool(strided)


def _illegal(problem: Problem[Program], mapping: Flat) -> Iterator[str]:
    if isinstance(mapping, Transposed):
        if problem.context.place == IN_ROUNDS:
            yield "what is read transposed comes through tiles, in a kernel of its own"
        yield from _tile(problem.program, mapping)
    if isinstance(mapping, RegisterTile):
        if problem.context.place == IN_ROUNDS:
            yield "a register tile is of a kernel of its own"
        yield from _register_tile(problem.program, mapping)
    yield from held_elements(problem, mapping)
    yield from told(problem, mapping)


def _emit(program: Program, mapping: Flat, place: Place) -> Expr:
    if isinstance(mapping, RegisterTile):
        return emit_register_tile(program, mapping, place)
    if mapping.tile:
        tiles = TilePosition(tiling_of(program), program.space, mapping, place)
        emit_batch([TilePart(program, mapping, place, tiles)])
        return tiles.blocks
    pieces, turns = Position(program.space, mapping, place).blocks, turns_of(program, mapping)
    with place.writer.rolled(turns, "turn") as turn:
        piece = replace(place, block=place.block * turns + turn if turns > 1 else place.block)
        part = Part(program, mapping, piece, Position(program.space, mapping, piece))
        with where_changed(part):
            emit_batch([part])
    return tirx.floordiv(pieces, turns) if turns > 1 else pieces


def _why(program: Program, mapping: Flat) -> str:
    if mapping.tile:
        return "transposed reads are coalesced through tiles in shared memory"
    return why_rows(program, mapping)


def _tile(program: Program, mapping: Transposed) -> Iterator[str]:
    tiling = find_tiling(program)
    if tiling is None:
        yield "tiles, where nothing is read transposed"
        return
    if mapping.tile & (mapping.tile - 1) or not mapping.vector <= mapping.tile < mapping.reach:
        yield f"tiles of {mapping.tile} elements a line"
        return
    if tiling.inner % mapping.vector:
        yield f"lines of {tiling.inner} elements in vectors of {mapping.vector}"
    if tile_bytes(program, mapping) > STATIC_SHARED:
        yield f"{tile_bytes(program, mapping)} bytes of shared memory for tiles"


def _register_tile(program: Program, mapping: RegisterTile) -> Iterator[str]:
    lines = find_lines(program)
    if lines is None:
        yield "a register tile, where lines share no reads"
    elif not 1 <= mapping.lines <= lines.across:
        yield f"{mapping.lines} of {lines.across} lines at once"
    elif lines.inner % mapping.vector:
        yield f"lines of {lines.inner} elements in vectors of {mapping.vector}"
    elif mapping.steps != 1:
        yield f"{mapping.steps} register tiles of a thread"


ELEMENTWISE = Kind(
    mappings=(Flat, RegisterTile, Transposed),
    holds=lambda program: not program.reduces and constant(program.space.rows) == 1,
    unsupported=_unsupported,
    candidates=_candidates,
    places=(ALONE, BESIDE, IN_ROUNDS),
    illegal=_illegal,
    search=SEARCH,
    footprint=lambda program, mapping: replace(
        footprint(program, mapping), shared=tile_bytes(program, mapping)
    ),
    emit=_emit,
    why=_why,
    has_rows=False,
)
