"""A radix sort's functions in CUDA: what its blocks do between barriers of the grid.

In: nothing. Out: sources for str.format, of which `name` is the function's and `type` that of
indices; AHEAD stands for how many updates of a thread are on their way at once. Must not know where
anything is.
"""

from __future__ import annotations

from tvm_stitch.kernel.scattered.lists.scans import BLOCK_SCAN

CLEAR = """
__device__ __forceinline__ void {name}(
    void* first, void* last, int rows, int block, int blocks) {{
  for (int row = block * blockDim.x + threadIdx.x; row < rows; row += blocks * blockDim.x) {{
    ((int*)first)[row] = ((int*)last)[row] = 0;
  }}
}}
"""
# Updates of no row are those of one more row behind the last, also where this has been said before.
ROW = """
__device__ __forceinline__ int {name}_row({type} index, int rows) {{
  return index < 0 || index >= rows ? rows : (int)index;
}}
"""
COUNT = """
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
STARTS = (
    BLOCK_SCAN
    + """
__device__ __forceinline__ void {name}_starts(
    int* histograms, int* sums, int* table, int block, int blocks, int bits, int parts) {{
  int digits = 1 << bits, digit = threadIdx.x & (digits - 1), part = threadIdx.x >> bits;
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
  int start = before + {name}_in_block(total, sums + 2 * parts * digits);
  if (threadIdx.x < digits) {{
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
)
# In the first pass updates are in their own order. All lanes come to what a warp does together;
# those behind the end have a digit that nobody has.
PLACE = """
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
RANGES = """
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
