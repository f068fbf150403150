"""Panels as a kind of kernel: see analysis/kind.

Rows whose elements lie apart are read by threads that have neighbours of them: a block owns a few
rows side by side, whole sectors of memory wide, keeps them, reduces them through shared memory, and
writes what comes of them. Nothing is read twice, and no block waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import ALONE, BESIDE, Kind, Problem
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.analysis.profile import PhaseProfile, Profile, rows_profile
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, too_much_shared
from tvm_stitch.kernel.ir.mapping import Mapping, Panel
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.panels.choose import panel_mappings
from tvm_stitch.kernel.panels.emit import emit_panel
from tvm_stitch.kernel.panels.footprint import live_bytes, panel_footprint
from tvm_stitch.kernel.panels.program import (
    adjacent_rows,
    fits_a_block,
    is_panel,
    is_panel_wanted,
    panel_program,
    unsupported_panel,
)
from tvm_stitch.kernel.panels.space import SEARCH
from tvm_stitch.kernel.rows.footprint import exchange_bytes
from tvm_stitch.kernel.rows.legal import (
    MAX_AHEAD_BYTES,
    cluster_size,
    crowded,
    held_elements,
    misaligned,
    no_elements,
    told,
    uncovered,
)
from tvm_stitch.kernel.rows.row_batching import MOST_IN_FLIGHT
from tvm_stitch.stages.extents import NOMINAL, Extents


def _illegal(problem: Problem[Program], mapping: Panel) -> Iterator[str]:
    program = problem.program
    yield from no_elements(problem)
    if mapping.online and apply_online(program, mapping) is program:
        yield "one pass, where no sum is measured against a maximum"
    yield from misaligned(problem, mapping)
    yield from uncovered(problem, mapping)
    if mapping.cluster > 1:
        yield from _cluster(problem, mapping)
    if mapping.adjacent:
        yield from _adjacent(program, mapping)
    elif mapping.batch > MOST_IN_FLIGHT:
        yield f"batches of {mapping.batch} columns"
    elif mapping.batch > 1 and (mapping.threads > 1 or mapping.residence != "register"):
        yield "columns of a batch are those of one thread, and wait in registers"
    if mapping.residence == "shared" and mapping.threads <= mapping.warp_threads:
        # No barrier of ours stands between the phases, and TVM finds no place for its own.
        yield "columns of a warp or less wait in registers"
    yield from _room(problem, mapping)


def _cluster(problem: Problem[Program], mapping: Panel) -> Iterator[str]:
    yield from cluster_size(problem, mapping)
    if mapping.any_length:
        yield "blocks of a cluster, of columns of any length"


def _adjacent(program: Program, mapping: Panel) -> Iterator[str]:
    if adjacent_rows(program) % mapping.batch:
        yield f"columns that lie side by side by {mapping.batch}"
    if mapping.vector > 1:
        yield "adjacent columns that lie in runs"
    if mapping.online and mapping.residence != "nowhere":
        yield "adjacent columns that wait are reduced in several passes"


def _room(problem: Problem[Program], mapping: Panel) -> Iterator[str]:
    if mapping.residence == "register":
        yield from held_elements(problem, mapping)
        if mapping.unroll:
            yield "steps that are loaded at once, of a column that waits in registers"
    yield from told(problem, mapping)
    needed = panel_footprint(problem.program, mapping)
    yield from crowded(needed, mapping)
    panel = f"a panel of {mapping.rows} columns needs"
    yield from too_much_shared(panel, needed.shared, problem.device)
    exchanged = exchange_bytes(problem.program, mapping)
    if exchanged > STATIC_SHARED:
        yield f"reductions that exchange partials in {exchanged} bytes of static shared memory"
    first = phases_of(problem.program, mapping).first_bytes
    if first * mapping.vector * mapping.unroll > MAX_AHEAD_BYTES:
        yield f"{mapping.unroll} steps that a thread loads ahead"


def _profile(program: Program, mapping: Mapping, extents: Extents = NOMINAL) -> Profile:
    """What lies anywhere for a column lies side by side for its neighbours."""
    found = rows_profile(program, mapping, extents)
    live = live_bytes(phases_of(program, mapping), mapping.access)
    return replace(found, phases=tuple(map(_by_neighbours, found.phases)), live_bytes=live)


def _by_neighbours(phase: PhaseProfile) -> PhaseProfile:
    return replace(phase, along=(*phase.along, *phase.gathers), gathers=())


def _wants_rounds(program: Program, _rows: int | None, columns: int | None) -> bool:
    return columns is None or not fits_a_block(program, columns)


PANEL = Kind(
    mappings=(Panel,),
    program=panel_program,
    is_wanted=is_panel_wanted,
    holds=is_panel,
    unsupported=unsupported_panel,
    candidates=panel_mappings,
    places=(ALONE, BESIDE),
    illegal=_illegal,
    search=SEARCH,
    footprint=panel_footprint,
    profile=_profile,
    emit=emit_panel,
    wants_rounds=_wants_rounds,
)
