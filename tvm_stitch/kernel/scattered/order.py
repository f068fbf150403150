"""Updates sorted by the rows that they go to: a kernel that is launched before others read them.

In: how many updates and rows there are, the dtype of the indices; of several sorts at once. Out: a
scheduled PrimFunc, which depends on indices alone, not on the order in which threads run. Must not
know what is done with the updates of a row, nor where the indices come from.

A radix sort from the least significant digit on, each by the blocks of a cluster of its own. In a
pass a block has a contiguous chunk of the sequence, and each of its warps a contiguous part of
that. Warps count their digits, blocks leave their totals for the others, and behind a barrier of
the cluster everyone knows where each of its digits begins. Pairs of row and update go from one
ping-pong buffer to the other. A barrier of the whole grid takes four times as long as a cluster's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads, signature
from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP
from tvm_stitch.kernel.scattered.lists.indices import IN_CUDA, int32
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

THREADS = MAX_BLOCK_THREADS
WARPS = THREADS // WARP
# A histogram for each warp, of 32 bits for each digit, fits into static shared memory.
DIGIT_BITS = 8
AHEAD = 8  # updates of a thread whose loads are on their way at once
CLUSTER = 8  # blocks of a sort: more are not portable
SORT_ATTRIBUTE = "tvm_stitch.sort"
PASS_US = 3.0  # of a pass, without its barriers

_CLEAR = """
__device__ __forceinline__ void {name}(
    void* first, void* last, int rows, int block, int blocks) {{
  for (int row = block * blockDim.x + threadIdx.x; row < rows; row += blocks * blockDim.x) {{
    ((int*)first)[row] = ((int*)last)[row] = 0;
  }}
}}
"""
# Updates of no row are those of one more row behind the last, also where this has been said before.
_ROW = """
__device__ __forceinline__ int {name}_row({type} index, int rows) {{
  return index < 0 || index >= rows ? rows : (int)index;
}}
"""
_COUNT = """
__device__ __forceinline__ void {name}(
    const void* indices, void* table, void* shared,
    int count, int rows, int each, int block, int shift, int bits) {{
  int digits = 1 << bits, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int* histograms = (int*)shared;
  int* own = histograms + warp * digits;
  for (int digit = lane; digit < digits; digit += 32) own[digit] = 0;
  __syncwarp();
  int start = (block * (blockDim.x / 32) + warp) * each, end = min(start + each, count);
  for (int group = start; group < end; group += 32 * AHEAD) {{
    int row[AHEAD];
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      int at = group + 32 * ahead + lane;
      row[ahead] = at < end ? {name}_row((({type}*)indices)[at], rows) : -1;
    }}
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      if (row[ahead] >= 0) atomicAdd(own + (row[ahead] >> shift & (digits - 1)), 1);
    }}
  }}
  __syncthreads();
  for (int digit = threadIdx.x; digit < digits; digit += blockDim.x) {{
    int total = 0;
    #pragma unroll
    for (int other = 0; other < blockDim.x / 32; ++other) {{
      total += histograms[other * digits + digit];
    }}
    ((int*)table)[block * digits + digit] = total;
  }}
}}
"""
# Of each warp's histogram the places where its digits begin: behind all smaller digits, behind the
# same digit of the blocks before and of the block's warps before. `sums` has room for two numbers
# of each digit and part, and one of each warp.
_STARTS = """
__device__ __forceinline__ void {name}_starts(
    int* histograms, int* sums, int* table, int block, int blocks, int bits, int parts) {{
  int digits = 1 << bits, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int digit = threadIdx.x & (digits - 1), part = threadIdx.x >> bits;
  int total = 0, before = 0;
  if (part < parts) {{
    #pragma unroll 8
    for (int other = part; other < blocks; other += parts) {{
      int own = table[other * digits + digit];
      total += own;
      before += other < block ? own : 0;
    }}
    sums[part * digits + digit] = total;
    sums[(parts + part) * digits + digit] = before;
  }}
  __syncthreads();
  total = before = 0;
  if (threadIdx.x < digits) {{
    for (int other = 0; other < parts; ++other) {{
      total += sums[other * digits + digit];
      before += sums[(parts + other) * digits + digit];
    }}
  }}
  int scanned = total;
  for (int apart = 1; apart < 32; apart *= 2) {{
    int other = __shfl_up_sync(0xffffffffu, scanned, apart);
    if (lane >= apart) scanned += other;
  }}
  int* of_warps = sums + 2 * parts * digits;
  if (lane == 31) of_warps[warp] = scanned;
  __syncthreads();
  if (threadIdx.x < digits) {{
    int start = scanned - total + before;
    for (int other = 0; other < warp; ++other) start += of_warps[other];
    #pragma unroll
    for (int other = 0; other < blockDim.x / 32; ++other) {{
      int own = histograms[other * digits + digit];
      histograms[other * digits + digit] = start;
      start += own;
    }}
  }}
  __syncthreads();
}}
"""
# In the first pass updates are in their own order. All lanes come to what a warp does together;
# those behind the end have a digit that nobody has.
_PLACE = """
__device__ __forceinline__ void {name}(
    const void* indices, void* updates, void* rows_to, void* updates_to, void* table, void* shared,
    int count, int rows, int each, int block, int blocks, int shift, int bits, int parts) {{
  int digits = 1 << bits, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int* histograms = (int*)shared;
  int* sums = histograms + blockDim.x / 32 * digits;
  {name}_starts(histograms, sums, (int*)table, block, blocks, bits, parts);
  int* own = histograms + warp * digits;
  int start = (block * (blockDim.x / 32) + warp) * each, end = min(start + each, count);
  for (int group = start; group < end; group += 32 * AHEAD) {{
    int row[AHEAD], update[AHEAD];
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      int at = group + 32 * ahead + lane;
      row[ahead] = at < end ? {name}_row((({type}*)indices)[at], rows) : -1;
      update[ahead] = at < end && shift > 0 ? ((int*)updates)[at] : at;
    }}
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      if (group + 32 * ahead >= end) break;
      int digit = row[ahead] < 0 ? -1 : row[ahead] >> shift & (digits - 1), place = 0;
      unsigned alike = __match_any_sync(0xffffffffu, digit);
      unsigned lower = alike & ((1u << lane) - 1);
      if (digit >= 0) place = own[digit] + __popc(lower);
      __syncwarp();
      if (digit >= 0 && lower == 0) own[digit] += __popc(alike);
      __syncwarp();
      if (digit >= 0) {{
        ((int*)rows_to)[place] = row[ahead];
        ((int*)updates_to)[place] = update[ahead];
      }}
    }}
  }}
}}
"""
_RANGES = """
__device__ __forceinline__ void {name}(
    void* sorted, void* first, void* last, int count, int rows, int block, int blocks) {{
  int* own = (int*)sorted;
  int threads = blocks * blockDim.x, thread = block * blockDim.x + threadIdx.x;
  for (int start = thread; start < count; start += threads * AHEAD) {{
    int row[AHEAD], before[AHEAD], after[AHEAD];
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      int at = start + threads * ahead;
      row[ahead] = at < count ? own[at] : rows;
      before[ahead] = 0 < at && at < count ? own[at - 1] : -1;
      after[ahead] = at < count - 1 ? own[at + 1] : -1;
    }}
    #pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) {{
      int at = start + threads * ahead;
      if (row[ahead] == rows) continue;
      if (before[ahead] != row[ahead]) ((int*)first)[row[ahead]] = at;
      if (after[ahead] != row[ahead]) ((int*)last)[row[ahead]] = at + 1;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Sort:
    """So many updates, by so many rows, which indices of a type name."""

    count: int
    rows: int
    dtype: str

    @property
    def each(self) -> int:
        """Updates of a warp."""
        return WARP * -(-self.count // (THREADS * CLUSTER))

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
        return min(CLUSTER, THREADS >> self.bits)

    @property
    def shared_words(self) -> int:
        """Histograms of warps, sums of digits and those of warps."""
        return ((WARPS + 2 * self.parts) << self.bits) + WARPS

    @property
    def table_words(self) -> int:
        """Totals of each block's digits."""
        return CLUSTER << self.bits

    @property
    def workspace_words(self) -> int:
        """The table, two buffers of rows and one of updates: `order` is the other one."""
        return self.table_words + self.count * (1 if self.passes == 1 else 3)


def sort_us(sorts: Sequence[Sort], device: Device) -> float:
    """How long a kernel takes whose clusters sort side by side."""
    timing = device.timing
    longest = max(each.passes * (PASS_US + 2 * timing.cluster_us) for each in sorts)
    return timing.launch_us + timing.block_us + timing.cluster_start_us + longest


def sorts_of(emitted: tirx.PrimFunc) -> list[Sort]:
    """What such a kernel sorts."""
    found = json.loads(str(emitted.attrs[SORT_ATTRIBUTE]))
    return [Sort(int(count), int(rows), str(dtype)) for count, rows, dtype in found]


def order_of_rows(sorts: Sequence[Sort]) -> tirx.PrimFunc:
    """A kernel that sorts updates by the rows that they go to, several times side by side.

    Of each sort it has the indices, then of each `order`, `first` and `last`. `order` is a
    permutation of the updates, sorted by their rows, stably; updates of no row (below 0, or not
    below `rows`) come last. `order[first[r]:last[r]]` are those of row r. A workspace follows.
    """
    indices = [_buffer("indices", each.count, each.dtype) for each in sorts]
    found = [
        (_buffer("order", each.count), _buffer("first", each.rows), _buffer("last", each.rows))
        for each in sorts
    ]
    starts = list(accumulate((each.workspace_words for each in sorts), initial=0))
    workspace = _buffer("workspace", starts[-1])
    block, thread = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    writer = Writer()
    words = max(each.shared_words for each in sorts)
    histograms = writer.allocate("histograms", words, "int32", "shared")
    # TVM shrinks a buffer to the elements that are used, of which it sees none in CUDA.
    writer.call(histograms.ptr_to([int64(words - 1)]))
    for number, (own, start) in enumerate(zip(sorts, starts, strict=False)):
        is_own = block_uniform(tirx.EQ(tirx.floordiv(block, CLUSTER), number))
        with writer.when(is_own if len(sorts) > 1 else None):
            rank = tirx.floormod(block, CLUSTER)
            sort = _Sort(own, rank, writer, _start(histograms), (workspace, start))
            sort.write(indices[number], *found[number])
    body = on_threads(writer.done(), thread, THREADS, resident=1)
    body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(CLUSTER), body)
    body = bound(block, "blockIdx.x", int64(CLUSTER * len(sorts)), body)
    func = signature((*indices, *(buffer for each in found for buffer in each)))
    kernel = kernel_function(func, body, workspaces=[workspace])
    return kernel.with_attr(SORT_ATTRIBUTE, json.dumps([astuple(each) for each in sorts]))


class _Sort:
    """The statements of a block of a sort's cluster."""

    def __init__(
        self, sort: Sort, rank: Expr, writer: Writer, shared: Expr, place: tuple[Var, int]
    ) -> None:
        """`place`: the workspace, and where the sort has its own."""
        self.sort, self.rank, self.writer, self.shared = sort, rank, writer, shared
        workspace, start = place
        self.table = workspace.ptr_to([int64(start)])
        buffers = range(start + sort.table_words, start + sort.workspace_words, sort.count)
        self.buffers = [workspace.ptr_to([int64(first)]) for first in buffers]

    def write(self, indices: Var, order: Var, first: Var, last: Var) -> None:
        """All passes, and where each row's updates are in the end."""
        sort, of_cluster = self.sort, (self.rank, int32(CLUSTER))
        sizes, ranges = (int32(sort.count), int32(sort.rows)), (_start(first), _start(last))
        self._call("clear", _CLEAR, *ranges, sizes[1], *of_cluster)
        source, dtype = _start(indices), dtype_of(indices)
        # The last pass leaves updates in `order`, of two buffers that take turns.
        updates = [_start(order), *self.buffers[2:]]
        for number in range(sort.passes):
            sorted_rows = self.buffers[number % 2]
            to = updates[(sort.passes - 1 - number) % 2]
            digit = int32(number * sort.bits), int32(sort.bits)
            here = *sizes, int32(sort.each), self.rank
            self._call("count", _COUNT, source, self.table, self.shared, *here, *digit, dtype=dtype)
            self._barrier()
            origin = updates[(sort.passes - number) % len(updates)]
            places = source, origin, sorted_rows, to, self.table, self.shared
            rest = int32(CLUSTER), *digit, int32(sort.parts)
            self._call("place", _STARTS + _PLACE, *places, *here, *rest, dtype=dtype)
            self._barrier()
            source, dtype = sorted_rows, "int32"
        self._call("ranges", _RANGES, source, *ranges, *sizes, *of_cluster)

    def _barrier(self) -> None:
        """All blocks of the cluster are here, and what they have written is seen."""
        self.writer.call(T.cuda.cluster_sync())

    def _call(self, what: str, source: str, *arguments: Expr, dtype: str = "") -> None:
        """A function in CUDA, perhaps of indices of a dtype."""
        name = "_".join(("tvm_stitch_order", what, *([dtype] if dtype else [])))
        if dtype:
            source = (_ROW + source).format(name=name, type=IN_CUDA[dtype])
        else:
            source = source.format(name=name)
        source = source.replace("AHEAD", str(AHEAD))
        self.writer.call(T.cuda.func_call(name, *arguments, source_code=source))


def _buffer(name: str, size: int, dtype: str = "int32") -> Var:
    return tirx.decl_buffer((int64(size),), dtype, name, layout=None)


def _start(buffer: Var) -> Expr:
    return buffer.ptr_to([int64(0)])
