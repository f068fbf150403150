"""How much room the updates of a block's rows take: in its list, and on their way to it.

In: a scattered sum, the Space of its program, its Mapping. Out: plain numbers. Must not know what
updates are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, power_of_two
from tvm_stitch.stages.patterns.scattered_sum import ScatteredSum
from tvm_stitch.stages.stage import constant, item_bytes

LIST_BYTES = 1 << 17  # at most
NUMBER_BITS = 32  # of an update, where only run time knows how many there are
WORD_BYTES = 4  # of a workspace
DTYPES = ("int32", "int64")  # of entries
# Of a list that is one of several, the room over what it has on an average: entries are sorted from
# one half into the other, and some rows are sent more than others.
SPARE = 4
ALIGNED = 64  # words: what a sum has in a workspace starts in a sector of its own


@dataclass(frozen=True)
class ListLayout:
    """How much a list has room for, and how its entries are written."""

    groups: int  # of blocks, each of which has rows of its own
    iterations: int  # of a block
    listed: int  # of these, how many a list is for
    rows: int  # of a list
    room: int  # entries
    bits: int  # of an entry, that number the update
    dtype: str  # of an entry
    sent: str  # type of an entry that one block sends another
    chunk: int  # indices that a block sorts by the groups that they go to; 0: all scan all
    chunks: int

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
    def owners(self) -> int:
        """Where the numbers of what is sent to each group begin, and where these end."""
        return self.sums + WARP

    @property
    def counters(self) -> int:
        """Numbers beside the entries."""
        return self.owners + (self.groups + 1 if self.chunk else 0)

    @property
    def chunks_at_once(self) -> int:
        """Of how many chunks there is room for all entries."""
        return self.room // self.chunk

    @property
    def sorted_words(self) -> int:
        """Of a workspace, the words of all chunks' entries."""
        return _aligned(self.chunks * self.chunk * item_bytes(self.sent) // WORD_BYTES)

    @property
    def words(self) -> int:
        """The same with the table that says where each group's are: by group, then by chunk."""
        return self.sorted_words + _aligned((self.groups + 1) * self.chunks)


def list_layouts(
    scattered: Sequence[ScatteredSum], space: Space, mapping: Mapping
) -> tuple[ListLayout, ...]:
    """The lists of a block, which are for the same iterations.

    Where blocks sort out the indices for each other, they may make several lists of few iterations
    each; who scans all indices does so once, if there is room.
    """
    steps = -(-(constant(space.rows) or 0) // mapping.rows)
    groups = mapping.blocks // blocks_of_row(space, mapping)
    iterations = -(-steps // groups)
    counts = [constant(each.count) for each in scattered]
    listed = iterations
    if mapping.partitioned:
        most = max((count or 0 for count in counts), default=0)
        listed = _listed(most, steps, iterations, mapping)
    return tuple(_layout(count, groups, iterations, listed, mapping) for count in counts)


def _listed(count: int, steps: int, iterations: int, mapping: Mapping) -> int:
    """For how many iterations a list has room, to spare, of a sum of so many updates."""
    own = iterations
    for dtype in DTYPES:
        room = LIST_BYTES // item_bytes(dtype) // SPARE
        own = max(1, min(iterations, room * steps // max(1, count)))
        if _dtype(_bits(count), own * mapping.rows) == dtype:
            break
    return own


def _bits(count: int) -> int:
    """Of numbers of so many updates."""
    return max(1, (count - 1).bit_length())


def _layout(
    count: int | None, groups: int, iterations: int, listed: int, mapping: Mapping
) -> ListLayout:
    """The list of a sum of so many updates: where it can be, it has room for all."""
    bits = NUMBER_BITS if count is None else _bits(count)
    rows = listed * mapping.rows
    dtype, sent = (_dtype(bits, own * mapping.rows) for own in (listed, iterations))
    most = LIST_BYTES // item_bytes(dtype)
    room = most if count is None else min(most, power_of_two(count))
    chunk = 0
    if count and mapping.partitioned:
        chunk = min(-(-count // mapping.blocks), room)
    chunks = -(-(count or 0) // chunk) if chunk else 0
    return ListLayout(
        groups, iterations, listed, rows, room, bits, dtype, sent, chunk, chunks
    )  # fmt: skip


def _dtype(bits: int, rows: int) -> str:
    """Of entries that number updates in so many bits, and so many rows."""
    return "int32" if bits + rows.bit_length() < NUMBER_BITS else "int64"


def _aligned(words: int) -> int:
    return -(-words // ALIGNED) * ALIGNED
