"""Transposed reads of element-wise programs: which tiles of memory serve them.

In: a Program without reductions. Out: a Tiling: the axes along which what is written and what is
read lie side by side in memory. Must not know what is computed.

A kernel that writes along one axis and reads along another has one of the two scattered. A block
therefore takes a tile: it reads whole lines along the one axis into shared memory, waits at a
barrier, and goes on along the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW, Address, Frame, Stride
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, Transposed, power_of_two
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.indices import may_follow
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    constant,
    element_bytes,
    product,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

LINE_BYTES = 128  # of memory, that a tile reads and writes side by side
BANK_BYTES, BANKS_BYTES = 4, 128
# Shorter axes are as well read where they lie: neighbours are in the same lines of the L1.
SHORTEST = 8
MOST_TILES = 3
# Elements of a tile. Measured on an H200: channels first to last, 8 x 320 x 64 x 64 float32, takes
# 22.1 us with so many and 23.5 with a quarter; half or twice as many cost float16 up to a tenth.
TILE_ELEMENTS = 4096
# Of a tile, for each thread: keys of 32 x 128 x 12 x 64 float16 take 4.5 us with so many, 4.7 with
# half; channels last to first, 8 x 64 x 64 x 320 float16, 12.2 and 12.7.
THREAD_BYTES = 64

OUTER, ACROSS, MIDDLE, INNER = (
    tirx.Var(name, "int64") for name in ("outer", "across", "middle", "inner")
)


@dataclass(frozen=True, eq=False)
class Tiling:
    """Columns as (outer, across, middle, inner): neighbours in `inner` are written side by side.

    What the addresses read lies side by side in `across`; `vectors` has the elements that one
    access may take there. Where that axis is short, as the taps of a convolution's weights, and its
    lines follow each other in memory, `runs` has what an access may take of all of them; else 0.
    """

    across: int
    middle: int
    inner: int
    addresses: tuple[Address, ...]
    indices: tuple[Expr, ...]  # of the addresses, in OUTER, ACROSS, MIDDLE and INNER
    vectors: tuple[int, ...]
    runs: tuple[int, ...] = ()

    def column(self, outer: Expr, across: Expr, middle: Expr, inner: Expr) -> Expr:
        """The column of an element."""
        return ((outer * self.across + across) * self.middle + middle) * self.inner + inner


def tile_mapping(tiling: Tiling, vector: int) -> Transposed:
    """Lines both ways where the axes are that long; enough of them to hide latency."""
    while tiling.inner % vector:
        vector //= 2
    narrowest = min(element_bytes(address.buffer) for address in tiling.addresses)
    item = max(2, narrowest)
    line = LINE_BYTES // item
    threads = TILE_ELEMENTS * item // THREAD_BYTES
    steps = max(1, TILE_ELEMENTS // (threads * vector))
    inner = min(line, power_of_two(tiling.inner))
    across = min(TILE_ELEMENTS // inner, power_of_two(tiling.across))
    tile = TILE_ELEMENTS // across
    return Transposed(threads, vector, steps, tile=tile)


def tile_rows(mapping: Mapping) -> int:
    """Elements of a tile along `across`; along `inner` there are mapping.tile."""
    return mapping.reach // mapping.tile


def tile_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory that a block needs for its tiles."""
    tiling = find_tiling(program) if mapping.tile else None
    if tiling is None:
        return 0
    return sum(
        tile_size(tiling, number, mapping) * element_bytes(address.buffer)
        for number, address in enumerate(tiling.addresses)
    )


def tile_size(tiling: Tiling, number: int, mapping: Mapping) -> int:
    """Elements that one address's tile has room for."""
    if run_of(tiling, number, mapping):
        groups = mapping.tile // mapping.vector
        return mapping.tile * tiling.across + groups * run_margin(tiling, number, mapping)
    return mapping.tile * pitch_of(tiling.addresses[number].buffer, mapping)


def run_of(tiling: Tiling, number: int, mapping: Mapping) -> int:
    """Elements of an access to a tile that is one run of memory; 0: it is lines of it."""
    run = tiling.runs[number]
    is_whole = tile_rows(mapping) >= tiling.across
    return run if run and is_whole and mapping.tile * tiling.across % run == 0 else 0


