"""How much room the updates of a block's rows take: in its list, and on their way to it.

In: a scattered sum, the Space of its program, its Mapping. Out: plain numbers. Must not know what
updates are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, power_of_two
from tvm_stitch.stages.patterns.scattered_sum import ScatteredSum
from tvm_stitch.stages.stage import constant, item_bytes

LIST_BYTES = 1 << 17  # at most
NUMBER_BITS = 32  # of an update, where only run time knows how many there are
WORD_BYTES = 4  # of a workspace
ALIGNED = 64  # words: what a sum has in a workspace starts in a sector of its own


@dataclass(frozen=True)
class ListLayout:
    """How much a list has room for, and how its entries are written."""

    groups: int  # of blocks, each of which has rows of its own
    iterations: int  # of a block
    rows: int  # of a block, in all iterations
    room: int  # entries
    bits: int  # of an entry, that number the update
    dtype: str  # of an entry
    chunk: int  # indices that a block sorts by the groups that they go to; 0: all scan all
    chunks: int

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
        return _aligned(self.chunks * self.chunk * item_bytes(self.dtype) // WORD_BYTES)

    @property
    def words(self) -> int:
        """The same with the table that says where each group's are: by group, then by chunk."""
        return self.sorted_words + _aligned((self.groups + 1) * self.chunks)


def list_layout(wanted: ScatteredSum, space: Space, mapping: Mapping) -> ListLayout:
    """The list of a block: where it can be, it has room for all updates."""
    steps = -(-(constant(space.rows) or 0) // mapping.rows)
    groups = mapping.blocks // blocks_of_row(space, mapping)
    iterations = -(-steps // groups)
    rows, count = iterations * mapping.rows, constant(wanted.count)
    bits = NUMBER_BITS if count is None else max(1, (count - 1).bit_length())
    dtype = "int32" if bits + rows.bit_length() < NUMBER_BITS else "int64"
    most = LIST_BYTES // item_bytes(dtype)
    room = most if count is None else min(most, power_of_two(count))
    chunk = 0
    if count and mapping.partitioned:
        chunk = min(-(-count // mapping.blocks), room)
    chunks = -(-(count or 0) // chunk) if chunk else 0
    return ListLayout(groups, iterations, rows, room, bits, dtype, chunk, chunks)


def _aligned(words: int) -> int:
    return -(-words // ALIGNED) * ALIGNED
