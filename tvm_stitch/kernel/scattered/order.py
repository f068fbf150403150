"""Updates sorted by the rows that they go to: a kernel that is launched before others read them.

In: how many updates and rows there are, the dtype of the indices; of several sorts at once; the
Device. Out: a scheduled PrimFunc, which depends on indices alone, not on the order in which threads
run. Must not know what is done with the updates of a row, nor where the indices come from.

A radix sort from the least significant digit on, in one cooperative launch; several side by side
share its barriers. In each pass a block has a contiguous chunk of the sequence, and each of its
warps a contiguous part of that. Warps count their digits, blocks leave their totals for all others,
and behind a barrier of the grid everyone knows where each of its digits begins. Pairs of row and
update go from one ping-pong buffer to the other. Blocks are many for what they write goes anywhere:
for 40000 updates of 5600 rows an H200 takes 16.7 us in 40 blocks, and 29 in the 8 of a cluster,
whose barriers are sooner done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.prim_func import (
    MULTIPROCESSORS_ATTRIBUTE,
    bound,
    kernel_function,
    on_threads,
    signature,
)
from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP
from tvm_stitch.kernel.scattered.lists.indices import IN_CUDA, int32
from tvm_stitch.kernel.scattered.lists.radix_sort import (
    CLEAR,
    COUNT,
    PLACE,
    RANGES,
    ROW,
    STARTS,
)
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

THREADS = MAX_BLOCK_THREADS
WARPS = THREADS // WARP
# A histogram for each warp, of 32 bits for each digit, fits into static shared memory.
DIGIT_BITS = 8
AHEAD = 4  # updates of a thread whose loads are on their way at once
# Threads that share the totals of a digit: each has a part of the blocks.
PARTS = 8
SORT_ATTRIBUTE = "tvm_stitch.sort"
PASS_US = 6.0  # of a pass without its barriers, of 40000 updates


@dataclass(frozen=True)
class Sort:
    """So many updates, by so many rows, which indices of a type name."""

    count: int
    rows: int
    dtype: str

    @property
    def passes(self) -> int:
        """Over all digits."""
        return -(-self._bits // DIGIT_BITS)

    @property
    def bits(self) -> int:
        """Of a digit."""
        return -(-self._bits // self.passes)

    @property
    def _bits(self) -> int:
        return self.rows.bit_length()  # of numbers up to `rows`, which is that of no row

    @property
    def parts(self) -> int:
        """Threads that share the totals of a digit."""
        return min(PARTS, THREADS >> self.bits)

    @property
    def shared_words(self) -> int:
        """Histograms of warps, sums of digits and those of warps."""
        return ((WARPS + 2 * self.parts) << self.bits) + WARPS


@dataclass(frozen=True)
class Share:
    """A sort's blocks among those of a kernel, and where it has its own in the workspace."""

    sort: Sort
    turns: int  # updates of a thread
    first: int  # of its blocks
    start: int

    @property
    def blocks(self) -> int:
        """Each with a chunk of the sequence."""
        return -(-self.sort.count // (THREADS * self.turns))

    @property
    def table_words(self) -> int:
        """Totals of each block's digits."""
        return self.blocks << self.sort.bits

    @property
    def words(self) -> int:
        """The table, two buffers of rows and one of updates: `order` is the other one."""
        return self.table_words + self.sort.count * (1 if self.sort.passes == 1 else 3)

    @property
    def buffers(self) -> list[int]:
        """Where these begin."""
        start = self.start + self.table_words
        return list(range(start, self.start + self.words, self.sort.count))


def shares(sorts: Sequence[Sort], device: Device) -> list[Share]:
    """About a block for as many updates as it has threads, as far as all are resident at once."""
    turns = 1
    while sum(Share(each, turns, 0, 0).blocks for each in sorts) > device.multiprocessors:
        turns += 1
    found: list[Share] = []
    first = start = 0
    for each in sorts:
        found.append(Share(each, turns, first, start))
        first, start = first + found[-1].blocks, start + found[-1].words
    return found


def sort_us(sorts: Sequence[Sort], device: Device) -> float:
    """How long a kernel takes that sorts side by side."""
    timing, passes = device.timing, max(each.passes for each in sorts)
    return timing.launch_us + timing.block_us + passes * (PASS_US + 2 * timing.grid_us)


def sorts_of(emitted: tirx.PrimFunc) -> list[Sort]:
    """What such a kernel sorts."""
    found = json.loads(str(emitted.attrs[SORT_ATTRIBUTE]))
    return [Sort(int(count), int(rows), str(dtype)) for count, rows, dtype in found]


def order_of_rows(sorts: Sequence[Sort], device: Device) -> tirx.PrimFunc:
    """A kernel that sorts updates by the rows that they go to, several times side by side.

    Of each sort it has the indices, then of each `order`, `first` and `last`. `order` is a
    permutation of the updates, sorted by their rows, stably; updates of no row (below 0, or not
    below `rows`) come last. `order[first[r]:last[r]]` are those of row r. A workspace follows.
    """
    own = shares(sorts, device)
    indices = [_buffer("indices", each.count, each.dtype) for each in sorts]
    found = [
        (_buffer("order", each.count), _buffer("first", each.rows), _buffer("last", each.rows))
        for each in sorts
    ]
    workspace = _buffer("workspace", sum(each.words for each in own))
    block, thread = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    writer = Writer()
    words = max(each.shared_words for each in sorts)
    histograms = writer.allocate("histograms", words, "int32", "shared")
    # TVM shrinks a buffer to the elements that are used, of which it sees none in CUDA.
    writer.call(histograms.ptr_to([int64(words - 1)]))
    all_sorts = [
        _Sort(share, block, writer, _start(histograms), workspace, (index, *lists))
        for share, index, lists in zip(own, indices, found, strict=True)
    ]
    _write(all_sorts, writer)
    blocks = sum(each.blocks for each in own)
    body = on_threads(writer.done(), thread, THREADS, resident=1)
    body = bound(block, "blockIdx.x", int64(blocks), body)
    func = signature((*indices, *(buffer for each in found for buffer in each)))
    kernel = kernel_function(func, body, [workspace])
    said = json.dumps([astuple(each) for each in sorts])
    return kernel.with_attrs({SORT_ATTRIBUTE: said, MULTIPROCESSORS_ATTRIBUTE: blocks})


def _write(sorts: Sequence[_Sort], writer: Writer) -> None:
    """All passes, whose barriers all blocks come to, and in the end the rows' ranges."""
    alone = len(sorts) == 1

    def each(do: Callable[[_Sort], None], passes: int = 0) -> None:
        for sort in sorts:
            if passes <= sort.sort.passes:
                with writer.when(None if alone else sort.is_own):
                    do(sort)

    each(_Sort.clear)
    for number in range(max(each.sort.passes for each in sorts)):
        each(partial(_Sort.count, number=number), number + 1)
        writer.call(T.cuda.grid_sync())
        each(partial(_Sort.place, number=number), number + 1)
        writer.call(T.cuda.grid_sync())
    each(_Sort.find_ranges)


class _Sort:
    """The statements of a sort's blocks."""

    def __init__(
        self,
        share: Share,
        block: Expr,
        writer: Writer,
        shared: Expr,
        workspace: Var,
        tensors: tuple[Var, Var, Var, Var],
    ) -> None:
        """`tensors`: the indices, and what the kernel finds."""
        self.sort, self.writer, self.shared = share.sort, writer, shared
        last = share.first + share.blocks
        self.is_own = block_uniform(tirx.all(block >= share.first, block < last))
        self.rank, self.blocks = block - share.first, int32(share.blocks)
        self.each = int32(WARP * share.turns)
        self.sizes = int32(share.sort.count), int32(share.sort.rows)
        self.indices, self.order, *ranges = tensors
        self.ranges = tuple(map(_start, ranges))
        self.table = workspace.ptr_to([int64(share.start)])
        self.buffers = [workspace.ptr_to([int64(start)]) for start in share.buffers]
        # The last pass leaves updates in `order`, of two buffers that take turns.
        self.updates = [_start(self.order), *self.buffers[2:]]

    def clear(self) -> None:
        """No row has any update."""
        self._call("clear", CLEAR, *self.ranges, self.sizes[1], self.rank, self.blocks)

    def count(self, number: int) -> None:
        """Of a pass, the digits of each warp and block."""
        source, dtype = self._source(number)
        here = self.table, self.shared, *self.sizes, self.each, self.rank
        self._call("count", COUNT, source, *here, *self._digit(number), dtype=dtype)

    def place(self, number: int) -> None:
        """Of a pass, pairs to where their digits begin, behind a barrier for what was counted."""
        source, dtype = self._source(number)
        passes, updates = self.sort.passes, self.updates
        origin = updates[(passes - number) % len(updates)]
        to = self.buffers[number % 2], updates[(passes - 1 - number) % 2]
        places = source, origin, *to, self.table, self.shared
        here = *self.sizes, self.each, self.rank, self.blocks
        rest = *self._digit(number), int32(self.sort.parts)
        self._call("place", STARTS + PLACE, *places, *here, *rest, dtype=dtype)

    def find_ranges(self) -> None:
        """Of each row the first place and that behind its last."""
        source, _ = self._source(self.sort.passes)
        self._call("ranges", RANGES, source, *self.ranges, *self.sizes, self.rank, self.blocks)

    def _source(self, number: int) -> tuple[Expr, str]:
        """The rows of updates that a pass begins with."""
        if not number:
            return _start(self.indices), dtype_of(self.indices)
        return self.buffers[(number - 1) % 2], "int32"

    def _digit(self, number: int) -> tuple[Expr, Expr]:
        return int32(number * self.sort.bits), int32(self.sort.bits)

    def _call(self, what: str, source: str, *arguments: Expr, dtype: str = "") -> None:
        """A function in CUDA, perhaps of indices of a dtype."""
        name = "_".join(("tvm_stitch_order", what, *([dtype] if dtype else [])))
        if dtype:
            source = (ROW + source).format(name=name, type=IN_CUDA[dtype])
        else:
            source = source.format(name=name)
        source = source.replace("AHEAD", str(AHEAD))
        self.writer.call(T.cuda.func_call(name, *arguments, source_code=source))


def _buffer(name: str, size: int, dtype: str = "int32") -> Var:
    return tirx.decl_buffer((int64(size),), dtype, name, layout=None)


def _start(buffer: Var) -> Expr:
    return buffer.ptr_to([int64(0)])
