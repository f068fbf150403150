"""What a program asks of a device, whatever its mapping: bytes, instructions, reductions by phase.

In: the Phases of a Program, and sizes of symbols. Out: a Profile, plain numbers that go to JSON and
back. Must not know threads, nor any device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.json_data import checked
from tvm_stitch.kernel.analysis.addressing import ROW, Address, Frame, Stride
from tvm_stitch.kernel.analysis.contiguity import lies_side_by_side
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.strided_loads import plan_loads
from tvm_stitch.kernel.analysis.vector_loads import VectorLoad
from tvm_stitch.kernel.ir.instructions import instructions, sizes_of
from tvm_stitch.kernel.ir.listing import Listing
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase, Phases
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.guards import share
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import Stage, Var, constant, element_bytes
from tvm_stitch.stages.symbolic_analyzer import int64

LANES = 8  # of vectors, where strided loads are told from gathers
NEIGHBOURS, LINE_BYTES = 32, 128  # that load at once, and that come from memory together
SECTOR_BYTES = 32  # that memory gives at least
# Of neighbours that load where memory says, as many lines as where they sample an image: PyTorch's
# kernels take 48 us on an H200 for 22 million loads of places side by side, moved by a few pixels.
SAMPLED_LINES = NEIGHBOURS // 3


@dataclass(frozen=True)
class PhaseProfile:
    """What one pass over the rows does, for each element; tuples hold bytes of an element."""

    reads: tuple[int, ...] = ()  # tensors that hold an element for each row and column
    again: tuple[int, ...] = ()  # the same tensors, which an earlier phase has read but not kept
    along: tuple[int, ...] = ()  # loads of what rows share: weights, slices, repeated values
    gathers: tuple[int, ...] = ()  # loads from anywhere
    # Of these, as many as have a line of memory to themselves; of rows, where a thread has a whole
    # one and its neighbours have the next.
    uncoalesced: float = 0.0
    writes: tuple[int, ...] = ()
    from_kept: int = 0  # values that an earlier phase has kept
    to_kept: int = 0
    operations: float = 0.0  # of all branches
    avoided: float = 0.0  # of these, where a thread's neighbours take the same branch as it does
    specials: float = 0.0
    reductions: int = 0


@dataclass(frozen=True)
class Profile:
    """A program in numbers."""

    rows: int
    columns: int
    reduces: bool
    phases: tuple[PhaseProfile, ...]
    other_bytes: int  # of tensors that hold no element for each row and column, each once
    live_bytes: int  # an element's, that wait between phases
    kept_bytes: int  # an element's, of all kept values
    column_reductions: int = 0  # reductions over the rows
    row_segments: int = 0  # of rows that these go over; 0: over all
    round: int = 0  # of a kernel with barriers of the grid
    reused_bytes: int = 0  # an element's, that an earlier round has read
    listing: Listing | None = None  # of updates that indices send to rows

    @property
    def elements(self) -> int:
        """Rows by columns."""
        return self.rows * self.columns

    @property
    def least_bytes(self) -> int:
        """Every tensor once."""
        full = sum(sum(phase.reads) + sum(phase.writes) for phase in self.phases)
        return full * self.elements + self.other_bytes

    @property
    def read_bytes(self) -> int:
        """Of tensors that hold an element for each row and column, each once."""
        return sum(sum(phase.reads) for phase in self.phases) * self.elements

    @property
    def reductions(self) -> int:
        """Reductions of all phases."""
        return sum(phase.reductions for phase in self.phases)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Profile:
        """What dataclasses.asdict made of a profile, perhaps by way of JSON."""

        def phases(found: Any) -> tuple[PhaseProfile, ...]:
            return tuple(checked(PhaseProfile, each, "phase") for each in found)

        def listing(found: Any) -> Listing | None:
            return None if found is None else checked(Listing, found, "listing")

        return checked(Profile, data, "profile", {"phases": phases, "listing": listing})


def rows_profile(program: Program, mapping: Mapping, extents: Extents = NOMINAL) -> Profile:
    """The profile of a program by what its mapping keeps."""
    phases = phases_of(program, mapping)
    return remembered(program, ("profile", phases, extents), lambda: _profile(phases, extents))


def _profile(phases: Phases, extents: Extents) -> Profile:
    program = phases.program
    rows, columns = map(extents.size, (program.space.rows, program.space.columns))
    other = _other_bytes(phases, rows * columns, extents)
    return Profile(
        rows,
        columns,
        program.reduces,
        tuple(_phase(phase, program) for phase in phases.phases),
        other,
        phases.live_bytes,
        phases.kept_bytes,
        len(program.column_reductions),
        0 if program.space.row_segment is None else extents.size(program.space.row_segments),
        program.round,
        sum(element_bytes(buffer) for buffer in program.reused_inputs),
    )


@dataclass(frozen=True, eq=False)
class _Loads:
    """A stage's loads of what is neither its own element nor a row's.

    Of those from anywhere as many as an element takes, of several branches' those of one, and one
    for all neighbours that share a sector.
    """

    single: tuple[tuple[Stride, int], ...]  # stride and bytes of an element
    strided: tuple[VectorLoad, ...]
    uncoalesced: float


def _loads(program: Program, stage: Stage) -> _Loads:
    def find() -> _Loads:
        frame = Frame(program)
        found = _elsewhere(frame, stage)
        apart = [each for each in found if each.stride is Stride.GATHER and not each.from_memory]
        strided = plan_loads(frame, apart, LANES)
        served = {address.key for load in strided for address in load.serves}
        single = [each for each in found if each.key not in served]
        gathers = [(each, _share(stage, each)) for each in single if each.stride is Stride.GATHER]
        taken: dict[int, float] = defaultdict(float)
        for each, part in gathers:
            taken[element_bytes(each.buffer)] += part / _together(frame, each)
        sizes = [(Stride.GATHER, size) for size, n in taken.items() for _ in range(ceil(n))]
        sizes += [
            (each.stride, element_bytes(each.buffer))
            for each in single
            if each.stride is not Stride.GATHER
        ]
        alone = _alone if program.reduces else _uncoalesced
        uncoalesced = 0.0
        if program.reduces or not has_rows:
            uncoalesced = sum(part * alone(frame, each) for each, part in gathers)
        return _Loads(tuple(sizes), tuple(strided), uncoalesced)

    has_rows = program.reduces or constant(program.space.rows) != 1
    return remembered(stage, ("strides", program.space.key, has_rows), find)


def _elsewhere(frame: Frame, stage: Stage) -> list[Address]:
    """A stage's loads of inputs that are neither its own element nor a row's."""
    program = frame.program
    return [
        frame.address(stage, read)
        for read in stage.reads
        if program.place(stage, read) is Where.OTHER and read.buffer not in program.producer
    ]


@memoized
def sampled_together(program: Program) -> int:
    """How many neighbouring rows load side by side wherever memory says; 1: not everywhere."""
    frame = Frame(program)
    found = [address for stage in program.stages for address in _elsewhere(frame, stage)]
    gathers = [each for each in found if each.stride is Stride.GATHER and each.from_memory]
    return min((_together(frame, each) for each in gathers), default=1)


def _share(stage: Stage, address: Address) -> float:
    """Of how many elements a load is taken, as far as the branch that it is in says so."""
    guard = None if address.origin is None else address.origin[1].guard
    if guard is None:
        return 1.0
    return share(guard, sizes_of(stage))


def _together(frame: Frame, address: Address) -> int:
    """How many neighbouring rows load side by side what memory says where: channels of a place.

    Of short rows, of which a warp has that many.
    """
    space = frame.program.space
    rows, columns = constant(space.rows), constant(space.columns)
    if not address.from_memory or rows is None or columns is None or columns > NEIGHBOURS:
        return 1
    count = SECTOR_BYTES // element_bytes(address.buffer)

    def find() -> int:
        first, lane = tirx.Var("first", "int64"), tirx.Var("lane", "int64")
        analyzer = frame.analyzer.clone()
        analyzer.bind(first, tvm.ir.Range(0, -(-rows // count)))
        analyzer.bind(lane, tvm.ir.Range(0, count))
        beside = lies_side_by_side(address.index, ROW, first * count, lane, analyzer)
        return count if beside else 1

    return frame.known(("together", tvm_ffi.StructuralKey(address.index), count), find)


def _alone(frame: Frame, address: Address) -> float:
    """Whether neighbouring rows, if they are short, load what memory says where line by line."""
    columns = constant(frame.program.space.columns)
    is_short = columns is not None and columns <= NEIGHBOURS
    return float(is_short and address.from_memory and _together(frame, address) == 1)


def _uncoalesced(frame: Frame, address: Address) -> float:
    """The share of neighbours that read a line of their own, alone or vector by vector."""
    columns = constant(frame.program.space.columns) or 0
    first, item = columns // 2 // LANES * LANES, element_bytes(address.buffer)
    start = address.at(int64(0), int64(first))

    def lines(step: int) -> int:
        found: set[int] = set()
        for number in range(NEIGHBOURS):
            there = address.at(int64(0), int64(first + number * step))
            distance = constant(frame.analyzer.simplify(there - start))
            if distance is None:  # what memory says may be anywhere, or side by side
                return SAMPLED_LINES
            found.add(distance * item // LINE_BYTES)
        return len(found)

    def find() -> float:
        return (min(map(lines, (1, LANES))) - 1) / (NEIGHBOURS - 1)

    key = "uncoalesced", tvm_ffi.StructuralKey(address.index), item
    return frame.known(key, find)


def _strided_bytes(program: Program, stages: Iterable[Stage]) -> list[tuple[Var, int]]:
    """Of strided loads, each once: the buffer, and bytes that a column has of all that is read."""
    loads = [load for stage in stages for load in _loads(program, stage).strided]
    distinct = {load.address.everywhere.key: load for load in loads}
    found = []
    for load in distinct.values():
        buffer = load.address.buffer
        found.append((buffer, -(-load.size * element_bytes(buffer) // load.lanes)))
    return found


def _phase(phase: Phase, program: Program) -> PhaseProfile:
    along: list[int] = []
    gathers: list[int] = []
    uncoalesced = 0.0
    taken = [instructions(stage) for stage in phase.computed]
    for stage in phase.computed:
        loads = _loads(program, stage)
        uncoalesced += loads.uncoalesced
        for stride, size in loads.single:
            if stride is not Stride.UNIFORM:
                (gathers if stride is Stride.GATHER else along).append(size)
    along += [size for _, size in _strided_bytes(program, phase.computed)]

    def sizes(buffers: Iterable[Var]) -> tuple[int, ...]:
        return tuple(element_bytes(buffer) for buffer in buffers)

    return PhaseProfile(
        reads=sizes(buffer for buffer in phase.inputs if buffer not in phase.again),
        again=sizes(phase.again),
        along=tuple(along),
        gathers=tuple(gathers),
        uncoalesced=uncoalesced,
        writes=sizes(phase.stores),
        from_kept=len(phase.held),
        to_kept=len(phase.keeps),
        operations=sum(each.plain for each in taken),
        avoided=sum(each.avoided for each in taken),
        specials=sum(each.special for each in taken),
        reductions=sum(stage in program.row_reductions for stage in phase.reductions)
        + len(phase.scans),
    )


def _other_bytes(phases: Phases, elements: int, extents: Extents) -> int:
    program = phases.program
    full = {b for phase in phases.phases for b in (*phase.inputs, *phase.stores)}
    loads = Counter(read.buffer for _, read in program.reads)
    strided: Counter[Var] = Counter()
    for buffer, size in _strided_bytes(program, program.stages):
        strided[buffer] += size
    total = 0
    for buffer in (*program.inputs, *program.outputs):
        if buffer in full:
            continue
        count = extents.elements(buffer)
        # A slice of a large tensor is read no further than it reaches; there may be several. What
        # lies between the elements of one with a step comes with them.
        item = element_bytes(buffer)
        each = max(strided[buffer], item * max(1, loads[buffer]))
        total += min(count * item, elements * each)
    return total
