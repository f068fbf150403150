"""What a matrix product on tensor cores costs: the part of the cost model that knows of them.

In: the TensorProducts of a kernel, mostly one, their Tiles and the Device. Out: bytes and
microseconds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.footprint import SUM_BYTES, Footprint
from tvm_stitch.kernel.ir.instructions import instructions
from tvm_stitch.kernel.tensor_core.program import WIDEST, Factor, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import expected_tiles, filled_groups
from tvm_stitch.kernel.tensor_core.tiles import (
    GROUP_ROWS,
    HALF,
    LINE,
    RESERVED_REGISTERS,
    Tiles,
    stage_elements,
)
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.stage import Var, as_int64

# Multiply-adds of a multiprocessor in a cycle, by rows and columns of a tile: 2048 x 4096 x 11008
# bf16 takes 548, 600, 730 and 965 us on an H200 by the first four.
MULTIPLY_ADDS = {(128, 128): 680, (96, 128): 636, (64, 128): 487, (64, 64): 369, (32, 64): 200}
OTHER_TILES = 369
# Of shallow products the memory decides, and what a block waits for: 96 products of 512 x 64 x 512
# bf16 take 22.4 us, where the multiply-adds of their tiles would take 13.6. How many blocks are
# resident makes no difference to that.
SHALLOW_DEPTH = 128
SHALLOW_WAITS = 1.65
MEMORY_LINE, SHARED_BYTES = 128, 128  # bytes; of shared memory, in a cycle
# The share of the bandwidth that deep products reach which load more than they multiply, in fp16 on
# an H200 (bench/products/h200.json): 16 x 4096 x 11008 takes 32 us and 128 x 4096 x 11008 42, where
# a copy of as much takes 22; 64 x 4096 x 4096 17.6, a copy 8.
DEEP_BANDWIDTH_SHARE = 0.6
# How much longer a product takes whose factors have so few neighbours in memory for an access: of
# 192 heads, 197 x 64 x 197 takes 32.6 us by columns of 197 halves, 13 by lines of 64;
# 3152 x 768 x 30522 503 us where 431 were predicted.
NARROW = {1: 2.6, 2: 1.15}
# The same where a factor's rows lie in pieces, whose places take divisions: 784 x 768 x 3072 bf16
# of 16 images with channels first takes 124.5 us, where 15.5 were predicted without.
IN_PIECES = 8.0

# The share of the time that what is computed of results takes by itself, which the kernel takes
# longer for it: the rest goes on beside other blocks. With bias and GELU by erf, 4096 x 768 x 3072
# takes 42.2 us on an H200 by tiles of 128 x 256, with a bias 34.9; 3152 x 768 x 3072 42.1 by tiles
# of 144 x 128, without 33.8; 8192 x 64 x 4096 35.3, and its bytes alone 24.
NOT_HIDDEN = 0.6
# The share of the multiprocessors that clusters of so many blocks fill at once, one block on each.
# By cuOccupancyMaxActiveClusters an H200, with 132 of them, has room for 66, 30 and 15 clusters;
# more of them take as long as two waves, 128 blocks in clusters of 4 17.6 us for 13.8.
BEGINNING = {2: 1.0, 4: 0.91, 8: 0.91}
LANES, SPECIAL_LANES = 128, 16  # of a multiprocessor: operations and functions in a cycle


@dataclass(frozen=True)
class GroupedTiming:
    """How groups of four warps spend their time, in cycles.

    Fitted to 16 products by eight tiles each on an H200 (`python -m bench.products --tiles`,
    bench/products/h200-tiles.json) and eight more by the tiles that were chosen; half are predicted
    to 7 %, and what is chosen among the eight takes 2 % longer than the fastest. `starts` and
    `bandwidth_share` by how often the faster of a kernel and the library's is taken of 205 products
    (bench/products/h200.json).
    """

    rate: float = 2690.0  # multiply-adds of a multiprocessor, with nothing else to wait for
    # Bytes from the L2 to a multiprocessor; kernels without products came to 51.4.
    l2_bytes: float = 57.9
    # Of lines that begin anywhere in lines of memory more is read: 1024 x 1000 x 1000 takes 10 us,
    # where 5 were predicted without.
    unaligned: float = 1.67
    # Of tiles that fill no whole lines of shared memory along a factor that lies across the depth:
    # 1024 x 3072 x 768 takes 17.7 us by 64 x 96, and 13.7 by 96 x 64.
    ragged: float = 2.63
    # Of those that a block's threads do not divide: each copy then has addresses of its own.
    uneven: float = 2.47
    # How well products, shared memory and copies overlap: 1 not at all, large perfectly.
    overlap: float = 4.44
    arrival: float = 1330.0  # until a stage that is copied has arrived
    # Barriers and the way to the first product; no stage was measured below 310.
    least_stage: float = 226.0
    starts: float = 4700.0  # of a wave, until its first product and after its last
    # The share of that which later waves take: blocks that end let others begin, one by one; and
    # where a multiprocessor has several, one begins while another multiplies.
    later: float = 0.347
    later_beside: float = 0.103
    stored: float = 0.196  # of a result, with no other block beside
    stored_beside: float = 0.0136
    bandwidth_share: float = 0.77  # of the bandwidth of a copy
    # Where blocks of a cluster share a depth: the barriers, and bytes of sums that a multiprocessor
    # reads of others in a cycle. Fitted to 83 such kernels of 44 products (bench/results/h200/
    # divided_depths.md), which are predicted to 10 %.
    cluster: float = 1000.0
    exchanged: float = 7.0


GROUPED = GroupedTiming()


@dataclass(frozen=True)
class Grid:
    """The results of a product."""

    entries: int  # or groups of rows, of a ragged one
    rows: int  # of each, on average where they differ
    columns: int
    is_ragged: bool

    def blocks(self, tiles: Tiles) -> int:
        """Blocks that have results."""
        along = -(-self.columns // tiles.columns)
        if self.is_ragged:
            return round(expected_tiles(self.entries, self.rows, tiles.rows)) * along
        return self.entries * -(-self.rows // tiles.rows) * along


@dataclass(frozen=True)
class Sized:
    """What the time of products in one grid depends on, at some sizes of symbols.

    Of several that differ, what takes a block the longest.
    """

    grids: tuple[Grid, ...]  # of each product
    rows: int
    columns: int
    depth: int
    bytes: int  # each input read once, each output written once
    unaligned: tuple[bool, bool]  # whether lines of a factor begin anywhere in lines of memory
    across: tuple[bool, bool]  # whether they run across the depth
    ending: float  # cycles of a multiprocessor for what is computed of a result
    right: int  # bytes of the right factors

    @staticmethod
    def of(products: Sequence[TensorProduct], extents: Extents = NOMINAL) -> Sized:
        """Products at some sizes."""
        sizes = [_sizes(product, extents) for product in products]
        rows, columns, depth = (max(each) for each in list(zip(*sizes, strict=True))[:3])
        pairs = list(zip(products, sizes, strict=True))
        unaligned = (
            any(_unaligned(product.left, own[0], own[2]) for product, own in pairs),
            any(_unaligned(product.right, own[1], own[2]) for product, own in pairs),
        )
        grids = tuple(
            Grid(own[3], own[0], own[1], product.ragged is not None) for product, own in pairs
        )
        across = (
            not all(product.left.by_depth for product in products),
            not all(product.right.by_depth for product in products),
        )
        least = least_bytes(products, extents)
        ending = max(map(_ending_cycles, products))
        right = sum(_read_bytes(product.right.buffer, products, extents) for product in products)
        return Sized(grids, rows, columns, depth, least, unaligned, across, ending, right)

    def blocks(self, tiles: Tiles) -> int:
        """Blocks of the grid."""
        return tiles.splits * sum(grid.blocks(tiles) for grid in self.grids)


def _unaligned(factor: Factor, side: int, depth: int) -> bool:
    return (depth if factor.by_depth else side) * HALF % MEMORY_LINE != 0


def least_bytes(products: Sequence[TensorProduct], extents: Extents = NOMINAL) -> int:
    """Each input read once, each output written once; what blocks read again is in the L2."""
    buffers = dict.fromkeys(buffer for product in products for buffer in product.buffers)
    return sum(_read_bytes(buffer, products, extents) for buffer in buffers)


def _read_bytes(buffer: Var, products: Sequence[TensorProduct], extents: Extents) -> int:
    """Bytes of a tensor; of matrices of which groups of rows have one each, of those with rows."""
    size = extents.bytes(buffer)
    for product in products:
        if product.ragged is not None and product.right.buffer is buffer:
            return size * filled_groups(product, extents) // product.groups
    return size


def _sizes(product: TensorProduct, extents: Extents) -> tuple[int, int, int, int]:
    """Rows, columns, depth and entries; of a ragged product, those of groups that have rows."""
    rows, columns, depth, entries = product.sizes_at(extents)
    if product.ragged is None:
        return rows, columns, depth, entries
    groups = filled_groups(product, extents)
    return -(-rows // groups), columns, depth, groups


def predicted_us(
    products: Sequence[TensorProduct], tiles: Tiles, device: Device, extents: Extents = NOMINAL
) -> float:
    """What the kernel should take, its launch included."""
    start, sized = _start_us(device), Sized.of(products, extents)
    found = compared_us(sized, tiles, device) - start
    if not tiles.warpgroups and not _is_shallow(sized.depth, tiles):
        share = device.bandwidth * DEEP_BANDWIDTH_SHARE
        found = max(found, sized.bytes / share * 1e6)
    return start + max(_slowed(factor) for p in products for factor in (p.left, p.right)) * found


def _slowed(factor: Factor) -> float:
    """How much longer a product takes for the accesses to a factor."""
    if factor.vector == 1 and factor.is_in_pieces:
        return IN_PIECES
    return NARROW.get(factor.vector, 1.0)


def _ending_cycles(product: TensorProduct) -> float:
    found = [instructions(stage) for stage in product.after]
    return sum(each.plain / LANES + each.special / SPECIAL_LANES for each in found)


def compared_us(
    sized: Sized, tiles: Tiles, device: Device, timing: GroupedTiming = GROUPED
) -> float:
    """The same as far as tiles differ in it: arithmetic, what follows it, memory, a launch."""
    if tiles.warpgroups:
        return _start_us(device) + _grouped_us(sized, tiles, device, timing)
    shallow = _is_shallow(sized.depth, tiles)
    together = 1 if shallow else max(1, tiles.min_blocks_per_sm)
    iterations = together * -(-sized.blocks(tiles) // (together * wave_of(tiles, device)))
    depth = -(-sized.depth // tiles.splits)
    cycles = _result_cycles(depth, tiles, shallow) + sized.ending * NOT_HIDDEN / tiles.splits
    each = tiles.rows * tiles.columns * cycles + _exchange_cycles(sized, tiles, timing)
    multiply = iterations * each / device.clock * 1e6
    return _start_us(device) + max(multiply, sized.bytes / device.bandwidth * 1e6)


def _start_us(device: Device) -> float:
    return device.timing.launch_us + device.timing.block_us


def _grouped_us(sized: Sized, tiles: Tiles, device: Device, timing: GroupedTiming) -> float:
    """By groups of four warps: whole waves of blocks, each as many stages as the depth has."""
    blocks = sized.blocks(tiles)
    wave = wave_of(tiles, device)
    together = max(1, min(_room(sized, tiles, device), -(-blocks // wave)))
    waves = -(-blocks // (wave * together))
    results = together * tiles.rows * tiles.columns / tiles.splits
    stages = _stages(sized, tiles)
    stored = timing.stored if together == 1 else timing.stored_beside
    stored += sized.ending * NOT_HIDDEN
    stage = _stage_cycles(sized, tiles, together, timing)
    later = timing.later if together == 1 else timing.later_beside
    starts = timing.starts * (1 + later * (waves - 1))
    exchange = together * _exchange_cycles(sized, tiles, timing)
    cycles = waves * (stages * stage + results * stored + exchange) + starts
    # Every group of tiles of rows goes through the right factor, which the L2 may not hold.
    groups = -(-sized.rows // (tiles.rows * tiles.group))
    again = (groups - 1) * sized.right if sized.right > device.l2_size else 0
    memory = (sized.bytes + again) / (device.bandwidth * timing.bandwidth_share)
    return math.hypot(cycles / device.clock, memory) * 1e6


def wave_of(tiles: Tiles, device: Device) -> int:
    """Blocks that begin at once, one on each multiprocessor: clusters lie in groups of these."""
    if tiles.splits == 1:
        return device.multiprocessors
    beginning = int(device.multiprocessors * BEGINNING[tiles.splits])
    return beginning // tiles.splits * tiles.splits


def _stages(sized: Sized, tiles: Tiles) -> int:
    """How often a block goes on along its share of the depth."""
    return -(-sized.depth // (tiles.depth * tiles.splits))


def _exchange_cycles(sized: Sized, tiles: Tiles, timing: GroupedTiming) -> float:
    """What blocks that share a depth take longer: each reads some rows of all the others' sums."""
    others = tiles.splits - 1
    read = min(tiles.rows, sized.rows) * tiles.columns * SUM_BYTES * others / tiles.splits
    return timing.cluster + read / timing.exchanged if others else 0.0


