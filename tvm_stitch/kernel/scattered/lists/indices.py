"""The updates of a sum by their numbers: to which row each goes, and whose row that is.

In: a scattered reduction, its program's Mapping, the layout of its lists, where it is written.
Writes TIR into a Writer. Must not know who lists what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Place, flat_loads
from tvm_stitch.kernel.ir.listing import AT_ONCE
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.scattered.lists.layout import ListLayout
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import Expr, as_int64, constant, substitute
from tvm_stitch.stages.symbolic_analyzer import int64

# In CUDA, not in TIR: TVM would look for places of barriers of its own, inside of branches.
COUNT = """
__device__ __forceinline__ void {name}(void* counts, int at, int more) {{
  atomicAdd((int*)counts + at, more);
}}
"""
NOTE = """
__device__ __forceinline__ void {name}(void* to, int room, void* counter, {type} entry) {{
  int slot = atomicAdd((int*)counter, 1);
  if (slot < room) (({type}*)to)[slot] = entry;
}}
"""
IN_CUDA = {"int32": "int", "int64": "long long", "float32": "float"}


class Indices:
    """Those of one sum, which the threads of a block share."""

    def __init__(
        self, wanted: ScatteredReduction, layout: ListLayout, mapping: Mapping, place: Place
    ) -> None:
        self.wanted, self.layout, self.mapping, self.place = wanted, layout, mapping, place
        self.writer, self.name = place.writer, wanted.stage.name
        self.threads = mapping.block_threads

    def look_through(
        self, start: Expr, end: Expr, note: Callable[[Expr, Expr], None], most: int | None = None
    ) -> None:
        """For each update of a range, of `most` at most: a row of the table or -1, and its number.

        The row is in 32 bits, in which it takes a division less long.
        """
        writer, threads = self.writer, self.threads
        looked = AT_ONCE if most is None else min(AT_ONCE, -(-most // threads))
        runs = tirx.floordiv(end - start + (threads * looked - 1), threads * looked)
        with writer.serial(runs, "run") as run:
            first = start + run * (threads * looked) + self.place.thread
            updates = [first + number * threads for number in range(looked)]
            own = writer.allocate(f"{self.name}_row", looked, "int64")
            for number, update in enumerate(updates):
                writer.store(own, int64(number), self._goes_to(update, end))
            for number, update in enumerate(updates):
                note(self._row(own[int64(number)]), update)

    def group(self, row: Expr) -> Expr:
        """The group of blocks that has a row of the table; -1 or 0 of none."""
        return tirx.truncmod(self._turn(row), self.layout.groups)

    def iteration(self, row: Expr) -> Expr:
        """The iteration in which it is worked on."""
        return tirx.truncdiv(self._turn(row), self.layout.groups)

    def inside(self, row: Expr) -> Expr:
        """Its number among the rows of an iteration."""
        return tirx.truncdiv(row, self.layout.turns)

    def _turn(self, row: Expr) -> Expr:
        return tirx.truncmod(row, self.layout.turns)

    def listed_row(self, row: Expr) -> Expr:
        """Its number among the rows of its blocks, in all iterations."""
        return self.iteration(row) * self.mapping.rows + self.inside(row)

    def entry(self, row: Expr, update: Expr, dtype: str) -> Expr:
        """What lists have of an update: the number of its row among those listed, and its own."""
        entry = tirx.shift_left(row.astype(dtype), tirx.const(self.layout.bits, dtype))
        return tirx.bitwise_or(entry, update.astype(dtype))

    @contextmanager
    def each(self, count: Expr, name: str) -> Iterator[Expr]:
        """Numbers below a count, shared by the block's threads; in 32 bits."""
        exact = constant(count)
        with self.writer.serial(tirx.floordiv(count + (self.threads - 1), self.threads), name) as n:
            at = (n * self.threads + self.place.thread).astype("int32")
            fits = exact is not None and exact % self.threads == 0
            with self.writer.when(None if fits else at < count):
                yield at

    def barrier(self) -> None:
        """All threads of the block are here."""
        self.writer.call(T.tvm_storage_sync("shared"))

    def call(self, what: str, source: str, *arguments: Expr, **types: str) -> None:
        """A function in CUDA, whose source names types."""
        name = "_".join(("tvm_stitch", what, *types.values()))
        known = {of: IN_CUDA[dtype] for of, dtype in types.items()}
        source = source.format(name=name, **known)
        self.writer.call(T.cuda.func_call(name, *arguments, source_code=source))

    def row_of(self, update: Expr) -> Expr:
        """The row of the table that an update goes to, in 32 bits."""
        return self._row(self._goes_to(as_int64(update), self.wanted.count))

    def _goes_to(self, update: Expr, end: Expr) -> Expr:
        """The row of the table that an update goes to; -1: there is no such update."""
        wanted = self.wanted
        number = substitute(wanted.row, {wanted.update: update}).astype("int64")
        number = flat_loads(self.place.views, number, wanted.place)
        return tirx.if_then_else(update < end, number, int64(-1))

    def _row(self, row: Expr) -> Expr:
        """The same in 32 bits, -1 where the table has no such row."""
        exists = tirx.all(row >= 0, row < self.wanted.rows)
        return self.writer.value("to", tirx.Select(exists, row.astype("int32"), int32(-1)))


def int32(value: int) -> Expr:
    """A constant in 32 bits."""
    return tirx.const(value, "int32")


def as_int32(value: int | Expr) -> Expr:
    """A number in 32 bits."""
    return int32(value) if isinstance(value, int) else value.astype("int32")
