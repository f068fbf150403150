"""Stages are placed in a space: which element of what another stage computes each of them reads.

In: Stages in order and the buffers that must be written. Out: a Program, whose stages compute again
what they would read at other places than their own; or why there is none. Must not know threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.ir.behind_maximum import maximum_behind
from tvm_stitch.kernel.ir.inlining import Reads, by_buffer, with_inlined
from tvm_stitch.kernel.ir.iteration_space import Space, columnwise_of, find_space, goes_across
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages import linear
from tvm_stitch.stages.indices import divisions
from tvm_stitch.stages.linear import Position
from tvm_stitch.stages.memoized import memoized_for_copies, remembered, remembered_for_copies
from tvm_stitch.stages.op_pattern import distinct_loads
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    buffer_shape,
    buffer_size,
    constant,
    flatten,
    handle,
    loads_in,
    same_size,
    shown,
    substitute,
)
from tvm_stitch.stages.visit import walked

# A value read at other places than its own is computed again there; this bounds how often.
MAX_INLINED = 64
MOST_LOADS = 256  # of so many values, where they are places: TVM looks at each of them
# The same of one that takes special functions: SiLU before a depthwise convolution of 5 x 5 taps,
# 24 times an element, made 36 us on an H200 for 6.3 MB.
MAX_SPECIAL = 4
# Loads of a value in a branch, as where windows are joined with others: 12 channels of 1 x 11 next
# to 12 of 11 x 1 took 384 us on an H200, for vectors begin in one and end in the other.
MOST_IN_BRANCH = 16
_SPECIAL = frozenset(
    f"tirx.{name}"
    for name in ("erf", "exp", "exp2", "log", "log2", "pow", "rsqrt", "sigmoid", "sqrt", "tanh")
)
# Of an index, once values are inlined: every nested one doubles the time that TVM takes over it.
MAX_DIVISIONS = 12


class ComputedAgain(Refused):
    """What takes long would be computed for many readers: by any schedule of the same kernel."""


def make_program(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], space: Space | None = None
) -> Program | Refused:
    """Place stages in one space, a given one or their own; refuse if they do not share it."""
    stages = unit_reductions_as_elements(stages)
    # Of columns that are rows of their own, no reduction goes over the rows.
    strided = space is not None and space.strided
    across = [stage for stage in stages if not strided and goes_across(stage)]
    own = space or find_space(stages, across, outputs)
    if isinstance(own, Refused):
        return own
    return _SpacePlacing(own, stages, columnwise_of(stages, across), outputs).program()


def unit_reductions_as_elements(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """A reduction over one element is that element."""

    def plain(stage: Stage) -> Stage:
        if not stage.is_reduction or constant(stage.reduced_size) != 1:
            return stage
        zero = tirx.IntImm("int64", 0)
        value = substitute(stage.value, dict.fromkeys(stage.reduced, zero))
        return replace(
            stage, value=value, reduced=(), reduced_extents=(), combiner="", identity=None
        )

    return tuple(map(plain, stages))


@dataclass(frozen=True, eq=False)
class Places:
    """Where a stage's reads go, and which of them to other places than its own."""

    where: dict[tuple[int, int], Where]  # as a Program has it
    elsewhere: Reads

    @staticmethod
    def of(stage: Stage, found: Sequence[Where]) -> Places:
        """Of reads in their order."""
        reads = tuple(zip(stage.reads, found, strict=True))
        output = handle(stage.output)
        where = {(output, read.key): place for read, place in reads}
        return Places(where, by_buffer(read for read, place in reads if place is Where.OTHER))


