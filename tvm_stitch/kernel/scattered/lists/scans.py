"""Exclusive scans in CUDA: what threads before a thread have, together.

In: nothing. Out: sources for str.format, whose functions begin with the `name` of their caller's.
Must not know what is counted.
"""

from __future__ import annotations

# All lanes of a warp are here.
WARP_SCAN = """
__device__ __forceinline__ int {name}_in_warp(int own) {{
  int lane = threadIdx.x % 32, before = own;
  for (int apart = 1; apart < 32; apart *= 2) {{
    int other = __shfl_up_sync(0xffffffffu, before, apart);
    if (lane >= apart) before += other;
  }}
  return before - own;
}}
"""
# All threads of a block are; `of_warps` has room for a number of each warp.
BLOCK_SCAN = (
    WARP_SCAN
    + """
__device__ __forceinline__ int {name}_in_block(int own, int* of_warps) {{
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = {name}_in_warp(own);
  if (lane == 31) of_warps[warp] = before + own;
  __syncthreads();
  for (int other = 0; other < warp; ++other) before += of_warps[other];
  return before;
}}
"""
)