def _room(sized: Sized, tiles: Tiles, device: Device) -> int:
    """Blocks that a multiprocessor has room for, of results in float32."""
    if tiles.min_blocks_per_sm:
        return tiles.min_blocks_per_sm
    left, right = (
        stage_elements(tiles, not across, side)
        for across, side in zip(sized.across, (tiles.rows, tiles.columns), strict=True)
    )
    results = SUM_BYTES * tiles.rows * tiles.pitch
    shared = max(tiles.stages * (left + right) * HALF, results)
    needed = Footprint(tiles.threads, tiles.accumulators + RESERVED_REGISTERS, shared)
    return needed.blocks_per_sm(device)


def _stage_cycles(sized: Sized, tiles: Tiles, together: int, timing: GroupedTiming) -> float:
    """What is slowest of a stage: products, shared memory, the way from the L2, or its latency.

    As many stages as are copied ahead share that. Rows that are not there are not copied.
    """
    each = tiles.depth * HALF
    rows, columns = min(tiles.rows, sized.rows), min(tiles.columns, sized.columns)
    stretched = [timing.unaligned if anywhere else 1.0 for anywhere in sized.unaligned]
    for side, (across, size) in enumerate(
        zip(sized.across, (tiles.rows, tiles.columns), strict=True)
    ):
        if across and size % LINE:
            stretched[side] *= timing.ragged
        elif across and tiles.threads % (size // WIDEST):
            stretched[side] *= timing.uneven
    copied = each * sum(map(operator.mul, (rows, columns), stretched))
    arrived = together * copied / timing.l2_bytes
    stages = _stages(sized, tiles)
    ahead = max(1, stages if tiles.stages >= stages else tiles.stages - tiles.multiplied)
    divided, whole = tiles.sides
    read = each * (divided + divided // GROUP_ROWS * whole)
    shared = together * (read + each * (rows + columns)) / SHARED_BYTES
    products = together * tiles.rows * tiles.columns * tiles.depth / timing.rate
    sharp = timing.overlap
    busy = sum(each**sharp for each in (products, shared, arrived)) ** (1 / sharp)
    return max(busy, (timing.arrival + arrived) / ahead, timing.least_stage)


def are_shallow(products: Sequence[TensorProduct], extents: Extents = NOMINAL) -> bool:
    """Whether of all of them the memory decides."""
    depths = (extents.size(as_int64(product.contracted)) for product in products)
    return max(depths) <= SHALLOW_DEPTH


def _is_shallow(depth: int, tiles: Tiles) -> bool:
    return depth <= SHALLOW_DEPTH and not tiles.warpgroups


def _result_cycles(depth: int, tiles: Tiles, shallow: bool) -> float:
    """Cycles of a multiprocessor for a result, by single warps."""
    waits = SHALLOW_WAITS if shallow else 1.0
    rate = MULTIPLY_ADDS.get((tiles.rows, tiles.columns), OTHER_TILES)
    return waits * depth / rate
