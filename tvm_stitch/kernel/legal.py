"""Legality of a schedule that somebody else made: a tuner, or a record read from a file.

In: the Programs of one kernel, a Schedule, the Device. Out: nothing, or why the schedule would not
work. The counterpart of choose, which makes only schedules that are legal here; what room a mapping
takes and which vectors fit is asked there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import tvm

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import Residency, plan_residency, residency_of
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.analysis.transposed_reads import find_tiling, tile_bytes
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, unsupported
from tvm_stitch.kernel.codegen.hazard_check import STATIC_SHARED
from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.cooperative.choose_column_sums import grid_shared_bytes, resident_blocks
from tvm_stitch.kernel.cooperative.choose_rounds import room_of_rounds
from tvm_stitch.kernel.cooperative.persistent_shared import why_not
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import MAX_BLOCK_THREADS, SCHEMES, WARP, Mapping, Schedule
from tvm_stitch.kernel.ir.stage import Refused, constant
from tvm_stitch.kernel.rows import async_copy
from tvm_stitch.kernel.rows.choose import CLUSTER_CAPABILITY, CLUSTERS
from tvm_stitch.kernel.rows.footprint import MAX_ELEMENTS, fits
from tvm_stitch.kernel.rows.row_batching import MAX_BATCH, loaded_bytes
from tvm_stitch.kernel.small_matmul.choose import product_reasons
from tvm_stitch.kernel.small_matmul.program import ProductProgram

MAX_AHEAD_BYTES = 1024  # that a thread loads before it uses the first of them
MAX_STEPS = 1 << 20
RESIDENCES = ("register", "shared", "nowhere")


def legal(
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Refused | None:
    """Why a kernel of these programs cannot have this schedule, if so."""
    if len(schedule.parts) != len(programs):
        return Refused(f"{len(schedule.parts)} mappings for a kernel of {len(programs)} parts")
    for program, mapping in zip(programs, schedule.parts, strict=True):
        refused = Legality(program, device, bounds, schedule.longer is not None).refusal(mapping)
        if refused is not None:
            return refused
    if len({mapping.block_threads for mapping in schedule.parts}) > 1:
        return Refused("its parts have blocks of different sizes")
    if sum(map(tile_bytes, programs, schedule.parts)) > STATIC_SHARED:
        return Refused("its parts' tiles need more shared memory than a block has")
    if len(programs) > 1 and any(part.cluster > 1 or part.blocks for part in schedule.parts):
        return Refused("a part of the cluster or the global scheme fills a kernel of its own")
    refused = _rounds(programs, schedule, device)
    if refused is not None:
        return refused
    if schedule.longer is not None:
        refused = legal(programs, schedule.longer, device, bounds, schemes)
        if refused is not None:
            return refused
    off = schedule.schemes - set(schemes)
    return Refused(f"the {min(off)} scheme is switched off") if off else None


def _rounds(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> Refused | None:
    """What blocks that meet between rounds need: all of them resident at once."""
    if not any(program.round for program in programs):
        if any(part.persistent_rows for part in schedule.parts):
            return Refused("rows that wait, which no other round reads")
        return Refused("rounds, of which there is one") if schedule.blocks else None
    if any(part.residence == "shared" or part.cluster > 1 for part in schedule.parts):
        return Refused("rows of a round wait in registers of one block")
    reason = why_not(tuple(zip(programs, schedule.parts, strict=True)))
    if reason is not None:
        return Refused(reason)
    if schedule.blocks < 1:
        return Refused("rounds, whose blocks are not all resident at once")
    room = room_of_rounds(programs, schedule.parts, device, schedule.blocks)
    if isinstance(room, Refused):
        return room
    if not 1 <= schedule.min_blocks_per_sm <= room:
        return Refused(
            f"{schedule.min_blocks_per_sm} blocks of a multiprocessor, which has room for {room}"
        )
    if schedule.blocks > device.multiprocessors * schedule.min_blocks_per_sm:
        return Refused(f"{schedule.blocks} blocks, of which not all are resident at once")
    return None


class Legality:
    """What one program allows of its mapping. Made once for many questions."""

    def __init__(
        self,
        program: Program,
        device: Device,
        bounds: Bounds = NO_BOUNDS,
        others_follow: bool = False,
    ) -> None:
        """`others_follow`: a kernel of another schedule takes the rows that are too long."""
        self.program, self.device = program, device
        self.is_open = constant(program.space.columns) is None
        self.others_follow = others_follow and self.is_open
        flat = not program.reduces and constant(program.space.rows) == 1
        self.columns = 0 if flat else bounds.columns(program)
        self._aligned: dict[int, bool] = {}

    def refusal(self, mapping: Mapping) -> Refused | None:
        """The first rule that a mapping breaks."""
        if self._unsupported is not None:
            return self._unsupported
        reason = next(self._reasons(mapping), None)
        return None if reason is None else Refused(reason)

    def aligned(self, vector: int) -> bool:
        """Whether every row starts at a multiple of so many elements."""
        if vector not in self._aligned:
            space = self.program.space
            modular = tvm.sym.Analyzer().modular_set(space.columns if space.whole else space.run)
            exact = constant(space.columns if space.whole else space.run)
            step, rest = (modular.coeff, modular.base) if exact is None else (0, exact)
            self._aligned[vector] = step % vector == 0 and rest % vector == 0
        return self._aligned[vector]

    def residency(self, mapping: Mapping) -> Residency:
        """What the program keeps."""
        return residency_of(self.program, mapping)

    @cached_property
    def recomputes(self) -> bool:
        """Whether anything can be computed again rather than kept."""
        return list(plan_residency(self.program).kept) != list(
            plan_residency(self.program, rematerialize=True).kept
        )

    @cached_property
    def has_weights(self) -> bool:
        """Whether vectors are read that are the same for all rows."""
        return weights(self.program) > 0

    @cached_property
    def _unsupported(self) -> Refused | None:
        return unsupported(self.program)

    def _reasons(self, mapping: Mapping) -> Iterator[str]:
        yield from _numbers(mapping)
        if isinstance(self.program, ProductProgram):
            yield from product_reasons(self.program, mapping, self.device)
            return
        if mapping.online and (
            self.program.column_reductions or apply_online(self.program, mapping) is self.program
        ):
            yield "one pass, where no sum is measured against a maximum or a mean"
            return
        if self.program.space.row_segment is not None:
            yield from self._band(mapping)
            return
        if self.program.column_reductions:
            yield from self._grid(mapping)
            return
        yield from self._split(mapping) if mapping.split else self._rows(mapping)
        yield from self._room(mapping)
        if mapping.blocks:
            yield from self._iterations(mapping)

    def _split(self, mapping: Mapping) -> Iterator[str]:
        if self.program.reduces:
            yield "a row that is reduced cannot be split over blocks"
        alone = (mapping.rows, mapping.cluster, mapping.residence, mapping.peeled, mapping.blocks)
        if alone != (1, 1, "register", False, 0) or mapping.batch > 1 or mapping.idle:
            yield "an element-wise part has one row, which waits nowhere"
        if mapping.scheme != scheme_of(mapping, self.program):
            yield f"an element-wise part of the {mapping.scheme} scheme"
        if mapping.tile:
            yield from self._tile(mapping)

    def _tile(self, mapping: Mapping) -> Iterator[str]:
        """Of an element-wise part that reads something transposed."""
        tiling = find_tiling(self.program)
        if tiling is None:
            yield "tiles, where nothing is read transposed"
            return
        if mapping.tile & (mapping.tile - 1) or not mapping.vector <= mapping.tile < mapping.reach:
            yield f"tiles of {mapping.tile} elements a line"
            return
        if tiling.inner % mapping.vector:
            yield f"lines of {tiling.inner} elements in vectors of {mapping.vector}"
        if tile_bytes(self.program, mapping) > STATIC_SHARED:
            yield f"{tile_bytes(self.program, mapping)} bytes of shared memory for tiles"

    def _rows(self, mapping: Mapping) -> Iterator[str]:
        if not self.program.reduces and constant(self.program.space.rows) == 1:
            yield "an element-wise part is split over blocks"
        if self.columns < 1:
            yield "rows without elements"
        if mapping.scheme != scheme_of(mapping, self.program):
            yield f"{mapping.threads} threads a row are not the {mapping.scheme} scheme"
        if mapping.tile:
            yield "tiles, where rows are reduced"
        if mapping.cluster > 1:
            yield from self._cluster(mapping)
        if mapping.residence == "shared" and mapping.threads <= WARP:
            # No barrier of ours stands between the phases, and TVM finds no place for its own.
            yield "rows of a warp or less wait in registers"
        if mapping.any_length:
            if not self.is_open or mapping.residence != "nowhere":
                yield f"{mapping.steps} steps"
        elif mapping.capacity < (1 if self.others_follow else self.columns):
            yield f"rows of {self.columns} columns, of which it covers {mapping.capacity}"
        whole = self.program.space.whole
        if mapping.peeled and not whole:
            yield "rows that lie in pieces cannot be peeled"
        if mapping.idle and whole:
            yield "idle threads, where rows do not lie in pieces"
        if mapping.batch > 1 or mapping.prefetch_weights:
            yield from self._batch(mapping)
        if mapping.asynchronous:
            yield from self._asynchronous(mapping)
        if not mapping.peeled and not self.aligned(mapping.vector):
            yield f"rows that do not start at multiples of {mapping.vector} elements"

    def _batch(self, mapping: Mapping) -> Iterator[str]:
        if mapping.batch > MAX_BATCH:
            yield f"batches of {mapping.batch} rows"
        if mapping.threads > WARP or mapping.residence != "register":
            yield "rows of a batch are those of a warp or less, and wait in registers"
        if mapping.prefetch_weights and (mapping.vector == 1 or mapping.peeled):
            yield "what is loaded ahead comes in aligned vectors"

    def _asynchronous(self, mapping: Mapping) -> Iterator[str]:
        if self.device.capability < async_copy.CAPABILITY:
            yield f"asynchronous copies, which {self.device.name} does not have"
        reason = async_copy.why_not(self.program, self.residency(mapping), mapping)
        if reason is not None:
            yield reason

    def _iterations(self, mapping: Mapping) -> Iterator[str]:
        """Of a grid of fixed size, whose blocks need not be resident at once."""
        alone = (mapping.cluster, mapping.batch, mapping.prefetch_weights, mapping.residence)
        if mapping.split or alone != (1, 1, False, "register"):
            yield "blocks that iterate over the rows keep one a thread in registers"

    def _cluster(self, mapping: Mapping) -> Iterator[str]:
        if self.device.capability < CLUSTER_CAPABILITY:
            yield f"clusters, which {self.device.name} does not have"
        if mapping.cluster not in CLUSTERS:
            yield f"a cluster of {mapping.cluster} blocks"
        if mapping.block_rows > 1 or mapping.threads < WARP:
            yield "blocks of a cluster share one row, of which each has at least a warp's work"

    def _grid(self, mapping: Mapping) -> Iterator[str]:
        program = self.program
        if mapping.scheme != "global" or mapping.blocks < 1:
            yield "sums over the rows need blocks that iterate over the rows, in the global scheme"
        alone = (mapping.cluster, mapping.batch, mapping.idle, mapping.residence, mapping.peeled)
        if alone != (1, 1, 0, "register", False) or mapping.prefetch_weights or mapping.unroll:
            yield "rows that are summed over wait in registers of one block, and are not peeled"
        if constant(program.space.columns) is None:
            yield "sums over rows of unknown length"
        if not self.aligned(mapping.vector):
            yield f"rows that do not start at multiples of {mapping.vector} elements"
        if mapping.split and program.row_reductions:
            yield "a row that is reduced cannot be split over blocks"
        if not mapping.split and mapping.capacity < self.columns:
            yield f"rows of {self.columns} columns, of which it covers {mapping.capacity}"
        yield from self._elements(mapping)
        needed = grid_shared_bytes(program, mapping)
        if needed > STATIC_SHARED:
            yield f"{needed} bytes of shared memory for the sums over the rows"
        if mapping.blocks % blocks_of_row(program.space, mapping):
            yield f"{mapping.blocks} blocks cannot share the pieces of a row evenly"
        # A block that waits for room would keep the others waiting for it at the barrier.
        residency = self.residency(mapping)
        room = resident_blocks(program, residency, mapping, self.device)
        if not 1 <= mapping.min_blocks_per_sm <= room:
            asked = f"{mapping.min_blocks_per_sm} blocks of a multiprocessor"
            yield f"{asked}, which has room for {room}"
        if mapping.blocks > self.device.multiprocessors * mapping.min_blocks_per_sm:
            yield f"{mapping.blocks} blocks, more than are resident at once"

    def _band(self, mapping: Mapping) -> Iterator[str]:
        """Sums over the rows of segments: a block has a piece of the columns of one."""
        alone = (mapping.cluster, mapping.idle, mapping.residence, mapping.peeled, mapping.blocks)
        if mapping.scheme != "global" or not mapping.split or mapping.prefetch_weights:
            yield "sums over the rows of bands split the columns, in the global scheme"
        if alone != (1, 0, "register", False, 0):
            yield "rows of bands wait in registers of one block, and are not peeled"
        if not self.aligned(mapping.vector):
            yield f"rows that do not start at multiples of {mapping.vector} elements"
        yield from self._elements(mapping)

    def _room(self, mapping: Mapping) -> Iterator[str]:
        if mapping.residence == "register":
            yield from self._elements(mapping)
        residency = self.residency(mapping)
        refused = fits(self.program, residency, mapping, self.device, last=True)
        if refused is not None:
            yield refused.reason
        if mapping.unroll and mapping.residence == "register":
            yield "steps that are loaded at once, of a row that waits in registers"
        ahead = loaded_bytes(self.program, residency) * mapping.vector * mapping.unroll
        if ahead > MAX_AHEAD_BYTES:
            yield f"{ahead} bytes that a thread loads ahead"
        if mapping.min_blocks_per_sm * mapping.block_threads > self.device.max_threads:
            asked = f"{mapping.min_blocks_per_sm} blocks of {mapping.block_threads} threads"
            yield f"{asked} a multiprocessor"

    def _elements(self, mapping: Mapping) -> Iterator[str]:
        """Of a thread that has them all in registers."""
        each = mapping.vector * mapping.steps * mapping.batch
        if each > MAX_ELEMENTS:
            yield f"{each} elements a thread, more than {MAX_ELEMENTS}"
        first = loaded_bytes(self.program, self.residency(mapping))
        ahead = first * each * (2 if mapping.prefetch_next_row else 1)
        if ahead > MAX_AHEAD_BYTES:
            yield f"{ahead} bytes that a thread loads ahead"


def scheme_of(mapping: Mapping, program: Program) -> str:
    """The scheme that a program and the threads of its rows make necessary."""
    if program.column_reductions:
        return "global"
    if mapping.cluster > 1:
        return "cluster"
    if mapping.split:
        return "regional" if mapping.tile else "local"
    return "local" if mapping.threads == 1 else "warp" if mapping.threads <= WARP else "regional"


def _numbers(mapping: Mapping) -> Iterator[str]:
    """What holds of every mapping, whatever it computes."""
    if mapping.scheme not in SCHEMES:
        yield f"an unknown scheme, {mapping.scheme}"
    if mapping.residence not in RESIDENCES:
        yield f"values that wait in {mapping.residence}"
    for name in ("threads", "rows", "vector", "cluster", "batch"):
        value = getattr(mapping, name)
        if value < 1 or value & (value - 1):
            yield f"{name} of {value}, which is no power of two"
    if not WARP <= mapping.block_threads <= MAX_BLOCK_THREADS:
        yield f"blocks of {mapping.block_threads} threads"
    if mapping.vector > ACCESS_BYTES:
        yield f"vectors of {mapping.vector} elements"
    if not 0 <= mapping.steps <= MAX_STEPS:
        yield f"{mapping.steps} steps"
    if not 0 <= mapping.unroll <= MAX_ELEMENTS:
        yield f"{mapping.unroll} steps at once"
    if not 0 <= mapping.idle < mapping.threads:
        yield f"{mapping.idle} idle threads of {mapping.threads}"
    if (
        min(mapping.blocks, mapping.min_blocks_per_sm) < 0
        or mapping.blocks > 0 == mapping.min_blocks_per_sm
    ):
        grid = f"{mapping.blocks} blocks in a grid-stride loop"
        yield f"{grid}, {mapping.min_blocks_per_sm} a multiprocessor"
    if mapping.asynchronous and mapping.residence != "shared":
        yield "asynchronous copies of what does not wait in shared memory"
    if mapping.prefetch_next_row and not mapping.blocks:
        yield "the next turn's row loaded ahead, where there are no iterations"
