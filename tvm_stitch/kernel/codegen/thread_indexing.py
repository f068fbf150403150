"""Which element a thread works on: rows, columns, addresses and the guards at a row's ends.

In: a Space, a Mapping, and the expressions for the block and the thread. Must not know what is
computed.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass

import tvm
from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, divided
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import Mapping, power_of_two
from tvm_stitch.stages.stage import Expr, as_int64, constant
from tvm_stitch.stages.symbolic_analyzer import int64

FAR_BEHIND = 1 << 24  # rows


class Guard(enum.Enum):
    """What must be asked at the row's ends before an access."""

    NONE = "nothing: all elements exist"
    VECTOR = "whether the vector exists, whole"
    EDGE = "whether each element exists: a row may end inside of a vector"


@dataclass(frozen=True)
class Steps:
    """Consecutive steps of a thread that need the same guard at the row's ends."""

    start: int | Expr
    count: int | Expr
    guard: Guard


@dataclass(frozen=True, eq=False)
class UnevenSegment:
    """Rows of a block's segment, where not all segments have as many."""

    first: Expr
    rows: Expr


def uneven_segment(space: Space, mapping: Mapping, place: Place) -> UnevenSegment | None:
    """The rows of the block's segment, found once; None: all segments have as many."""
    if space.uneven is None:
        return None
    number = tirx.floordiv(place.block, blocks_of_row(space, mapping))
    group, segment = divided(number, space.uneven.segments)
    first = group * space.uneven.rows + space.uneven.first_of(segment)
    # Of a segment, which is one of many, there are no more rows than 32 bits count.
    rows = place.writer.value("segment_rows", space.uneven.rows_of(segment).astype("int32"))
    return UnevenSegment(place.writer.value("first_row", first), as_int64(rows))