class Placing(ABC):
    """Works backwards from the outputs, inlining what is read at other places than its own."""

    def __init__(self, stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> None:
        self.outputs = outputs
        self.producer = {stage.output: stage for stage in stages}
        self.order: dict[Var, float] = {stage.output: n for n, stage in enumerate(stages)}
        self.placed: dict[Var, Stage] = {}
        self.where: dict[tuple[int, int], Where] = {}

    def place_all(self) -> tuple[tuple[Stage, ...], tuple[Var, ...]] | Refused:
        """All stages that the outputs need, in order, and the inputs of these."""
        pending = list(self.outputs)
        while pending:
            buffer = pending.pop()
            if buffer in self.placed:
                continue
            if buffer not in self.producer:
                return Refused(f"output {buffer} is computed by no stage")
            stage = self.place(self.producer[buffer])
            if isinstance(stage, Refused):
                return stage
            self.placed[buffer] = stage
            pending.extend(r.buffer for r in stage.reads if r.buffer in self.producer)
        stages = tuple(sorted(self.placed.values(), key=lambda stage: self.order[stage.output]))
        read = dict.fromkeys(read.buffer for stage in stages for read in stage.reads)
        return stages, tuple(buffer for buffer in read if buffer not in self.placed)

    @abstractmethod
    def place(self, stage: Stage) -> Stage | Refused:
        """A stage that reads what is where it may be read, and a note of where that is."""

    def inline(
        self, stage: Stage, elsewhere: Callable[[Stage, Stage | None], Reads | Refused]
    ) -> Stage | Refused:
        """Inline what is read elsewhere, until there is nothing.

        `elsewhere` gets a stage, and the one that it was before the last reads were inlined.
        """
        before: Stage | None = None
        for _ in range(MAX_INLINED):
            reads = elsewhere(stage, before)
            if isinstance(reads, Refused):
                return reads
            if not reads:
                return stage
            if _are_too_many(reads):
                break
            before, stage = stage, with_inlined(stage, reads, self.producer)
        return ComputedAgain(f"{stage.name} reads computed values at too many places")


class _SpacePlacing(Placing):
    """Every computed value is read at its own row, column or both of a space."""

    def __init__(
        self,
        space: Space,
        stages: tuple[Stage, ...],
        columnwise: frozenset[Var],
        outputs: tuple[Var, ...],
    ) -> None:
        super().__init__(stages, outputs)
        self.space, self.columnwise = space, columnwise
        self.copies: Counter[Var] = Counter()  # of what is inlined
        self.loads: dict[int, tuple[int, frozenset[int]]] = {}  # by what a stage computes

    def program(self) -> Program | Refused:
        placed = self.place_all()
        if isinstance(placed, Refused):
            return placed
        stages, inputs = placed
        reduces = any(stage.is_reduction or stage.scan for stage in stages)
        columnwise = frozenset(s.output for s in stages if s.output in self.columnwise)
        maxima = {stage.output: self._maximum(stage) for stage in stages}
        behind = {output: maximum for output, maximum in maxima.items() if maximum is not None}
        own = (self.space, reduces, self.where, columnwise, behind)
        return Program(stages, inputs, self.outputs, *own)

    def _maximum(self, stage: Stage) -> Var | None:
        """What a reduction over the rows of a segment is measured against while both go by."""
        if self.space.row_segment is None or not stage.is_reduction:
            return None
        read = {r.buffer for r in stage.reads} & self.columnwise
        producer = {handle(buffer): self.producer[buffer] for buffer in read}
        maximum = maximum_behind(stage, producer)
        return None if maximum is None else maximum.output

    def _fits(self, stage: Stage) -> Refused | None:
        if stage.output in self.columnwise:
            if same_size(stage.size, self.space.sums) and not self._reduces_along(stage):
                return None
            return Refused(f"{stage.name} needs sums over all rows before the first row")
        sizes = (self.space.rows, self.space.size)
        if stage.is_reduction or any(same_size(stage.size, size) for size in sizes):
            return None
        return Refused(
            f"{stage.name} has {shown(stage.size)} elements, which is neither one a row nor one an "
            f"element of {shown(self.space.rows)} rows x {shown(self.space.columns)} columns"
        )

    def _reduces_along(self, stage: Stage) -> bool:
        return stage.is_reduction and not goes_across(stage)

    def place(self, stage: Stage) -> Stage | Refused:
        is_across = stage.output in self.columnwise
        fits = remembered(stage, ("fits", self.space.key, is_across), lambda: self._fits(stage))
        return fits or self.inline(stage, self._elsewhere)

    def _elsewhere(self, stage: Stage, before: Stage | None) -> Reads | Refused:
        """Reads of computed values at other places than a stage's own."""
        found = self._places(stage, before)
        if isinstance(found, Refused):
            return found
        reads = {b: own for b, own in found.elsewhere.items() if b in self.producer}
        if not reads:
            self.where.update(found.where)
        elif not all(self._is_copied(buffer, own) for buffer, own in reads.items()):
            return self._refused(stage, reads)
        self.copies.update({buffer: len(own) for buffer, own in reads.items()})
        return reads

    def _is_copied(self, buffer: Var, reads: Sequence[Read]) -> bool:
        """Whether what a stage computes may be computed again for so many reads of it."""
        source = self.producer[buffer]
        if source.is_reduction or source.scan:
            return False
        if self.copies[buffer] + len(reads) > MAX_SPECIAL and _is_special(source):
            return False
        return not (any(read.guarded for read in reads) and self._has_windows(source))

    def _refused(self, stage: Stage, reads: Reads) -> Refused:
        """Why not all of some reads may be inlined: of the first that may not."""
        copied = Counter[Var]()
        wanted = {read.key for own in reads.values() for read in own}
        for read in (read for read in stage.reads if read.key in wanted):
            source = self.producer[read.buffer]
            if source.is_reduction or source.scan:
                why = "for an address" if read.nested else "of other rows"
                return Refused(f"{stage.name} needs {source.name} {why}")
            copied[read.buffer] += 1
            copies = self.copies[read.buffer] + copied[read.buffer]
            if copies > MAX_SPECIAL and _is_special(source):
                return ComputedAgain(f"{stage.name} would compute {source.name} again and again")
            if read.guarded and self._has_windows(source):
                break
        return ComputedAgain(f"{stage.name} would compute {source.name} in a branch")

    def _has_windows(self, stage: Stage) -> bool:
        """Whether an element is made of many of the same few tensors, as a convolution's is."""
        count, tensors = self._loads(stage)
        return count > max(MOST_IN_BRANCH, 2 * len(tensors))

    def _loads(self, stage: Stage) -> tuple[int, frozenset[int]]:
        """How many elements an element is made of, of which tensors, as far as no reduction is."""
        key = handle(stage.output)
        if stage.is_reduction or stage.scan:
            return 1, frozenset((key,))
        if key not in self.loads:
            found = [
                self._loads(self.producer[buffer])
                if buffer in self.producer
                else (1, frozenset((handle(buffer),)))
                for buffer in distinct_loads(stage)
            ]
            tensors = frozenset[int]().union(*(own for _, own in found))
            self.loads[key] = sum(count for count, _ in found), tensors
        return self.loads[key]

    def _places(self, stage: Stage, before: Stage | None) -> Places | Refused:
        """Where each read of a stage goes; of some it is known from before others were inlined."""
        of_columns = self._of_columns(stage)
        key = ("places", self.space.key, stage.output in self.columnwise, of_columns)

        def find() -> Places | Refused:
            look = partial(self._look, stage, before, of_columns)
            found = remembered_for_copies(stage, key, look)
            if isinstance(found, int):
                name = stage.reads[found].buffer.name
                return Refused(f"{stage.name} reads {name} at too long an index")
            return Places.of(stage, found)

        return remembered(stage, key, find)

    def _look(
        self, stage: Stage, before: Stage | None, of_columns: tuple[bool, ...]
    ) -> tuple[Where, ...] | int:
        """The same in the order of the reads; or the number of one at too long an index."""
        look, known = self._looked_at(stage, of_columns), self._known(before)
        found: list[Where] = []
        for number, read in enumerate(stage.reads):
            if read.key in known and not read.nested:
                found.append(known[read.key])
            elif max(map(divisions, read.load.indices), default=0) > MAX_DIVISIONS:
                return number
            else:
                found.append(look(number, read))
        return tuple(found)

    def _known(self, before: Stage | None) -> dict[int, Where]:
        """Where the reads of a stage go that others may still have; of none before the first."""
        if before is None or isinstance(found := self._places(before, None), Refused):
            return {}
        output = handle(before.output)
        return {r.key: found.where[output, r.key] for r in before.reads if not r.nested}

    def _of_columns(self, stage: Stage) -> tuple[bool, ...]:
        """Which of a stage's reads may be of what there is one of for each column."""
        if stage.output not in self.columnwise:
            return ()
        if not stage.is_reduction:
            return tuple(read.buffer in self.columnwise for read in stage.reads)
        maximum = self._maximum(stage)
        return () if maximum is None else tuple(read.buffer == maximum for read in stage.reads)

    def _looked_at(
        self, stage: Stage, of_columns: tuple[bool, ...]
    ) -> Callable[[int, Read], Where]:
        """What says of a read, by its number, where it goes."""
        across = stage.output in self.columnwise
        if across and not stage.is_reduction:
            return partial(self._where_in_column, linear.own_position(stage))
        in_rows = partial(self._where, *self.space.position(stage, across))
        if not of_columns:
            return in_rows
        in_columns = partial(self._where_in_column, linear.position_of_result(stage))
        return lambda number, read: (in_columns if of_columns[number] else in_rows)(number, read)

    def _where_in_column(self, own: Position, number: int, read: Read) -> Where:
        is_own = read.buffer in self.columnwise and _is_at(own, number, read)
        return Where.COLUMN if is_own else Where.OTHER

    def _where(self, row: Position, flat: Position | None, number: int, read: Read) -> Where:
        size = buffer_size(read.buffer)
        if same_size(size, self.space.size):
            is_same = flat is not None and _is_at(flat, number, read)
            return Where.SAME if is_same else Where.OTHER
        is_of_row = same_size(size, self.space.rows) and _is_at(row, number, read)
        return Where.ROW if is_of_row else Where.OTHER


def _is_at(position: Position, number: int, read: Read) -> bool:
    """Whether a read of a stage, by its number, goes to a position, unless memory says where."""
    if read.nested:
        return False
    if linear.places(position.stage)[number] is not None and position.linear is not None:
        return position.is_read_by(number)
    at = address_of(read)
    return at is not None and position.is_read_by(number, at)


def address_of(read: Read) -> Expr | None:
    """Where a read lies in its buffer, unless that is itself read from memory.

    Of an axis with one element there is but one to read, whatever memory says.
    """
    if read.nested:
        return None
    shape = buffer_shape(read.buffer)
    zero = tirx.IntImm("int64", 0)
    indices = tuple(
        zero if constant(extent) == 1 else index
        for index, extent in zip(read.load.indices, shape, strict=True)
    )
    if any(map(loads_in, indices)):
        return None
    return flatten(indices, shape)


def _are_too_many(reads: Reads) -> bool:
    """Whether so many loads are of too many values, not of a few for indices and all about them.

    An interpolation loads the place that it is at for its indices, conditions and weights.
    """
    count = sum(map(len, reads.values()))
    if count <= MAX_INLINED:
        return False
    loads = [read for own in reads.values() for read in own]
    if count > MOST_LOADS or not any(read.nested for read in loads):
        return True
    return len({tvm_ffi.StructuralKey(read.load) for read in loads}) > MAX_INLINED


@memoized_for_copies
def _is_special(stage: Stage) -> bool:
    """Whether an element takes a special function."""
    found: list[Expr] = []
    walked(stage.value, (tvm.ir.Call, found.append))
    return any(getattr(call.op, "name", "") in _SPECIAL for call in found)
