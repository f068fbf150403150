"""Entries of a list in order, and where those of each row are: functions in CUDA.

In: a list in shared memory, whose entries are numbers of their rows and their own. Out: the source
of what sorts them by all threads of a block. Must not know what is listed.

Where half of the list has room for them, entries are counted by rows, put into the other half
where their row begins, and each finds its place among its row's by comparison. Of a row that has
many, and where there are more, a network of comparisons sorts them where they are.
"""

from __future__ import annotations

from tvm_stitch.kernel.scattered.lists.scans import BLOCK_SCAN

# A bitonic network all of whose comparisons are in one direction: it is one for a power of two of
# entries, and those behind the last count as larger than all. 32 pairs lie in 64 entries of their
# warp's own, where they are not further apart than these.
_NETWORK = """
__device__ __forceinline__ void {name}_network({type}* entries, int count) {{
  for (int width = 2; width < 2 * count; width *= 2) {{
    for (int apart = width / 2, flipped = width - 1; apart > 0; apart /= 2, flipped = apart) {{
      for (int pair = threadIdx.x;; pair += blockDim.x) {{
        int inside = pair & (apart - 1);
        int lower = 2 * (pair - inside) + inside, upper = lower ^ flipped;
        if (lower >= count) break;
        if (upper >= count) continue;
        {type} small = entries[lower], large = entries[upper];
        if (small > large) {{
          entries[lower] = large;
          entries[upper] = small;
        }}
      }}
      int next = apart > 1 ? apart / 2 : 2 * width - 1;
      if (flipped < 64 && next < 64) {{
        __syncwarp();
      }} else {{
        __syncthreads();
      }}
    }}
  }}
  __syncthreads();
}}
"""
# Of each row the first entry and the one behind its last, of entries in order.
_RANGES = """
__device__ __forceinline__ void {name}_ranges(
    {type}* entries, int count, int* first, int* last, int bits) {{
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    int row = entries[at] >> bits;
    if (at == 0 || row != entries[at - 1] >> bits) first[row] = at;
    if (at == count - 1 || row != entries[at + 1] >> bits) last[row] = at + 1;
  }}
}}
"""
# The same of so many entries as `last` says of each row.
_STARTS = """
__device__ __forceinline__ void {name}_starts(int* first, int* last, int* sums, int rows) {{
  int each = (rows + blockDim.x - 1) / blockDim.x;
  int start = threadIdx.x * each, end = min(start + each, rows);
  int total = 0;
  for (int row = start; row < end; ++row) total += last[row];
  int before = {name}_in_block(total, sums);
  for (int row = start; row < end; ++row) {{
    int count = last[row];
    first[row] = last[row] = before;
    before += count;
  }}
  __syncthreads();
}}
"""
_SORT = """
__device__ __forceinline__ void {name}(
    void* listed, void* ends, void* sums, int room, int rows, int bits) {{
  {type}* entries = ({type}*)listed;
  int* first = (int*)ends;
  int* last = first + rows;
  int count = min(first[2 * rows], room);
  if (count > room / 2) {{
    {name}_network(entries, count);
    {name}_ranges(entries, count, first, last, bits);
    return;
  }}
  int most = 0;
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    most = max(most, atomicAdd(last + (int)(entries[at] >> bits), 1));
  }}
  bool is_long = __syncthreads_or(most >= LONGEST);
  {name}_starts(first, last, (int*)sums, rows);
  {type}* by_row = entries + room / 2;
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    {type} own = entries[at];
    by_row[atomicAdd(last + (int)(own >> bits), 1)] = own;
  }}
  __syncthreads();
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    {type} own = by_row[at];
    int row = own >> bits, start = first[row], end = last[row], place = at;
    if (end - start <= LONGEST) {{
      place = start;
      #pragma unroll 4
      for (int other = start; other < end; ++other) place += by_row[other] < own;
    }}
    entries[place] = own;
  }}
  if (!is_long) return;
  for (int group = 0; group < rows; group += 32) {{
    int row = group + threadIdx.x % 32;
    unsigned votes = __ballot_sync(0xffffffffu, row < rows && last[row] - first[row] > LONGEST);
    for (int bit = 0; bit < 32; ++bit) {{
      if (!(votes >> bit & 1)) continue;
      __syncthreads();
      {name}_network(entries + first[group + bit], last[group + bit] - first[group + bit]);
    }}
  }}
}}
"""
# Entries of a row, beyond which a network is faster than comparing each with all. On an H200 sums
# of 32768 rows of 1024 for 200 words, 164 entries each, took 432 us with a network for each row,
# one after the other: steps that wait for each other, where comparisons are 26 of each thread.
LONGEST_COMPARED = 1024


def sort_source() -> str:
    """The functions, of which the last is called."""
    source = _NETWORK + _RANGES + BLOCK_SCAN + _STARTS + _SORT
    return source.replace("LONGEST", str(LONGEST_COMPARED))
