"""What is legal of rows, whoever asks: who chooses a mapping, tunes it or reads it from a record.

In: a Problem, a Mapping. Out: reasons why it would not work; none where it does. What any kind says
of rows, of registers and of clusters is here as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import IN_ROUNDS, MAX_ELEMENTS, Problem
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.codegen.footprint import (
    Footprint,
    registers_left,
    too_many_threads,
    too_much_shared,
)
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, Rows
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows import async_copy
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.row_batching import MAX_BATCH
from tvm_stitch.kernel.rows.vector_width import is_aligned
from tvm_stitch.stages.stage import constant

MAX_AHEAD_BYTES = 1024  # that a thread loads before it uses the first of them
CLUSTERS = (1, 2, 4, 8, 16)
CLUSTER_CAPABILITY = 90


def illegal_rows(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    """Why a mapping of rows would not work."""
    program = problem.program
    if mapping.online and apply_online(program, mapping) is program:
        yield "one pass, where no sum is measured against a maximum or a mean"
        return
    yield from no_elements(problem)
    whole_warps = problem.context.place == IN_ROUNDS and mapping.threads >= WARP
    if mapping.rows & (mapping.rows - 1) and not whole_warps:
        yield f"rows of {mapping.rows}, which is no power of two"
    if mapping.cluster > 1:
        yield from _cluster(problem, mapping)
    if mapping.residence == "shared" and problem.context.place == IN_ROUNDS:
        yield "rows of a round wait in registers of one block"
    if mapping.residence == "shared" and mapping.threads <= WARP:
        # No barrier of ours stands between the phases, and TVM finds no place for its own.
        yield "rows of a warp or less wait in registers"
    yield from uncovered(problem, mapping)
    whole = program.space.whole
    if mapping.peeled and not whole:
        yield "rows that lie in pieces cannot be peeled"
    if mapping.idle and whole:
        yield "idle threads, where rows do not lie in pieces"
    if mapping.batch > 1 or mapping.prefetch_weights:
        yield from _batch(mapping)
    if mapping.beside and (mapping.threads > 1 or constant(program.space.rows) is None):
        yield "rows beside each other that a thread has not alone, or that run time counts"
    if mapping.asynchronous:
        yield from _asynchronous(problem, mapping)
    yield from misaligned(problem, mapping)
    yield from _room(problem, mapping)
    alone = (mapping.cluster, mapping.batch, mapping.prefetch_weights, mapping.residence)
    if mapping.blocks and alone != (1, 1, False, "register"):
        yield "blocks that iterate over the rows keep one a thread in registers"


def no_elements(problem: Problem[Program]) -> Iterator[str]:
    """Why there is nothing to reduce, where nobody may expect more at run time."""
    if problem.columns < 1 and not problem.is_open:
        yield "rows without elements"


def misaligned(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why vectors would not lie at multiples of their size."""
    if not mapping.peeled and not is_aligned(problem.program, mapping.vector):
        yield f"rows that do not start at multiples of {mapping.vector} elements"


def has_clusters(device: Device) -> bool:
    """Whether blocks can share a row."""
    return device.capability >= CLUSTER_CAPABILITY


def cluster_size(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why there are no such clusters of blocks."""
    if not has_clusters(problem.device):
        yield f"clusters, which {problem.device.name} does not have"
    if mapping.cluster not in CLUSTERS:
        yield f"a cluster of {mapping.cluster} blocks"


def crowded(needed: Footprint, mapping: Mapping) -> Iterator[str]:
    """Why what waits in registers is too much for a thread, if so."""
    if mapping.residence == "register" and needed.registers > registers_left(needed.threads):
        yield "too many registers"


def uncovered(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why rows are longer than what the steps of their threads reach."""
    if mapping.chunked:
        yield from _chunks(problem.program, mapping)
    elif mapping.any_length:
        if not problem.is_open or mapping.residence != "nowhere":
            yield f"{mapping.steps} steps"
    elif not problem.columns and problem.is_open:
        yield f"rows of any length, of which it covers {mapping.capacity} columns"
    elif mapping.capacity < (1 if problem.others_follow else problem.columns):
        yield f"rows of {problem.columns} columns, of which it covers {mapping.capacity}"


def _chunks(program: Program, mapping: Mapping) -> Iterator[str]:
    """Why a block cannot take its row in chunks, each of which it has forgotten at the next."""
    if not program.scans or program.row_reductions:
        yield "chunks of rows on which more is found than what accumulates along them"
    if len({stage.from_end for stage in program.scans}) > 1:
        yield "chunks in the order of their columns and in the other one"
    if not program.space.whole or mapping.batch > 1:
        yield "chunks of rows that lie in pieces, or that are loaded several at once"


def held_elements(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why a thread cannot have all of its elements in registers."""
    if mapping.elements > MAX_ELEMENTS:
        yield f"{mapping.elements} elements per thread, more than {MAX_ELEMENTS}"
    first = phases_of(problem.program, mapping).first_bytes
    ahead = first * mapping.elements * (2 if mapping.prefetch_next_row else 1)
    if ahead > MAX_AHEAD_BYTES:
        yield f"{ahead} bytes that a thread loads ahead"


def _batch(mapping: Rows) -> Iterator[str]:
    if mapping.batch > MAX_BATCH:
        yield f"batches of {mapping.batch} rows"
    if mapping.row_scheme not in ("local", "warp") or mapping.residence != "register":
        yield "rows of a batch are those of a warp or less, and wait in registers"
    if mapping.prefetch_weights and (mapping.vector == 1 or mapping.peeled):
        yield "what is loaded ahead comes in aligned vectors"


def _asynchronous(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    if problem.device.capability < async_copy.CAPABILITY:
        yield f"asynchronous copies, which {problem.device.name} does not have"
    reason = async_copy.why_not(problem.program, mapping)
    if reason is not None:
        yield reason


def _cluster(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    yield from cluster_size(problem, mapping)
    if mapping.block_rows > 1 or mapping.threads < WARP:
        yield "blocks of a cluster share one row, of which each has at least a warp's work"


def _scans(mapping: Rows) -> Iterator[str]:
    if mapping.residence != "register" or mapping.cluster > 1 or mapping.blocks:
        yield "what accumulates along a row waits in registers of one block, which has one row"


def _room(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    program, device = problem.program, problem.device
    if program.scans:
        yield from _scans(mapping)
    if mapping.residence == "register":
        yield from held_elements(problem, mapping)
    needed = footprint(program, mapping)
    yield from crowded(needed, mapping)
    row = f"a row of {mapping.cluster} x {mapping.reach} columns needs"
    yield from too_much_shared(row, needed.shared, device)
    if mapping.unroll and mapping.residence == "register":
        yield "steps that are loaded at once, of a row that waits in registers"
    ahead = phases_of(program, mapping).first_bytes * mapping.vector * mapping.unroll
    if ahead > MAX_AHEAD_BYTES:
        yield f"{ahead} bytes that a thread loads ahead"
    yield from told(problem, mapping)


def told(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why a multiprocessor cannot have room for as many blocks as the compiler is told."""
    yield from too_many_threads(mapping.min_blocks_per_sm, mapping.block_threads, problem.device)
