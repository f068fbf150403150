"""Copies of factors into a block's shared memory.

In: the panels that a mapping stages and the rows' factors that memory holds as they are; where a
thread works. Writes the copies, all of them before anything waits, and the wait for them. Must not
know what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer, flat_loads
from tvm_stitch.kernel.small_matmul.shared_operand import (
    CHUNK,
    ENTRY,
    FAST,
    SLOW,
    Contraction,
    Panel,
)
from tvm_stitch.kernel.small_matmul.smem_layout import ITEM, Table, pitch
from tvm_stitch.kernel.small_matmul.thread_indexing import ProductPosition
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var, dtype_of, substitute

# TVM gives values that live one after the other the same place, with a barrier between.
SHARED = "shared.dyn"


@dataclass(frozen=True, eq=False)
class _Copy:
    """Elements of a panel for a block, and where they go."""

    panel: Panel
    target: Var
    slow: int
    fast: int
    of: Callable[[Expr, Expr], tuple[Expr, Expr]]  # which of the panel's
    place: Callable[[Expr, Expr], Expr]
    in_vectors: bool  # four neighbours are neighbours in memory as well
    in_line: bool  # and in the target


class ProductCopies:
    """Panels and rows' factors on their way into shared memory."""

    def __init__(
        self, position: ProductPosition, views: MappingOf[Var, Var], writer: Writer
    ) -> None:
        self.position, self.views, self.writer = position, views, writer
        self.mapping = position.mapping
        self.pending = False  # whether copies have not been waited for

    def stage(self, table: Table, name: str) -> Var:
        """All threads of the block copy a panel's table."""
        target = self.writer.allocate(name, table.slow * table.pitch, ACCUMULATED, SHARED)
        columns = None if table.sliced is None else self.position.columns(table.sliced)

        def of(slow: Expr, fast: Expr) -> tuple[Expr, Expr]:
            if columns is None:
                return slow, fast
            if table.by_depth:
                return columns.placed(slow), fast
            return slow, columns.placed(fast)

        runs = columns is None or table.by_depth or columns.in_runs
        in_vectors = table.panel.in_vectors and runs
        in_line = table.group == 1
        self._copy(
            _Copy(table.panel, target, table.slow, table.fast, of, table.place, in_vectors, in_line)
        )
        return target

    def fetch(self, contraction: Contraction, panel: Panel) -> Var:
        """All threads of the block copy its rows' factors."""
        rows, line = self.mapping.block_rows, pitch(panel.fast)
        name = f"{contraction.own.name}_row"
        target = self.writer.allocate(name, rows * line, ACCUMULATED, SHARED)

        def of(slow: Expr, fast: Expr) -> tuple[Expr, Expr]:
            return self.position.row(slow), fast

        def place(slow: Expr, fast: Expr) -> Expr:
            return slow * line + fast

        self._copy(_Copy(panel, target, rows, panel.fast, of, place, panel.in_vectors, True))
        return target

    def wait(self) -> None:
        """Until the thread's own copies are there."""
        if self.pending:
            self.writer.add(tirx.Evaluate(T.ptx.cp.async_.commit_group()))
            self.writer.add(tirx.Evaluate(T.ptx.cp.async_.wait_group(0)))
            self.pending = False

    def _copy(self, copy: _Copy) -> None:
        past = self.mapping.asynchronous and copy.panel.as_it_is
        width = CHUNK if copy.in_vectors and (copy.in_line or not past) else 1
        writer, threads = self.writer, self.mapping.block_threads
        accesses = copy.slow * copy.fast // width
        with writer.unrolled(-(-accesses // threads), "copy") as number:
            access = number * threads + self.position.thread
            slow = tirx.floordiv(access * width, copy.fast)
            fast = tirx.floormod(access * width, copy.fast)
            with writer.when(access < accesses if accesses % threads else None):
                if past:
                    self._cp_async(copy, slow, fast, width)
                else:
                    self._through_registers(copy, slow, fast, width)

    def _cp_async(self, copy: _Copy, slow: Expr, fast: Expr, width: int) -> None:
        """An asynchronous copy (cp.async)."""
        load = self.flat(self._element(copy, copy.panel.load, slow, fast))
        # By an address alone TVM would not see that the target is alive from here on.
        to = copy.target.access_ptr("w", offset=copy.place(slow, fast), extent=width)
        source = load.source.ptr_to([load.indices[0]])
        self.writer.cp_async(to, source, width * ITEM)
        self.pending = True

    def _through_registers(self, copy: _Copy, slow: Expr, fast: Expr, width: int) -> None:
        writer = self.writer
        if width == 1:
            value = self.flat(self._element(copy, copy.panel.value, slow, fast))
            writer.store(copy.target, copy.place(slow, fast), value)
            return
        load = self.flat(self._element(copy, copy.panel.load, slow, fast))
        dtype = dtype_of(load.source)
        loaded = writer.allocate("loaded", width, dtype)
        with writer.vectorized(width, "near") as near:
            writer.store(loaded, near, load.source[load.indices[0] + near])
        if dtype != ACCUMULATED:
            values = writer.allocate("copied", width, ACCUMULATED)
            with writer.unrolled(width, "near") as near:
                writer.store(values, near, loaded[near].astype(ACCUMULATED))
            loaded = values
        loop = writer.vectorized if copy.in_line else writer.unrolled
        with loop(width, "near") as near:
            place = copy.place(slow, fast)
            at = place + near if copy.in_line else copy.place(slow, fast + near)
            writer.store(copy.target, at, loaded[near])

    def _element(self, copy: _Copy, value: Expr | None, slow: Expr, fast: Expr) -> Expr:
        assert value is not None, "vectors and asynchronous copies are of loads"
        own_slow, own_fast = copy.of(slow, fast)
        return substitute(value, {ENTRY: self.position.entry, SLOW: own_slow, FAST: own_fast})

    def from_memory(self, panel: Panel, slow: Expr, fast: Expr) -> Expr:
        """An element of a panel that is not staged."""
        here = {ENTRY: self.position.entry, SLOW: slow, FAST: fast}
        return self.flat(substitute(panel.value, here))

    def flat(self, expr: Expr) -> Expr:
        """The expression with loads from parameters as loads from their flat views."""
        return flat_loads(self.views, expr)
