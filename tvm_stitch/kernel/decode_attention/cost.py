"""What attention of few queries costs: its bytes, and what a cluster takes to begin and to end.

In: an Attention, its tiles and the Device. Out: microseconds.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.decode_attention.tiles import DecodeTiles
from tvm_stitch.library.attention import Attention

TURN_US = 0.9  # until a turn's keys and values are there and multiplied
SHARE = 0.75  # of the bandwidth of a copy


def predicted_us(attention: Attention, tiles: DecodeTiles, device: Device) -> float:
    """What the kernel should take, its launch included."""
    timing = device.timing
    start = timing.launch_us + timing.block_us
    if tiles.splits > 1:
        start += timing.cluster_start_us + timing.cluster_us
    heads = attention.batch * attention.key_heads
    waves = -(-heads * tiles.splits // device.multiprocessors)
    turns = -(-attention.keys // tiles.keys)
    read = attention.bytes / (SHARE * device.bandwidth) * 1e6
    return start + max(read, TURN_US * turns * waves)
