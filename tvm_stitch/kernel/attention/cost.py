"""What attention costs: its bytes, its turns, and what a cluster takes to begin and to end.

In: an Attention, its tiles and the Device. Out: microseconds.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.attention.tiles import (
    FRAGMENT,
    LONG_TURN,
    AttentionTiles,
    blocks_of,
)
from tvm_stitch.library.attention import NO_MASK, Attention

# Fitted to bench/results/h200/attention.md, behind a fill of the L2; of heads of 64, with others in
# proportion.
SHARE = 0.75  # of the bandwidth of a copy
DEPTHS = 2 * 64
# Where a warp has all keys, by those of a turn: what a multiprocessor takes for a warp's turn, and
# what a turn takes at least.
START_US = 2.2
WARP_TURN_US = {FRAGMENT: 0.078, LONG_TURN: 0.15}
TURN_US = {FRAGMENT: 0.65, LONG_TURN: 0.88}
BIASED_KEYS, BIASED_SCORES = 1.1, 1.3  # times as long, where lanes load a bias
MASKED = 0.6  # of the turns, where queries see keys up to a diagonal and blocks are many
# Where keys are split: a turn, and what the cluster adds.
SPLIT_TURN_US, CLUSTER_US = 0.8, 1.4


def predicted_us(attention: Attention, tiles: AttentionTiles, device: Device) -> float:
    """What the kernel should take, its launch included."""
    a, timing = attention, device.timing
    start = timing.launch_us + timing.block_us
    read = a.bytes / (SHARE * device.bandwidth) * 1e6
    depth = (a.depth + a.value_depth) / DEPTHS
    turns = -(-a.keys // tiles.keys)
    if tiles.by_rows:
        warps = blocks_of(a, tiles) * tiles.warps / device.multiprocessors
        each = depth
        if a.bias is not None:
            each *= BIASED_SCORES if a.bias.query else BIASED_KEYS
        busy = WARP_TURN_US[tiles.turn] * warps * (1.0 if a.mask == NO_MASK else MASKED)
        return start + START_US + max(read, turns * each * max(busy, TURN_US[tiles.turn]))
    cluster = CLUSTER_US if tiles.splits > 1 else 0.0
    waves = -(-blocks_of(a, tiles) // device.multiprocessors)
    return start + cluster + max(read, SPLIT_TURN_US * depth * turns * waves)
