"""What attention costs by cuDNN, and by kernels of this package: two products and a softmax.

In: an Attention and the Device. Out: microseconds, or why it is not the library's.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.library.attention import BYTES, NO_MASK, Attention
from tvm_stitch.stages.stage import Refused

OLDEST = 80  # compute capability that cuDNN has such kernels for

# cuDNN 9.19 on an H200, microseconds, its memset of 0.8 included, and what the model says: 32 x 12
# heads of 64, 128 queries and keys 9.2 and 10.5; 16 x 12 heads of 64, 197 13.6 and 13.8; 4 x 8
# heads of 40, 1024 23.9 and 29.2; 1027 queries of 77 keys 10.0 and 7.9; 2 x 2 heads of 16, 31 4.7
# and 4.6; 8 x 32 heads of 128, one query of 2048 keys 64.6 and 67.6.
START_US = 4.6
QUERIES, KEYS, DEPTH = 64, 128, 64  # of a tile
RATE = 2.65e12  # operations a second of a multiprocessor
FEW, READ_AT = 16, 0.8  # queries that have keys read at this share of a copy's bandwidth
# In CUDA graphs cuDNN's kernel begins 2.8 to 3.5 us behind its memset, and that 1.2 behind what is
# in front, where kernels of this package follow each other at once.
GAP_US = 4.0

# Kernels of this package there: 21.5 for the first and 25.6, 42 for the second and 27, 98 for the
# third and 79; 316 and 302 for 32 heads of 128, 2048 queries and keys.
LAUNCHES = 3
LAUNCH_US = 2.2
PASSES = 4  # scores written and read, weights written and read
AT_BANDWIDTH = 0.9  # of a copy's bandwidth
# One kernel of rows with small products holds all of it: products that threads sum up.
ALONE_US = 3.0
MOST_ALONE = 32 * 32 * 32  # multiplications of a head
# Of one query they are reductions, which have a kernel each where they are long.
MOST_OF_ONE = 64 * 64


def refused_as_slower(attention: Attention, device: Device) -> Refused | None:
    """Why attention is not the library's on this GPU, if it is not there or would be slower."""
    if device.capability < OLDEST:
        return Refused(f"cuDNN's attention wants compute capability {OLDEST / 10} or newer")
    theirs, own = library_us(attention, device), own_us(attention, device)
    if theirs < own:
        return None
    return Refused(f"cuDNN would take {theirs:.1f} us, kernels of this package {own:.1f} us")


def is_slower(us: float, attention: Attention, device: Device, library: bool) -> bool:
    """Whether one kernel of this package that takes so long is slower than all other ways."""
    if is_small(attention) or us >= own_us(attention, device):
        return True
    may_call = library and device.capability >= OLDEST
    return may_call and us >= library_us(attention, device) + GAP_US


def library_us(attention: Attention, device: Device) -> float:
    """One kernel, which keeps the scores on the chip."""
    a = attention
    depths = _rounded(a.depth, DEPTH) + _rounded(a.value_depth, DEPTH)
    queries = a.queries if a.queries == 1 else _rounded(a.queries, QUERIES)
    operations = 2.0 * a.batch * a.heads * queries * _rounded(a.keys, KEYS) * depths
    if a.mask != NO_MASK and a.queries > QUERIES:
        operations /= 2
    seconds = operations / (RATE * device.multiprocessors)
    share = READ_AT if a.queries <= FEW else 1.0
    memory = a.bytes / (share * device.bandwidth)
    return START_US + max(seconds, memory) * 1e6


def own_us(attention: Attention, device: Device) -> float:
    """Scores to memory, weights to memory, and both read; small attention is one kernel."""
    a = attention
    scores = a.batch * a.heads * a.queries * a.keys
    if is_small(a):
        return ALONE_US + BYTES * a.elements / device.bandwidth * 1e6
    moved = a.bytes + BYTES * PASSES * scores
    return LAUNCHES * LAUNCH_US + moved / (AT_BANDWIDTH * device.bandwidth) * 1e6


def is_small(attention: Attention) -> bool:
    """Whether a head has so few multiplications that it goes with what is around it."""
    a = attention
    most = MOST_ALONE if a.queries > 1 else MOST_OF_ONE
    return a.queries * a.keys * max(a.depth, a.value_depth) <= most


def _rounded(extent: int, tile: int) -> int:
    return -(-extent // tile) * tile
