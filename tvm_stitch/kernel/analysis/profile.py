"""What a program asks of a device, whatever its mapping: bytes, instructions, reductions by phase.

In: the Phases of a Program, and sizes of symbols. Out: a Profile, plain numbers that go to JSON and
back. Must not know threads, nor any device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.json_data import checked
from tvm_stitch.kernel.analysis.addressing import Address, Frame, Stride
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.strided_loads import plan_loads
from tvm_stitch.kernel.analysis.vector_loads import VectorLoad
from tvm_stitch.kernel.codegen.tir_builder import int64
from tvm_stitch.kernel.ir.listing import Listing
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase, Phases
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.guards import is_branch, mentions
from tvm_stitch.stages.memoized import memoized_for_copies, remembered
from tvm_stitch.stages.stage import Stage, Var, constant, dtype_of, element_bytes, handle
from tvm_stitch.stages.visit import walked

# Plain operations of one evaluation in float32 and in half precision, and special-function
# operations: instructions that nvcc 13 makes of TVM's CUDA with fast maths for sm_90. What is not
# named is one plain operation; two halves share one.
INSTRUCTIONS = {
    "exp": (1, 8, 1), "log": (1, 8, 1), "exp2": (0, 8, 1), "log2": (0, 8, 1),
    "tanh": (0, 2, 1), "sigmoid": (3, 20, 2), "sqrt": (0, 3, 1), "rsqrt": (0, 3, 1),
    "sin": (1, 26, 1), "cos": (1, 26, 1), "tan": (2, 4, 3), "pow": (1, 3, 2),
    "erf": (22, 24, 1), "Div": (1, 11, 1), "Max": (1, 3.5, 0), "Min": (1, 3.5, 0),
    "Cast": (1, 1, 0), "FloorDiv": (4, 4, 0), "FloorMod": (5, 5, 0),
}  # fmt: skip
_OTHERS = (1, 0.5, 0)
LANES = 8  # of vectors, where strided loads are told from gathers
NEIGHBOURS, LINE_BYTES = 32, 128  # that load at once, and that come from memory together
_FREE = ("Var", "IntImm", "FloatImm", "Op", "PrimType", "Array", "StringImm")


@dataclass(frozen=True)
class PhaseProfile:
    """What one pass over the rows does, for each element; tuples hold bytes of an element."""

    reads: tuple[int, ...] = ()  # tensors that hold an element for each row and column
    again: tuple[int, ...] = ()  # the same tensors, which an earlier phase has read but not kept
    along: tuple[int, ...] = ()  # loads of what rows share: weights, slices, repeated values
    gathers: tuple[int, ...] = ()  # loads from anywhere
    uncoalesced: float = 0.0  # of these, as many as have a line of memory to themselves
    writes: tuple[int, ...] = ()
    from_kept: int = 0  # values that an earlier phase has kept
    to_kept: int = 0
    operations: float = 0.0
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
    """A stage's loads of what is neither its own element nor a row's."""

    single: tuple[tuple[Stride, int], ...]  # stride and bytes of an element
    strided: tuple[VectorLoad, ...]
    uncoalesced: float


def _loads(program: Program, stage: Stage) -> _Loads:
    def find() -> _Loads:
        frame = Frame(program)
        found = [
            frame.address(stage, read)
            for read in stage.reads
            if program.place(stage, read) is Where.OTHER and read.buffer not in program.producer
        ]
        apart = [each for each in found if each.stride is Stride.GATHER and not each.from_memory]
        strided = plan_loads(frame, apart, LANES)
        served = {address.key for load in strided for address in load.serves}
        single = [each for each in found if each.key not in served]
        sizes = tuple((each.stride, element_bytes(each.buffer)) for each in single)
        gathers = [each for each in single if each.stride is Stride.GATHER]
        uncoalesced = 0.0 if has_rows else sum(_uncoalesced(frame, each) for each in gathers)
        return _Loads(sizes, tuple(strided), uncoalesced)

    has_rows = program.reduces or constant(program.space.rows) != 1
    return remembered(stage, ("strides", program.space.key, has_rows), find)


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
                return 1
            found.add(distance * item // LINE_BYTES)
        return len(found)

    def share() -> float:
        return (min(map(lines, (1, LANES))) - 1) / (NEIGHBOURS - 1)

    key = "uncoalesced", tvm_ffi.StructuralKey(address.index), item
    return frame.known(key, share)


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
    operations = specials = uncoalesced = 0.0
    for stage in phase.computed:
        plain, special = instructions(stage)
        operations, specials = operations + plain, specials + special
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
        operations=operations,
        specials=specials,
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


@memoized_for_copies
def instructions(stage: Stage) -> tuple[float, float]:
    """Plain and special-function operations of one of its elements."""
    plain = special = 0.0
    seen: set[int] = set()  # what stands in several places is computed once
    with_sum: set[int] = set()  # products that a sum takes in its own instruction

    def is_shared(node: Any) -> bool:
        """Whether it is a branch that a whole vector takes or not: its guard is its thread's."""
        is_known = isinstance(node, tvm.ir.Call) and is_branch(node) and bool(stage.axes)
        return is_known and not mentions(node.args[0], stage.axes[-1])

    def visit(node: Any) -> Any:
        nonlocal plain, special
        kind = type(node).__name__
        if kind == "TensorLoad":
            # Its index is not computed for each element: a thread moves along the row.
            return tvm_ffi.WalkResult.SKIP
        if kind == "Call":
            kind = getattr(node.op, "name", "").removeprefix("tirx.")
        if kind in _FREE:
            return None
        if is_shared(node):
            for side in node.args[1:]:
                walked(side, (tvm.ir.Expr, visit), pre=True)
            return tvm_ffi.WalkResult.SKIP
        value = tvm_ffi.structural_hash(node)
        if value in seen:
            return tvm_ffi.WalkResult.SKIP
        seen.add(value)
        if kind in ("Add", "Sub"):
            products = [side for side in (node.a, node.b) if isinstance(side, tirx.Mul)]
            with_sum.update(map(handle, products[:1]))
        if handle(node) not in with_sum:
            wide, half, more = INSTRUCTIONS.get(kind, _OTHERS)
            plain += half if dtype_of(node) in ("float16", "bfloat16") else wide
            special += more
        return None

    walked(stage.value, (tvm.ir.Expr, visit), pre=True)
    # A reduction combines once for each element.
    return plain + stage.is_reduction, special