class Position:
    """A thread's place in the space, as TIR expressions."""

    def __init__(
        self,
        space: Space,
        mapping: Mapping,
        place: Place,
        iteration: Expr | None = None,
        number: int = 0,
        exists: bool = False,
        uneven: UnevenSegment | None = None,
        chunk: Expr | None = None,
    ) -> None:
        """`number` says which row of the threads' batch; `exists`, that it is known to be one.

        `uneven` has the rows of a segment that not all others have as many as; `chunk` is which one
        of the row's a block works on.
        """
        self.space, self.mapping = space, mapping
        block = place.block
        self.row_of_block, self.thread = self._in_block(place.thread)
        self.rank: Expr = int64(0)  # of the block among those that share the row
        self.row_exists: Expr | None = None
        self.row_segment: Expr = int64(0)  # of rows that are reduced over
        if iteration is not None and space.row_segment is not None:
            self._take_row_segment(block, iteration, number, exists, uneven)
        elif iteration is not None:
            self._take_iteration(block, iteration, place.writer)
        elif mapping.split:
            self.row: Expr = int64(0)
            self.rank = block
        else:
            self._place_row(block, number, place.writer)
        self._start_row(place.writer)
        if chunk is not None:
            self.origin += chunk * mapping.reach
            self.first_column += chunk * mapping.reach
        self.columns = self._narrow_columns(place.writer)

    def _narrow_columns(self, writer: Writer) -> Expr:
        """The row's length; in 32 bits, where the mapping bounds what only run time knows.

        TVM computes in 64 bits whatever is compared with a symbol, and divisions take long there.
        """
        if constant(self.space.columns) is not None or self.mapping.any_length:
            return self.space.columns
        most = self.mapping.capacity
        stored = writer.value("columns", tirx.min(self.space.columns, most).astype("int32"))
        # The mask changes nothing: it says how large it is, where TVM takes a minimum apart.
        return as_int64(stored) & power_of_two(most + 1) - 1

    def _in_block(self, thread: Expr) -> tuple[Expr, Expr]:
        """Of a thread: its row among the block's, and its number among the threads of that row."""
        mapping = self.mapping
        if mapping.rows == 1:
            return int64(0), thread
        if mapping.apart > 1:
            number, row = divided(thread, mapping.apart)
            return row, number
        return divided(thread, mapping.threads)

    def _take_iteration(self, block: Expr, iteration: Expr, writer: Writer) -> None:
        """A grid of fixed size: neighbouring blocks share a row."""
        pieces = blocks_of_row(self.space, self.mapping)
        first, self.rank = block, int64(0)
        if pieces > 1:
            first, self.rank = tirx.floordiv(block, pieces), tirx.floormod(block, pieces)
        group = iteration * (self.mapping.blocks // pieces) + first
        self._place_group(group, 0, writer)

    def _take_row_segment(
        self,
        block: Expr,
        iteration: Expr,
        number: int,
        exists: bool,
        uneven: UnevenSegment | None,
    ) -> None:
        """Neighbouring blocks share a segment of rows, of which they take one after the other."""
        mapping, row_segment = self.mapping, self.space.segment_rows
        pieces = blocks_of_row(self.space, mapping)
        self.row_segment, self.rank = tirx.floordiv(block, pieces), tirx.floormod(block, pieces)
        inside = (iteration * mapping.batch + number) * mapping.rows + self.row_of_block
        if uneven is not None:
            if not exists:
                self.row_exists = inside < uneven.rows
                inside = tirx.max(tirx.min(inside, uneven.rows - 1), int64(0))
            self.row = uneven.first + inside
            return
        exact = constant(row_segment)
        if not exists and (exact is None or exact % mapping.rows):
            self.row_exists = inside < row_segment
            inside = tirx.min(inside, row_segment - 1)
        self.row = self.row_segment * row_segment + inside

    def _place_row(self, block: Expr, number: int, writer: Writer) -> None:
        mapping = self.mapping
        if mapping.cluster > 1:
            self.rank = tirx.floormod(block, mapping.cluster)
            block = tirx.floordiv(block, mapping.cluster)
        self._place_group(block, number, writer)

    def _place_group(self, group: Expr, number: int, writer: Writer) -> None:
        """The row among those that blocks work on side by side."""
        mapping = self.mapping
        self.row = group
        if mapping.block_rows == 1:
            return
        if mapping.cyclic:
            self._place_cyclic(group)
            return
        first = group * mapping.block_rows + number * mapping.rows
        self.row = first + self.row_of_block
        if mapping.beside:
            self.row = (group * mapping.rows + self.row_of_block) * mapping.batch + number
        rows = constant(self.space.rows)
        # A row past the end computes the last one again and does not write it: no thread leaves, so
        # barriers and shuffles stay whole.
        if rows is None:
            self._end_rows(first, writer)
        elif rows % mapping.block_rows:
            self.row_exists = self.row < self.space.rows
            self.row = tirx.min(self.row, self.space.rows - 1)

    def _place_cyclic(self, group: Expr) -> None:
        """The same of rows that are as far apart as blocks' turns are many."""
        rows = constant(self.space.rows) or 0
        self.row = self.row_of_block * turns_of(self.space, self.mapping) + group
        if rows % self.mapping.rows:
            self.row_exists = self.row < rows
            self.row = tirx.min(self.row, int64(rows - 1))

    def _end_rows(self, first: Expr, writer: Writer) -> None:
        """The last of the rows side by side that exists, counted from their first, in 32 bits.

        All threads of a block have the same first row: what they do by themselves is narrow.
        """
        most = self.mapping.rows - 1
        last = tirx.min(self.space.rows - 1 - first, int64(most)).astype("int32")
        # The bounds let TVM compute in 32 bits; rows of no iteration may begin far behind the end.
        last = tirx.max(as_int64(writer.value("last_row", last)), int64(-FAR_BEHIND))
        self.row_exists = self.row_of_block <= last
        inside = tirx.min(self.row_of_block, last).astype("int32")
        self.row = first + as_int64(writer.value("row_of_block", inside))

    def _start_row(self, writer: Writer) -> None:
        """Where the row's vectors begin, in memory and as a column."""
        start, vector = self.row * self.space.columns, self.mapping.vector
        self.origin: Expr = start
        self.first_column: Expr = int64(0)
        if self.row_exists is not None and constant(self.space.rows) is None and self.space.whole:
            # Once, in front of whatever branches there are: accesses add up little to that.
            first_vector = writer.value("first_vector", tirx.floordiv(start, vector))
            self.origin = first_vector * vector
        if self.mapping.peeled:
            self.origin = tirx.floordiv(start, vector) * vector
            # Not an expression of the row: TVM would simplify the guards of the row's ends with it,
            # to divisions by the row's length.
            first = (self.origin - start).astype("int32")
            stored = writer.value("first_column", first).astype("int64")
            # The bounds let TVM compute in 32 bits.
            self.first_column = tirx.max(tirx.min(stored, 0), 1 - vector)

    @property
    def blocks(self) -> Expr:
        """Blocks that the space takes."""
        space, mapping = self.space, self.mapping
        if mapping.blocks:
            return int64(mapping.blocks)
        if space.row_segment is not None:
            return tvm.sym.Analyzer().simplify(space.row_segments * blocks_of_row(space, mapping))
        if mapping.split:
            count = tirx.floordiv(space.columns + (mapping.reach - 1), mapping.reach)
        else:
            each = mapping.block_rows
            count = tirx.floordiv(space.rows + (each - 1), each) * mapping.cluster
        return tvm.sym.Analyzer().simplify(count)

    def offset(self, step: Expr) -> Expr:
        """Of a thread's vector in the row, counted from the first aligned element."""
        mapping = self.mapping
        if mapping.split:
            iteration = self.rank * mapping.steps + step
        else:
            iteration = step * mapping.cluster + self.rank if mapping.cluster > 1 else step
        return (iteration * mapping.working + self.thread) * mapping.vector

    @property
    def works(self) -> Expr | None:
        """Whether the thread has any element; None: all have."""
        return self.thread < self.mapping.working if self.mapping.idle else None

    def address(self, step: Expr, lane: Expr) -> Expr:
        """Of an element in memory."""
        if self.space.whole:
            return self.origin + self.offset(step) + lane
        offset, run = self.offset(step), self.space.run
        if self.mapping.any_length:
            return self.space.flat(self.row, offset) + lane
        return self.space.flat_in_run(self.row, *divided(offset, run)) + lane

    def column(self, step: Expr, lane: Expr) -> Expr:
        """The column of an element; may lie outside of the row at its ends."""
        return self.first_column + self.offset(step) + lane

    def inside(self, step: Expr, lane: Expr) -> Expr:
        """Whether an element exists."""
        column = self.column(step, lane)
        below = column < self.columns
        return tirx.all(column >= 0, below) if self.mapping.peeled else below

    def exists(self, step: Expr, guard: Guard, lane: Expr | None = None) -> Expr | None:
        """What must be asked before an access to a vector or an element; None: nothing."""
        if guard is Guard.NONE:
            return None
        return self.inside(step, int64(0) if lane is None else lane)

    def whole(self, step: Expr) -> Expr:
        """Whether a vector lies inside of the row altogether."""
        last = self.inside(step, int64(self.mapping.vector - 1))
        if not self.mapping.peeled:
            return last
        return tirx.all(self.column(step, int64(0)) >= 0, last)

    def steps(self) -> list[Steps]:
        """Steps grouped by the guard that they need."""
        if not self.mapping.steps:
            return [Steps(0, self._steps_of_row(), self._guard(0))]
        groups = itertools.groupby(range(self.mapping.steps), self._guard)
        alike = [(guard, list(steps)) for guard, steps in groups]
        return [Steps(steps[0], len(steps), guard) for guard, steps in alike]

    def _steps_of_row(self) -> Expr:
        mapping = self.mapping
        per_step = mapping.cluster * mapping.working * mapping.vector
        return tirx.floordiv(self.space.columns - self.first_column + (per_step - 1), per_step)

    def _guard(self, step: int) -> Guard:
        mapping = self.mapping
        columns = constant(self.space.columns)
        if columns is not None:
            if mapping.split or mapping.chunked:
                covered = columns % mapping.reach == 0 and not mapping.peeled
            else:
                per_step = mapping.cluster * mapping.working * mapping.vector
                covered = (step + 1) * per_step <= columns
            if covered and not (mapping.peeled and step == 0):
                return Guard.NONE
        modular = tvm.sym.Analyzer().modular_set(self.space.columns)
        fits = modular.coeff % mapping.vector == 0 and modular.base % mapping.vector == 0
        return Guard.VECTOR if fits and not mapping.peeled else Guard.EDGE


def chunks_of_row(space: Space, mapping: Mapping) -> Expr:
    """Chunks that a row takes, wherever its first vector begins."""
    longest = space.columns + (mapping.vector - 1 if mapping.peeled else 0)
    return tirx.floordiv(longest + (mapping.reach - 1), mapping.reach)


def blocks_of_row(space: Space, mapping: Mapping) -> int:
    """Neighbouring blocks that share a row where blocks iterate over the rows."""
    columns = constant(space.columns)
    if not mapping.split or columns is None:
        return mapping.cluster
    return -(-columns // mapping.reach)


def blocks_of(space: Space, mapping: Mapping) -> int:
    """Blocks that a space of constant shape takes in a round of a grid."""
    if space.row_segment is not None:
        return (constant(space.row_segments) or 0) * blocks_of_row(space, mapping)
    return -(-(constant(space.rows) or 0) // mapping.block_rows)


def turns_of(space: Space, mapping: Mapping) -> int:
    """How often blocks take rows of a space of constant shape, all blocks together."""
    return -(-(constant(space.rows) or 0) // mapping.rows)


def iterations_of_segment(space: Space, mapping: Mapping) -> int:
    """How many rows of its segment a thread has, the last of which need not exist."""
    return -(-(constant(space.segment_rows) or 0) // mapping.rows)


def piece_of(space: Space, mapping: Mapping) -> int:
    """Columns of a segment that a block has."""
    return min(mapping.reach, constant(space.columns) or 0)
