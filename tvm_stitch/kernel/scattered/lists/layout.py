"""How much room the updates of a block's rows take: in its list, and on their way to it.

In: a scattered reduction, the Space of its program, its Mapping. Out: plain numbers. Must not know
what updates are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row, turns_of
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, power_of_two
from tvm_stitch.kernel.scattered.lists import chunk_layout
from tvm_stitch.kernel.scattered.lists.chunk_layout import WORD_BYTES, ChunkLayout
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import Expr, constant, element_bytes, item_bytes

LIST_BYTES = 1 << 17  # at most
NUMBER_BITS = 32  # of an update, where only run time knows how many there are
DTYPES = ("int32", "int64")  # of entries
# Of a list that is one of several, how much of its room entries take on an average: they are sorted
# from one half into the other, and some rows are sent more than others.
FILLED = 0.47


@dataclass(frozen=True)
class ListLayout:
    """How much a list has room for, and how its entries are written."""

    groups: int  # of blocks, each of which has rows of its own
    turns: int  # of all groups, and how far apart the rows of one are
    iterations: int  # of a block
    listed: int  # of these, how many a list is for
    rows: int  # of a list
    room: int  # entries
    bits: int  # of an entry, that number the update
    dtype: str  # of an entry
    chunks: ChunkLayout | None  # that blocks sort out for each other; None: all scan all indices

    @property
    def lists(self) -> int:
        """How many a block makes, one after the other."""
        return -(-self.iterations // self.listed)

    @property
    def bytes(self) -> int:
        """Shared memory of a block: the entries and what is counted beside them."""
        return self.room * item_bytes(self.dtype) + WORD_BYTES * self.counters

    @property
    def ranges(self) -> int:
        """Numbers that say where the entries of rows are, and the counter."""
        return 2 * self.rows + 1

    @property
    def sums(self) -> int:
        """Where the sums of warps begin, behind the ranges."""
        return self.ranges

    @property
    def chunks_start(self) -> int:
        """Where the numbers of chunks begin."""
        return self.sums + WARP

    @property
    def counters(self) -> int:
        """Numbers beside the entries."""
        return self.chunks_start + (self.chunks.counters if self.chunks else 0)


def list_layouts(
    scattered: Sequence[ScatteredReduction], space: Space, mapping: Mapping
) -> tuple[ListLayout, ...]:
    """The lists of a block, which are for the same iterations.

    Where blocks sort out the indices for each other, they may make several lists of few iterations
    each; who scans all indices does so once, if there is room.
    """
    turns = turns_of(space, mapping)
    groups = mapping.blocks // blocks_of_row(space, mapping)
    iterations = -(-turns // groups)
    listed = iterations
    if mapping.partitioned:
        most = max((constant(each.count) or 0 for each in scattered), default=0)
        listed = _listed(most, turns, iterations, mapping)
    columns = constant(space.columns) or 0
    return tuple(
        _layout(each, columns, (groups, turns, iterations, listed), mapping) for each in scattered
    )


def _listed(count: int, turns: int, iterations: int, mapping: Mapping) -> int:
    """For how many iterations a list has room, to spare, of a sum of so many updates."""
    own = iterations
    for dtype in DTYPES:
        room = int(FILLED * LIST_BYTES) // item_bytes(dtype)
        own = max(1, min(iterations, room * turns // max(1, count)))
        if _dtype(_bits(count), own * mapping.rows) == dtype:
            break
    return own


def _bits(count: int) -> int:
    """Of numbers of so many updates, and of sums of some."""
    numbers = count + (2 * count + chunk_layout.ALIGNED) // chunk_layout.HOT
    return max(1, (numbers - 1).bit_length())


def _layout(
    wanted: ScatteredReduction, columns: int, shares: tuple[int, int, int, int], mapping: Mapping
) -> ListLayout:
    """The list of a sum: where it can be, it has room for all updates."""
    groups, _turns, iterations, listed = shares
    count = constant(wanted.count)
    bits = NUMBER_BITS if count is None else _bits(count)
    rows, all_rows = (each * mapping.rows for each in (listed, iterations))
    hot = chunk_layout.most_hot(count, mapping.blocks) if mapping.partitioned else 0
    dtype = _dtype(bits, max(rows, hot))
    most = LIST_BYTES // item_bytes(dtype)
    room = most if count is None else min(most, power_of_two(count))
    chunks = None
    if mapping.partitioned:
        number: int | Expr = wanted.count if count is None else count
        room_bytes = room * item_bytes(dtype)
        sum_bytes = columns * element_bytes(wanted.stage.output)
        chunks = chunk_layout.chunk_layout(
            number, groups, mapping.blocks, _dtype(bits, all_rows), room_bytes, sum_bytes
        )
    return ListLayout(*shares, rows, room, bits, dtype, chunks)


def _dtype(bits: int, rows: int) -> str:
    """Of entries that number updates in so many bits, and so many rows."""
    return "int32" if bits + rows.bit_length() < NUMBER_BITS else "int64"
