"""What products of few rows cost: their bytes, at the speed that their blocks reach.

In: the products of a kernel and the Device. Out: microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.device import Device
from tvm_stitch.kernel.tensor_core.cost import least_bytes
from tvm_stitch.kernel.tensor_core.program import TensorProduct

# Of the bandwidth of a copy.
BANDWIDTH_SHARE = 0.9


def predicted_us(products: Sequence[TensorProduct], device: Device) -> float:
    """What the kernel should take, its launch included."""
    start = device.timing.launch_us + device.timing.block_us
    return start + least_bytes(products) / (device.bandwidth * BANDWIDTH_SHARE) * 1e6
