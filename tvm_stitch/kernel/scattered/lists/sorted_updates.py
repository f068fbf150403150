"""Updates that a kernel before has sorted by their rows: lists that are read where they lie.

In: a scattered reduction whose updates are sorted, the Space of its program, its Mapping, where it
is written. Writes TIR into a Writer. Offers what update_list does, and nothing has to be listed.
Must not know what updates are made of.
"""

from __future__ import annotations

from tvm import tirx

from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row, turns_of
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.scattered.shared_rows import Partials, shares_rows
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import Expr, Var, as_int64


class SortedUpdates:
    """Those of one sum."""

    partition = None

    def __init__(
        self, wanted: ScatteredReduction, space: Space, mapping: Mapping, place: Place
    ) -> None:
        assert wanted.sorted is not None, "updates that nobody has sorted"
        self.wanted, self.mapping, self.space = wanted, mapping, space
        views = place.views
        self._order = views[wanted.sorted.order]
        self._first, self._last = views[wanted.sorted.first], views[wanted.sorted.last]
        pieces = blocks_of_row(space, mapping)
        self._group = tirx.floordiv(place.block, pieces)
        self._groups = mapping.blocks // pieces
        self.partials = Partials(wanted, mapping, place) if shares_rows(mapping) else None

    def first(self, row: Expr) -> Expr:
        """The first entry of a row, counted among the block's rows in all iterations."""
        return self._of_row(self._first, row)

    def last(self, row: Expr) -> Expr:
        """The entry behind a row's last."""
        return self._of_row(self._last, row)

    def number(self, entry: Expr) -> Expr:
        """The update of an entry, in 32 bits."""
        return self._order[as_int64(entry)]

    def _of_row(self, numbers: Var, row: Expr) -> Expr:
        """What a list of numbers has for a row; of none there is nothing to add."""
        rows = self.mapping.rows
        turn = tirx.floordiv(row, rows) * self._groups + self._group
        own = tirx.floormod(row, rows) * turns_of(self.space, self.mapping) + turn
        return tirx.if_then_else(own < self.space.rows, numbers[own], tirx.const(0, "int32"))
