"""What products of few rows cost: their bytes, at the speed that their blocks reach.

In: the products of a kernel, their tiles and the Device. Out: microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.device import Device
from tvm_stitch.kernel.cost_model.kernel_model import SPECIAL_RATE
from tvm_stitch.kernel.ir.instructions import instructions
from tvm_stitch.kernel.skinny_matmul.program import rows_of, sizes_of
from tvm_stitch.kernel.skinny_matmul.tiles import SkinnyTiles, grid_blocks, idle_share
from tvm_stitch.kernel.tensor_core.cost import least_bytes
from tvm_stitch.kernel.tensor_core.mma import MATRIX
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.extents import NOMINAL

# Fitted to bench/results/h200/skinny.md, behind a fill of the L2, as what the library takes is: the
# kernel only reads, and what the fill has left there is written to memory meanwhile.
END_US = 0.6  # until the sums of all warps are added up, more than other kernels take to end
TURN_US = 0.4  # a warp's step that others do not hide, as where multiprocessors are left
# Of the bandwidth of a copy, by whether the depth lies along memory: of up to 8 rows, and of more.
SHARES = {True: (0.76, 0.64), False: (0.65, 0.6)}
# Of a weight that is computed: to take it out of what was loaded, and to make pairs. What nvcc 13
# has for int8, not measured.
UNPACKING = 4.0
# Of a single row, for which this is compared with kernels that reduce columns: what is predicted of
# these leaves out the fill, and they take 1.35 to 1.5 times as long behind it.
SHARE_OF_ONE_ROW = 0.93


def predicted_us(
    products: Sequence[TensorProduct], tiles: Sequence[SkinnyTiles], device: Device
) -> float:
    """What the kernel should take, its launch included."""
    start = device.timing.launch_us + device.timing.block_us + END_US
    read = sum(max(_read_us(each, device), _work_us(each, device)) for each in products)
    if grid_blocks(products, tiles) >= device.multiprocessors:
        return start + read / (1 - idle_share(products, tiles, device))
    turns = max(
        -(-sizes_of(product)[2] // (own.warps * own.step))
        for product, own in zip(products, tiles, strict=True)
    )
    return start + read + TURN_US * turns


def _read_us(product: TensorProduct, device: Device) -> float:
    return least_bytes([product]) / (device.bandwidth * _share(product)) * 1e6


def _work_us(product: TensorProduct, device: Device) -> float:
    """What computing the weights takes, of which each is computed once."""
    operations = 0.0
    for stages in (each.before for each in product.all if each.before):
        operations += UNPACKING * NOMINAL.size(stages[-1].size)
        for stage in stages:
            each = instructions(stage)
            operations += (each.plain + each.special * SPECIAL_RATE) * NOMINAL.size(stage.size)
    return operations / (device.multiprocessors * device.lanes * device.clock) * 1e6


def _share(product: TensorProduct) -> float:
    """Of the bandwidth of a copy."""
    rows = rows_of(product)
    if rows == 1 and product.ragged is None:
        return SHARE_OF_ONE_ROW
    return SHARES[product.right.by_depth][rows > MATRIX]
