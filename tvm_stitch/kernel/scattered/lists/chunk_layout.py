"""Chunks of the indices, each of which a block sorts out for all others, and what it leaves of it.

In: how many updates there are, the blocks. Out: plain numbers; of updates whose number only run
time knows, expressions. Must not know what updates are made of.

A workspace has the entries of all chunks first, then sums of rows that many updates of a chunk go
to, then the table that says where each group's entries are: by group, then by chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.ir.mapping import power_of_two
from tvm_stitch.stages.stage import Expr, as_int64, item_bytes

WORD_BYTES = 4  # of a workspace
ALIGNED = 64  # words: what has a part of a workspace starts in a sector of its own
# Indices of a chunk, where only run time knows how many there are.
CHUNK = 2048
# Updates of one row in a chunk, from which on who sorts it out adds them up.
HOT = 8
# Rows are counted in bins, so many for each index that few have one by chance; where there are not
# as many, more updates make a row.
BINS_OF_INDEX = 4
MOST_BINS = 1 << 13


@dataclass(frozen=True)
class ChunkLayout:
    """How much a block sorts out at once."""

    groups: int  # of blocks, to which entries go
    size: int  # indices of a chunk
    count: int | Expr  # of chunks
    sent: str  # type of an entry that one block sends another
    bins: int  # in which updates are counted by rows
    least: int  # updates of a row that are added up
    hot: int  # rows of a chunk that may have as many; 0: none have
    sum_words: int  # of the sums of a row

    # Numbers in shared memory, one behind the other.
    @property
    def bins_start(self) -> int:
        """Behind the numbers of what is sent to each group, and of all."""
        return self.groups + 1

    @property
    def leaders_start(self) -> int:
        """Of each hot row an update that says which it is."""
        return self.bins_start + self.bins

    @property
    def ranges_start(self) -> int:
        """Where the updates of hot rows are in their list, and how many are listed."""
        return self.leaders_start + self.hot

    @property
    def found_start(self) -> int:
        """How many hot rows there are."""
        return self.ranges_start + 2 * self.hot + 1

    @property
    def counters(self) -> int:
        """All of these."""
        return self.found_start + 1 if self.hot else self.bins_start

    # Words of a workspace.
    @property
    def entry_words(self) -> int | Expr:
        """All chunks' entries."""
        return _aligned(self.count * (self.size * item_bytes(self.sent) // WORD_BYTES))

    @property
    def all_sum_words(self) -> int | Expr:
        """Sums of all chunks."""
        return self.count * self.chunk_sum_words

    @property
    def chunk_sum_words(self) -> int:
        """Sums of a chunk."""
        return int(_aligned(self.hot * self.sum_words))

    @property
    def table_words(self) -> int | Expr:
        """The table."""
        return _aligned((self.groups + 1) * self.count)

    @property
    def words(self) -> int | Expr:
        """All of a sum."""
        return self.entry_words + self.all_sum_words + self.table_words


def chunk_layout(
    count: int | Expr, groups: int, blocks: int, sent: str, room_bytes: int, sum_bytes: int
) -> ChunkLayout:
    """Of so many updates; `sum_bytes`, of a row."""
    known = count if isinstance(count, int) else None
    size = min(_size(known, blocks), room_bytes // item_bytes(sent))
    chunks = _shared_out(as_int64(count), size) if known is None else -(-known // size)
    least = _least(size)
    hot = size // least
    bins = min(MOST_BINS, power_of_two(BINS_OF_INDEX * size)) if hot else 0
    sum_words = -(-sum_bytes // WORD_BYTES)
    return ChunkLayout(groups, size, chunks, sent, bins, least, hot, sum_words)


def most_hot(count: int | None, blocks: int) -> int:
    """How many rows of a chunk may have as many updates as are added up."""
    return _size(count, blocks) // HOT


def _size(count: int | None, blocks: int) -> int:
    return CHUNK if count is None else max(ALIGNED, -(-count // blocks))


def _least(size: int) -> int:
    return HOT * max(1, BINS_OF_INDEX * size // MOST_BINS)


def _shared_out(number: Expr, each: int) -> Expr:
    """How many pieces it takes."""
    return tirx.floordiv(number + (each - 1), each)


def _aligned(words: int | Expr) -> int | Expr:
    if isinstance(words, int):
        return -(-words // ALIGNED) * ALIGNED
    return _shared_out(words, ALIGNED) * ALIGNED
