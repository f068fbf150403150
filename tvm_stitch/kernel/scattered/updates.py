"""Updates as a thread adds them up: some at a time, whose loads are on their way together.

In: the part whose rows updates go to, a scattered reduction. Writes TIR into the part's Writer.
Must not know where the numbers of updates come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.contiguity import is_aligned
from tvm_stitch.kernel.analysis.profile import SECTOR_BYTES
from tvm_stitch.kernel.codegen.bfloat16 import widened
from tvm_stitch.kernel.codegen.tir_builder import Writer, all_of, flat_loads, vector_copy
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.kernel.scattered.shared_rows import put_together
from tvm_stitch.stages.guards import mentions
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Var,
    as_int64,
    bind_axes,
    buffer_size,
    constant,
    dtype_of,
    element_bytes,
    elements_of,
    find_reads,
    flatten,
    replaced,
    same_size,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer, int64

# Updates of a row that are on their way at once; of rows that have as many, if they are no more
# than so many bytes of a thread.
FEWEST = 2
MANY = 4
MOST_BYTES = 64
NARROW = (1 << 31) - 1  # elements that 32 bits count


@dataclass(frozen=True, eq=False)
class Fetched:
    """What is read of updates as vectors: a row of a tensor, and where an update finds it."""

    read: Read
    start: Expr  # of the row, by the update's number
    is_shared: bool  # whether all updates have the same


def fetched(wanted: ScatteredReduction) -> tuple[Fetched, ...]:
    """The reads of rows as long as the table's: an update's own, those of a number that it has."""
    return remembered(wanted.stage, fetched, lambda: _fetched(wanted))


def _fetched(wanted: ScatteredReduction) -> tuple[Fetched, ...]:
    stage = wanted.stage
    axes = stage.axes[wanted.depth :]
    own = flatten(axes, stage.extents[wanted.depth :])
    analyzer, found = bind_axes(stage), []
    for read in find_reads(wanted.value):
        if read.nested:
            continue
        is_own = analyzer.can_prove_equal(read.place, wanted.update * wanted.columns + own)
        if is_own and (not read.guarded or _has_all(read, wanted)):
            found.append(Fetched(read, wanted.update * wanted.columns, is_shared=False))
            continue
        start = substitute(read.place, {axis: tirx.const(0, axis.ty) for axis in axes})
        if not read.guarded and analyzer.can_prove_equal(read.place, start + own):
            used = tirx.analysis.undefined_vars(start)
            is_shared = not any(var.same_as(wanted.update) for var in used)
            found.append(Fetched(read, analyzer.simplify(start), is_shared))
    return tuple(found)


def _has_all(read: Read, wanted: ScatteredReduction) -> bool:
    """Whether a tensor has a row for each update, not those of some alone, as parts of one have."""
    return same_size(buffer_size(read.buffer), wanted.count * wanted.columns)


def at_once(wanted: ScatteredReduction, mapping: Mapping) -> int:
    """Updates of a row that a thread has on their way."""
    count, rows = constant(wanted.count), constant(wanted.rows)
    if count is None or rows is None or count < MANY * rows:
        return FEWEST
    loaded = MANY * mapping.elements * update_bytes(wanted)
    return MANY if loaded <= MOST_BYTES else FEWEST


def held_bytes(wanted: ScatteredReduction, mapping: Mapping) -> int:
    """Of a thread, what it has of updates at once."""
    shared = sum(element_bytes(each.read.buffer) for each in fetched(wanted) if each.is_shared)
    each = at_once(wanted, mapping) * update_bytes(wanted) + shared
    return mapping.elements * each


def update_bytes(wanted: ScatteredReduction) -> int:
    """Of an element of an update, what a thread loads."""
    return sum(map(element_bytes, added_buffers(wanted)))


def loaded_bytes(wanted: ScatteredReduction) -> int:
    """The same of what memory gives: a sector, where neighbours are not side by side."""
    return remembered(wanted.stage, loaded_bytes, lambda: _loaded_bytes(wanted))


def _loaded_bytes(wanted: ScatteredReduction) -> int:
    stage = wanted.stage
    apart = {
        read.buffer
        for read in find_reads(wanted.value)
        if not read.nested and _lies_apart(read, stage.axes[wanted.depth :], bind_axes(stage))
    }
    return sum(
        max(SECTOR_BYTES, element_bytes(buffer)) if buffer in apart else element_bytes(buffer)
        for buffer in added_buffers(wanted)
    )


def _lies_apart(read: Read, columns: tuple[Var, ...], analyzer: Analyzer) -> bool:
    """Whether columns of a row that follow each other do not, where they are read."""
    if not columns or not mentions(read.place, columns[-1]):
        return False
    following = substitute(read.place, {columns[-1]: columns[-1] + 1})
    return not analyzer.can_prove_equal(following, read.place + 1)


def added_buffers(wanted: ScatteredReduction) -> set[Var]:
    """Tensors of which each update has a part of its own."""
    shared = {each.read.buffer for each in fetched(wanted) if each.is_shared}
    return {read.buffer for read in find_reads(wanted.value) if not read.nested} - shared


class Updates:
    """Those of one sum, for the row of a thread."""

    def __init__(self, part: Part, wanted: ScatteredReduction, dtype: str) -> None:
        self.part, self.wanted, self.dtype = part, wanted, dtype
        self.writer, self.mapping, self.position = part.writer, part.mapping, part.position
        self.at_once = at_once(wanted, part.mapping)
        aligned = [each for each in fetched(wanted) if self._is_aligned(each)]
        self.fetched = [each for each in aligned if not each.is_shared]
        self.shared = {
            each.read.key: self._rows(each.read, [each.start]) for each in aligned if each.is_shared
        }

    def add_range(
        self,
        number: Callable[[Expr], Expr],
        first: Expr,
        last: Expr,
        tile: Var,
        count: Expr | None = None,
    ) -> None:
        """Add updates that a list has, in their order; of these, those below `count`."""
        with self._taken(number, first, last) as taken:
            if count is not None:
                for near in map(int64, range(self.at_once)):
                    none = tirx.const(-1, "int32")
                    own = tirx.Select(taken[near] < count, taken[near], none)
                    self.writer.store(taken, near, own)
            self._add(taken, tile)

    def add_sums(
        self, number: Callable[[Expr], Expr], first: Expr, last: Expr, tile: Var, sums: Var
    ) -> None:
        """Add rows of sums, which a list numbers; those below 0 are none of them."""
        columns, own = self.part.program.space.columns, f"{self.wanted.stage.name}_sums"
        with self._taken(number, first, last) as taken:
            numbers = [taken[int64(near)] for near in range(self.at_once)]
            starts = [as_int64(tirx.max(each, 0)) * columns for each in numbers]
            loaded = self._vectors(own, self.dtype, sums, starts)
            for alike in self.position.steps():
                with (
                    self.writer.unrolled(alike.count, "step", alike.start) as step,
                    self.writer.when(self.position.exists(step, alike.guard)),
                    self.writer.unrolled(self.mapping.vector, "lane") as lane,
                ):
                    slot, none = self.part.own_slot(step, lane), self.wanted.nothing(self.dtype)
                    for near, each in enumerate(numbers):
                        value = loaded[near * self.mapping.elements + slot]
                        value = tirx.Select(each >= 0, value, none)
                        put_together(self.writer, self.wanted, tile, slot, value)

    @contextmanager
    def _taken(self, number: Callable[[Expr], Expr], first: Expr, last: Expr) -> Iterator[Var]:
        """Some entries of a range at once, in a loop: their numbers; -1 is none."""
        writer, at_once = self.writer, self.at_once
        groups = tirx.floordiv(last - first + (at_once - 1), at_once).astype("int64")
        with writer.serial(groups, "group") as group:
            taken = writer.allocate(f"{self.wanted.stage.name}_taken", at_once, "int32")
            for near in range(at_once):
                at = first.astype("int64") + group * at_once + near
                none = tirx.const(-1, "int32")
                update = tirx.if_then_else(at < last.astype("int64"), number(at), none)
                writer.store(taken, int64(near), update)
            yield taken

    def _add(self, taken: Var, tile: Var) -> None:
        """All loads of these updates are on their way before the first is used; -1 is none."""
        tiles = {each.read.key: self._fetched(each, taken) for each in self.fetched}
        for alike in self.position.steps():
            with (
                self.writer.unrolled(alike.count, "step", alike.start) as step,
                self.writer.when(self.position.exists(step, alike.guard)),
            ):
                for near in range(self.at_once):
                    with self.writer.unrolled(self.mapping.vector, "lane") as lane:
                        self._add_element(tile, taken, near, step, lane, tiles)

    def _is_aligned(self, each: Fetched) -> bool:
        """Whether the row starts where a vector may."""
        return is_aligned(each.start, self.mapping.vector, bind_axes(self.wanted.stage))

    def _fetched(self, each: Fetched, taken: Var) -> Var:
        """The vectors of some updates."""
        # The first update stands in for none, as the first column does where there is none: behind
        # a branch a tile keeps what it had of the updates before, which ptxas spills, so that each
        # load waits until the one before it is there.
        none = tirx.const(0, "int32")
        updates = [tirx.max(taken[int64(near)], none) for near in range(self.at_once)]
        # Whatever is asked of one of them, all numbers are on their way before.
        known = [self._numbers(each, update) for update in updates]
        starts = [self._start(each, *own) for own in zip(updates, known, strict=True)]
        return self._rows(each.read, starts)

    def _numbers(self, each: Fetched, update: Expr) -> dict[int, Expr]:
        """What memory has of an update that says where its row starts."""
        wanted, writer = self.wanted, self.writer
        known = {wanted.update: update.astype("int64")}
        found: list[tuple[Read, Expr]] = []
        for read in find_reads(each.start):
            if read.guarded or any(map(find_reads, read.load.indices)):
                continue
            alike = (value for r, value in found if tvm_ffi.structural_equal(r.load, read.load))
            value = next(alike, None)
            if value is None:
                own = flat_loads(self.part.views, substitute(read.load, known), wanted.place)
                value = writer.value(f"{read.buffer.name}_of_update", own)
            found.append((read, value))
        return {read.key: value for read, value in found}

    def _start(self, each: Fetched, update: Expr, known: dict[int, Expr]) -> Expr:
        """Where the row of an update is; found once where memory says it."""
        wanted = self.wanted
        start = replaced(each.start, known, {wanted.update: update.astype("int64")})
        if not known:
            return start
        # As a vector's number, so that whoever reads the code knows that they are aligned.
        vector = bind_axes(wanted.stage).simplify(tirx.floordiv(start, self.mapping.vector))
        vector = flat_loads(self.part.views, vector, wanted.place).astype(self._narrow(each.read))
        own = self.writer.value(f"{each.read.buffer.name}_vector", vector)
        return as_int64(own) * self.mapping.vector

    def _narrow(self, read: Read) -> str:
        """The type that counts the elements of a tensor, in as few registers as it takes."""
        size = elements_of(read.buffer)
        return "int32" if size is not None and size <= NARROW else "int64"

    def _rows(self, read: Read, starts: list[Expr]) -> Var:
        """Of a tensor, its rows that start there."""
        view, name = self.part.views[read.buffer], f"{read.buffer.name}_fetched"
        return self._vectors(name, dtype_of(read.buffer), view, starts)

    def _vectors(self, name: str, dtype: str, view: Var, starts: list[Expr]) -> Var:
        """A thread's vectors of rows, which are on their way together."""
        writer, vector, each = self.writer, self.mapping.vector, self.mapping.elements
        tile = writer.allocate(name, len(starts) * each, dtype)
        for near, alike in product(range(len(starts)), self.position.steps()):
            with writer.unrolled(alike.count, "step", alike.start) as step:
                exists = all_of(self.position.works, self.position.exists(step, alike.guard))
                column = self.position.column(step, int64(0))
                if exists is not None:
                    column = tirx.Select(exists, column, int64(0))
                start, first = starts[near] + column, step * vector + near * each

                def move(
                    writer: Writer, lane: Expr, first: Expr = first, start: Expr = start
                ) -> None:
                    writer.store(tile, first + lane, view[start + lane])

                vector_copy(writer, dtype, vector, move)
        return tile

    def _add_element(
        self, tile: Var, taken: Var, near: int, step: Expr, lane: Expr, tiles: dict[int, Var]
    ) -> None:
        slot = self.part.own_slot(step, lane)
        wanted, at = self.wanted, near * self.mapping.elements + slot
        stage, update = wanted.stage, taken[int64(near)]
        column = self.position.column(step, lane)
        axes = unflatten(column, stage.axes[wanted.depth :], stage.extents[wanted.depth :])
        known = {key: tile[at] for key, tile in tiles.items()}
        known |= {key: tile[slot] for key, tile in self.shared.items()}
        value = replaced(wanted.value, known, {**axes, wanted.update: update.astype("int64")})
        value = widened(flat_loads(self.part.views, value, wanted.place)).astype(self.dtype)
        value = tirx.if_then_else(update >= 0, value, wanted.nothing(self.dtype))
        put_together(self.writer, wanted, tile, slot, value)
