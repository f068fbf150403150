"""What attention costs: its bytes, its turns, and what a cluster takes to begin and to end.

In: an Attention, its tiles and the Device. Out: microseconds.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.attention.tiles import AttentionTiles, blocks_of
from tvm_stitch.library.attention import NO_MASK, Attention

# Measured on an H200 (bench/results/h200/attention.md), behind a fill of the L2.
TURN_US = 0.9  # until a turn's keys and values are there and multiplied
SHARE = 0.75  # of the bandwidth of a copy
START_US = 1.2  # queries, and what a row ends with
# What a multiprocessor takes for a warp's turn of 16 queries and keys, of heads of 64.
WARP_TURN_US, DEPTHS = 0.04, 2 * 64
MASKED = 0.6  # of the turns, where queries see keys up to a diagonal


def predicted_us(attention: Attention, tiles: AttentionTiles, device: Device) -> float:
    """What the kernel should take, its launch included."""
    a, timing = attention, device.timing
    start = timing.launch_us + timing.block_us
    read = a.bytes / (SHARE * device.bandwidth) * 1e6
    turns = -(-a.keys // tiles.keys)
    if tiles.by_rows:
        warps = blocks_of(a, tiles) * tiles.warps / device.multiprocessors
        each = WARP_TURN_US * (a.depth + a.value_depth) / DEPTHS
        share = 1.0 if a.mask == NO_MASK else MASKED
        return start + START_US + max(read, share * turns * max(1.0, warps) * each)
    if tiles.splits > 1:
        start += timing.cluster_start_us + timing.cluster_us
    waves = -(-blocks_of(a, tiles) // device.multiprocessors)
    return start + max(read, TURN_US * turns * waves)
