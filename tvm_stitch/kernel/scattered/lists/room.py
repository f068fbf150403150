"""Shared memory of a list of updates: its entries, and the numbers that are counted beside them.

In: its layout, the buffers. Out: where things are; entries noted and sorted. Must not know who
counts what.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.kernel.scattered.lists.indices import NOTE, Indices, int32
from tvm_stitch.kernel.scattered.lists.layout import ListLayout
from tvm_stitch.kernel.scattered.lists.sorting import sort_source
from tvm_stitch.stages.stage import Expr, Var, as_int64
from tvm_stitch.stages.symbolic_analyzer import int64


@dataclass(frozen=True, eq=False)
class Room:
    """Of one sum."""

    entries: Var
    counters: Var
    layout: ListLayout

    def note(self, indices: Indices, entry: Expr, counter: Expr) -> None:
        """Put an entry behind those that a counter has counted, as far as there is room."""
        noted = self._first_entry, int32(self.layout.room), counter, entry
        indices.call("note", NOTE, *noted, type=self.layout.dtype)

    def sort(self, indices: Indices, ranges: Expr, rows: int) -> None:
        """The entries of so many rows in order, and where those of each row are."""
        warps = self.counters.ptr_to([int64(self.layout.sums)])
        sizes = [int32(each) for each in (self.layout.room, rows, self.layout.bits)]
        source, places = sort_source(), (self._first_entry, ranges, warps)
        indices.call("sort", source, *places, *sizes, type=self.layout.dtype)

    @property
    def noted(self) -> tuple[Expr, Expr, Expr]:
        """Where entries are noted: there, so many, the number of the next one."""
        return self._first_entry, int32(self.layout.room), self.counter

    @property
    def counter(self) -> Expr:
        """Where the entries of the list's rows are counted."""
        return self.counters.ptr_to([int64(self.layout.ranges - 1)])

    @property
    def _first_entry(self) -> Expr:
        return self.entries.ptr_to([int64(0)])

    def at(self, start: int, number: Expr) -> Expr:
        """Where a number of those is that are counted in chunks."""
        return self.layout.chunks_start + start + as_int64(number)

    def number(self, start: int, number: Expr | None = None) -> Expr:
        """One of them."""
        return self.counters[self.at(start, int64(0) if number is None else number)]

    def place(self, start: int) -> Expr:
        """Its address."""
        return self.counters.ptr_to([int64(self.layout.chunks_start + start)])
