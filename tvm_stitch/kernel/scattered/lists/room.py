"""Shared memory of a list of updates: its entries, and the numbers that are counted beside them.

In: its layout, the buffers. Out: where things are. Must not know who counts what.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.kernel.codegen.tir_builder import int64
from tvm_stitch.kernel.scattered.lists.indices import int32
from tvm_stitch.kernel.scattered.lists.layout import ListLayout
from tvm_stitch.stages.stage import Expr, Var, as_int64


@dataclass(frozen=True, eq=False)
class Room:
    """Of one sum."""

    entries: Var
    counters: Var
    layout: ListLayout

    @property
    def noted(self) -> tuple[Expr, Expr, Expr]:
        """Where entries are noted: there, so many, the number of the next one."""
        counter = self.counters.ptr_to([int64(self.layout.ranges - 1)])
        return self.entries.ptr_to([int64(0)]), int32(self.layout.room), counter

    @property
    def warps(self) -> Expr:
        """A number for each warp of a block."""
        return self.counters.ptr_to([int64(self.layout.sums)])

    def at(self, start: int, number: Expr) -> Expr:
        """Where a number of those is that are counted in chunks."""
        return self.layout.chunks_start + start + as_int64(number)

    def number(self, start: int, number: Expr | None = None) -> Expr:
        """One of them."""
        return self.counters[self.at(start, int64(0) if number is None else number)]

    def place(self, start: int) -> Expr:
        """Its address."""
        return self.counters.ptr_to([int64(self.layout.chunks_start + start)])