def run_margin(tiling: Tiling, number: int, mapping: Mapping) -> int:
    """Elements behind the lines that a thread reads a vector of, whose banks are then others."""
    item = element_bytes(tiling.addresses[number].buffer)
    taken = tiling.across * mapping.vector
    even = [taken * item % BANK_BYTES, 1 - taken * item // BANK_BYTES % 2]
    if item > BANK_BYTES or not any(even):
        return 0
    return next(
        more
        for more in range(1, BANKS_BYTES)
        if (taken + more) * item % BANK_BYTES == 0 and (taken + more) * item // BANK_BYTES % 2
    )


def pitch_of(buffer: Var, mapping: Mapping) -> int:
    """From one inner place of a tile to the next: a bank further, so that columns spread too."""
    if shuffled(buffer, mapping):
        return tile_rows(mapping)
    return tile_rows(mapping) + BANK_BYTES // min(BANK_BYTES, element_bytes(buffer))


def shuffled(buffer: Var, mapping: Mapping) -> int:
    """Elements that stay side by side where the lines of a tile are shuffled; 0: they are not.

    The threads of a warp that read along `inner` take every so many lines of the tile. If each of
    them finds its line's pieces in another order, their banks differ, and pieces can still be
    written as vectors, for which a pitch of an odd number of banks leaves no room.
    """
    item = element_bytes(buffer)
    readers = min(WARP, mapping.tile // mapping.vector)
    even = readers == power_of_two(readers) and tile_rows(mapping) * item % BANKS_BYTES == 0
    return BANKS_BYTES // (readers * item) if even and item > 1 else 0


def neighbours(tiling: Tiling, mapping: Mapping) -> int:
    """Lines side by side of which a thread writes its pieces: two halves share a bank."""
    buffers = [address.buffer for address in tiling.addresses]
    if all(element_bytes(buffer) >= BANK_BYTES for buffer in buffers):
        return 1
    pieces = [shuffled(buffer, mapping) for buffer in buffers]
    counts = [tiling.across, tile_rows(mapping), mapping.steps, *pieces]
    return 1 if any(count % 2 for count in counts) else 2


def place_in_run(tiling: Tiling, number: int, mapping: Mapping, element: Expr) -> Expr:
    """Where a tile that is one run of memory has an element of it."""
    taken = tiling.across * mapping.vector
    return element + tirx.floordiv(element, taken) * run_margin(tiling, number, mapping)


def place_in_tile(tiling: Tiling, number: int, mapping: Mapping, inner: Expr, across: Expr) -> Expr:
    """Where an address's tile has an element."""
    if run_of(tiling, number, mapping):
        return place_in_run(tiling, number, mapping, inner * tiling.across + across)
    buffer = tiling.addresses[number].buffer
    piece = shuffled(buffer, mapping)
    if piece:
        readers = min(WARP, mapping.tile // mapping.vector)
        reader = tirx.floormod(tirx.floordiv(inner, mapping.vector), readers)
        number, rest = tirx.floordiv(across, piece), tirx.floormod(across, piece)
        across = tirx.bitwise_xor(number, reader) * piece + rest
    return inner * pitch_of(buffer, mapping) + across


@memoized
def find_tiling(program: Program) -> Tiling | None:
    """The tiling that serves most transposed reads of a program, if it has any."""
    addresses = [] if program.reduces else _scattered(program)
    splits = _splits(program) if addresses else ()
    tilings = (_tiling(program, addresses, *split) for split in splits)
    return max((tiling for tiling in tilings if tiling is not None), key=_worth, default=None)


def tiling_of(program: Program) -> Tiling:
    """The tiling of a program that a legal Mapping with tiles was made for."""
    tiling = find_tiling(program)
    assert tiling is not None, "tiles of a program that reads nothing transposed"
    return tiling


def _worth(tiling: Tiling) -> tuple[int, int, int]:
    """Many reads served, lines filled both ways."""
    lines = min(tiling.inner, LINE_BYTES) * min(tiling.across, LINE_BYTES)
    return len(tiling.addresses), lines, tiling.inner


def _scattered(program: Program) -> list[Address]:
    """Reads of inputs whose neighbours do not lie side by side."""
    frame, inputs, found = Frame(program), set(program.inputs), {}
    for stage, read in program.reads_at(Where.OTHER):
        if read.buffer not in inputs:
            continue
        address = frame.address(stage, read)
        plain = address.guard is None and not read.guarded and not address.from_memory
        if plain and address.stride in (Stride.GATHER, Stride.BROADCAST):
            found[address.key] = address
    return list(found.values())


def _splits(program: Program) -> Iterator[tuple[int, int, int]]:
    """Ways to see the columns as outer, across, middle and inner, from the stages' own axes."""
    seen = set()
    for stage in program.stages:
        extents = stage.extents
        for start in range(len(extents) - 1, 0, -1):
            inner = constant(product(extents[start:]))
            for end in range(start, 0, -1):
                middle = constant(product(extents[end:start]))
                for first in range(end):
                    across = constant(product(extents[first:end]))
                    if inner and middle and across and min(inner, across) >= SHORTEST:
                        seen.add((across, middle, inner))
    yield from sorted(seen)


def _tiling(
    program: Program, addresses: list[Address], across: int, middle: int, inner: int
) -> Tiling | None:
    tiling = Tiling(across, middle, inner, (), (), ())
    analyzer = tvm.sym.Analyzer()
    outer = tirx.floordiv(program.space.columns, across * middle * inner)
    if constant(program.space.columns) is not None and not constant(analyzer.simplify(outer)):
        return None
    extents = {OUTER: outer, ACROSS: across, MIDDLE: middle, INNER: inner}
    for var, extent in extents.items():
        analyzer.bind(var, tvm.ir.Range(int64(0), as_int64(extent)))
    column = tiling.column(OUTER, ACROSS, MIDDLE, INNER)
    served: list[tuple[Address, Expr, int, int]] = []
    for address in addresses:
        at = substitute(address.index, {COLUMN: column})
        if not may_follow(at, ACROSS, (1, across - 1), (OUTER, MIDDLE, INNER, ROW)):
            continue
        index = analyzer.simplify(at)
        if _side_by_side(analyzer, index, across) and _scattered_along(analyzer, index, inner):
            vector = _vector(address, index, analyzer, across)
            run = _run(address, index, analyzer, tiling)
            served.append((address, index, vector, run if run > vector else 0))
    if not served:
        return None
    kept = served[:MOST_TILES]
    own, indices, vectors, runs = (tuple(each) for each in zip(*kept, strict=True))
    return Tiling(across, middle, inner, own, indices, vectors, runs)


def _side_by_side(analyzer: tvm.sym.Analyzer, index: Expr, across: int) -> bool:
    first = substitute(index, {ACROSS: int64(0)})
    return analyzer.can_prove_equal(index - first, ACROSS)


def _scattered_along(analyzer: tvm.sym.Analyzer, index: Expr, inner: int) -> bool:
    """Whether neighbours in the inner axis are other elements, and not the next ones."""
    first, places = substitute(index, {INNER: int64(0)}), (1, inner - 1)
    may = partial(may_follow, index, INNER, places, (OUTER, ACROSS, MIDDLE, ROW))
    stays = may(times=0) and analyzer.can_prove_equal(index, first)
    return not stays and not (may() and analyzer.can_prove_equal(index - first, INNER))


def _vector(address: Address, index: Expr, analyzer: tvm.sym.Analyzer, across: int) -> int:
    """Elements that one access may take along `across`."""
    return _widest(address, substitute(index, {ACROSS: int64(0)}), analyzer, across)


def _run(address: Address, index: Expr, analyzer: tvm.sym.Analyzer, tiling: Tiling) -> int:
    """The same where lines along `across` follow each other along `inner`; 0: they do not."""
    first = substitute(index, {ACROSS: int64(0), INNER: int64(0)})
    if not analyzer.can_prove_equal(index - first, INNER * tiling.across + ACROSS):
        return 0
    return _widest(address, first, analyzer, tiling.across * tiling.inner)


def _widest(address: Address, start: Expr, analyzer: tvm.sym.Analyzer, extent: int) -> int:
    """Elements that one access may take of so many, which begin there."""
    vector = ACCESS_BYTES // element_bytes(address.buffer)
    modular = analyzer.modular_set(analyzer.simplify(start))
    while vector > 1 and (extent % vector or modular.coeff % vector or modular.base % vector):
        vector //= 2
    return vector
