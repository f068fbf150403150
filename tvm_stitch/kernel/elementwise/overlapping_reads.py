"""Reads that neighbouring lines share: windows of a convolution, a pooling, an interpolation.

In: a Program without rows. Out: Lines, the two innermost axes of a stage whose reads overlap from
one line to the next, and by how much; what a thread with several lines one below the other would
load. A register tile of them loads, converts and addresses once what all of its lines read. Must
not know threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import Address, Frame
from tvm_stitch.kernel.analysis.strided_loads import plan_loads
from tvm_stitch.kernel.analysis.vector_loads import VectorAccess, VectorLoad
from tvm_stitch.kernel.codegen.tir_builder import divided
from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.guards import conjuncts
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    element_bytes,
    same_size,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

FEWEST = 3  # loads of a stage from one buffer, of which lines may share some
SHARED = 0.75  # of the loads of single lines, at most so many are left
OF_WINDOWS = 4  # conditions that a read of one may have: the ends of two axes
LINES = (4, 7, 6, 5, 3, 2, 1)  # of a tile, the best first
FEWEST_EXACT = 3  # if fewer divide the lines of an image, tiles at its end have fewer than others
REGISTER_BYTES = 4
# Which group of lines a thread has, and which piece of each: what positions are written in.
GROUP, PIECE = tirx.Var("group", "int64"), tirx.Var("piece", "int64")


@dataclass(frozen=True)
class Lines:
    """The innermost axis of a stage, and how many lines along it lie one below the other."""

    inner: int
    across: int


@dataclass(frozen=True)
class RegisterTile(Flat):
    """The same, where a thread has several lines that share what they read."""

    lines: int = 1
    kind = "register tile"

    @property
    def reach(self) -> int:
        """Elements that one block covers."""
        return self.lines * super().reach

    @property
    def elements(self) -> int:
        """Elements that a thread has at once."""
        return self.lines * super().elements

    def __str__(self) -> str:
        """One line for people."""
        return f"{super().__str__()} for each of {self.lines} lines, which share loads"


class Tile:
    """So many lines of a thread, in terms of their group and of the piece of each."""

    def __init__(self, program: Program, lines: Lines, count: int, vector: int) -> None:
        self._program, self._lines = program, lines
        self.count, self.vector = count, vector
        self.pieces = lines.inner // vector
        self.memo: dict[Hashable, Any] = {}

    @property
    def _groups(self) -> int:
        """Groups that the lines of an image fall into."""
        return -(-self._lines.across // self.count)

    @property
    def last(self) -> int:
        """Lines of the last group of an image."""
        return self._lines.across - (self._groups - 1) * self.count

    @property
    def is_last(self) -> Expr:
        """Whether a group is the last one of its image."""
        return tirx.EQ(divided(GROUP, self._groups)[1], int64(self._groups - 1))

    @cached_property
    def groups(self) -> Expr:
        """Groups of all images."""
        images = tirx.floordiv(self._program.space.columns, self._lines.inner * self._lines.across)
        return images * self._groups

    @cached_property
    def _analyzer(self) -> tvm.sym.Analyzer:
        analyzer = tvm.sym.Analyzer()
        analyzer.bind(GROUP, tvm.ir.Range(int64(0), self.groups))
        analyzer.bind(PIECE, tvm.ir.Range(int64(0), int64(self.pieces)))
        return analyzer

    def column(self, line: int) -> Expr:
        """Of a line, the first that the thread has."""
        row = GROUP * self.count + line
        if self.last < self.count:
            image, group = divided(GROUP, self._groups)
            row = image * self._lines.across + group * self.count + line
        return row * self._lines.inner + PIECE * self.vector

    def simplified(self, expr: Expr) -> Expr:
        """An expression of the group and the piece of threads that have any."""
        return self._analyzer.simplify(expr)

    @memoized
    def start(self, load: VectorLoad, line: int, part: int = 0) -> Expr:
        """Where a part of a vector begins, of as many lanes as are loaded at once."""
        lane = part * load.lanes
        read, axes = self._origin(load, line, lane)
        if read is None:
            return self.simplified(load.at(int64(0), self.column(line) + lane))
        return self.simplified(substitute(read.place, axes))

    @memoized
    def guard(
        self, load: VectorLoad, access: VectorAccess, line: int, part: int = 0
    ) -> Expr | None:
        """What must hold for an access of it; None: nothing."""
        if access.guard is None:
            return None
        lane = part * load.lanes
        read, axes = self._origin(load, line, lane)
        if read is None:
            found = self.simplified(access.guard_at(int64(0), self.column(line) + lane))
        else:
            found = self.simplified(substitute(read.guard, axes))
        return None if constant(found) == 1 else found

    def _origin(
        self, load: VectorLoad, line: int, lane: int
    ) -> tuple[Read | None, dict[Var, Expr]]:
        """The read that a load of neighbours is, and its stage's axes, if these lines are its own.

        Of a column, TVM does not see that the lines of a group lie in one image and row of it.
        """
        origin = load.address.origin
        if origin is None or not load.is_of_one_address:
            return None, {}
        (stage, read), lines = origin, self._lines
        if tuple(map(constant, stage.extents[-2:])) != (lines.across, lines.inner):
            return None, {}
        outer, group = divided(GROUP, self._groups)
        axes = unflatten(outer, stage.axes[:-2], stage.extents[:-2])
        axes[stage.axes[-2]] = group * self.count + line
        axes[stage.axes[-1]] = PIECE * self.vector + lane
        return read, axes

    def key(self, load: VectorLoad, line: int) -> object:
        """Equal for vectors of the same elements under the same conditions.

        Not all of a stretch need be loaded: another stage may read on from where this one ends.
        """
        start = tvm_ffi.StructuralKey(self.start(load, line))
        guards = [self.guard(load, access, line) for access in load.accesses]
        accesses = [
            (access.first, access.width, None if guard is None else tvm_ffi.StructuralKey(guard))
            for access, guard in zip(load.accesses, guards, strict=True)
        ]
        return load.address.buffer, load.size, start, *accesses

    def registers(self, stages: Iterable[Stage]) -> int:
        """What the distinct vectors of some stages take that come from memory."""
        found: dict[object, int] = {}
        for stage in stages:
            found |= self._registers_of(stage)
        return sum(found.values())

    def _registers_of(self, stage: Stage) -> dict[object, int]:
        """The same of each vector of a stage, by its key."""
        frame = Frame(self._program)
        addresses = list(_addresses(frame, stage))
        read, tile = tuple(address.key for address in addresses), (self.count, self.vector)
        key = "registers", self._program.space.key, self._lines, *tile, read
        return remembered(stage, key, lambda: self._vectors(frame, addresses))

    def _vectors(self, frame: Frame, addresses: Iterable[Address]) -> dict[object, int]:
        found: dict[object, int] = {}
        for load in plan_loads(frame, addresses, self.vector):
            size = load.elements(self.vector) * element_bytes(load.address.buffer)
            for line in range(self.count):
                found[self.key(load, line)] = -(-size // REGISTER_BYTES)
        return found


@memoized
def find_lines(program: Program) -> Lines | None:
    """The lines of the first stage whose reads of a buffer may overlap, if there is one."""
    if program.reduces:
        return None
    frame = Frame(program)
    for stage in program.stages:
        across, inner = ([None, None, *map(constant, stage.extents)])[-2:]
        counts: dict[Var, set[object]] = {}
        for address in _addresses(frame, stage):
            if address.guard is not None and len(conjuncts(address.guard)) > OF_WINDOWS:
                return None
            counts.setdefault(address.buffer, set()).add(address.key)
        many = max(map(len, counts.values()), default=0) >= FEWEST
        if many and across and inner and same_size(stage.size, program.space.size):
            return Lines(inner, across)
    return None


@memoized
def tile_of(program: Program, count: int, vector: int) -> Tile:
    """The tile of so many lines, and elements of each, of a program that has lines."""
    lines = find_lines(program)
    assert lines is not None, "a register tile of a program whose reads do not overlap"
    return Tile(program, lines, count, vector)


def lines_at_once(program: Program, vector: int, most_registers: int, most: float) -> Iterator[int]:
    """How many lines of a thread are worth it, the best first: they share loads, and fit."""
    lines = find_lines(program)
    if lines is None or lines.inner % vector:
        return
    counts = [count for count in _counts(lines.across) if count <= most]
    if not counts:
        return
    alone = tile_of(program, 1, vector).registers(program.stages)
    for count in counts:
        together = tile_of(program, count, vector)
        needed = max(map(together.registers, ([stage] for stage in program.stages)))
        # One line alone, too, where it loads more than fits: stage by stage.
        shares = together.registers(program.stages) <= SHARED * count * alone
        if (shares or alone > most_registers) and needed + count * vector <= most_registers:
            yield count


def _counts(across: int) -> list[int]:
    """How many of the lines of an image a tile may have: no last one, or one that is half full."""
    exact = [count for count in LINES if across % count == 0]
    if exact[0] >= FEWEST_EXACT:
        return exact
    return [count for count in LINES if count < across and 2 * (across % count) >= count] + exact


def _addresses(frame: Frame, stage: Stage) -> Iterator[Address]:
    """What a stage reads of inputs, in vectors or one by one."""
    inputs = set(frame.program.inputs)
    return (frame.address(stage, read) for read in stage.reads if read.buffer in inputs)
