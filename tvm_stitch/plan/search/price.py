"""What a planner weighs: microseconds of kernels, stitched or not, also where shapes are open.

In: Kernels, or nodes that go TVM's way, and Bounds, which say at which sizes of symbols they are
compared. Out: microseconds, the mean over these sizes, from kernel/cost_model; of bytes alone where
nobody states sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.cost_model.kernel_model import copy_us
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.plan.regions.region import Crossing, Nodes, Region, Value, bits
from tvm_stitch.plan.search import dlight_baseline
from tvm_stitch.stages.extents import Extents, is_open
from tvm_stitch.stages.stage import Var

# What TVM makes is less certain than what is emitted here: on equal terms nothing is left to it.
EPILOGUE_US = 0.5
DEFAULT_MARGIN = 1.25
# Bytes that a product's kernel moves when it has multiplied go by threads that are few, with little
# on its way: on equal terms what follows a product stays in a kernel of its own.
EPILOGUE_BYTES = 1.05


def least_us(
    region: Region, nodes: Nodes, outputs: Iterable[Value], device: Device, bounds: Bounds
) -> float:
    """What no kernel of nodes can beat: a copy of the bytes that it must touch."""
    buffers = (*inputs(region, nodes), *map(region.buffer, outputs))
    moved = bounds.mean(lambda point: sum(map(point.bytes, buffers)))
    return copy_us(moved, device)


def separate_us(crossing: Crossing, device: Device, launch_us: float) -> float:
    """What is lost at most where regions are planned separately.

    A kernel of both is at worst two, which pass their tensors through memory: no more kernels than
    tensors can hold something of both.
    """
    start = launch_us + device.timing.launch_us + device.timing.block_us
    return crossing.tensors * start + crossing.bytes / device.bandwidth * 1e6


def default_kernel_us(
    region: Region, nodes: Nodes, outputs: Iterable[Value], device: Device, bounds: Bounds
) -> float:
    """TVM's own kernel for nodes that its fusion would put together."""
    written = [region.buffer(output) for output in outputs]
    stages = tuple(stage for place in bits(nodes) for stage in region.nodes[place].stages)
    buffers = [*inputs(region, nodes), *written]

    unknown = is_open(buffers, bounds.points)

    def at(point: Extents) -> float:
        kernel = dlight_baseline.default_kernel(stages, written, point)
        if kernel is not None and not unknown:
            return dlight_baseline.default_kernel_us(kernel, device)
        moved = sum(point.bytes(buffer) for buffer in buffers)
        return dlight_baseline.unknown_kernel_us(moved, device)

    return bounds.mean(at)


def ended_us(kernel: Kernel, alone: Sequence[Kernel], buffers: Iterable[Var]) -> float:
    """Products with what their kernel ends with, which nothing multiplied hides.

    Alone they have these buffers.
    """
    before = tuple(dict.fromkeys(buffers))
    more = kernel.bounds.mean(
        lambda point: sum(map(point.bytes, kernel.buffers)) - sum(map(point.bytes, before))
    )
    moved, timing = EPILOGUE_BYTES * more / kernel.device.bandwidth * 1e6, kernel.device.timing
    started_once = (len(alone) - 1) * (timing.launch_us + timing.block_us)
    together = sum(each.cost_us for each in alone) - started_once
    return together + max(kernel.cost_us - together, moved)


def epilogue_us(
    region: Region, nodes: Nodes, output: Value, result: Var, device: Device, bounds: Bounds
) -> float:
    """What nodes add to the kernel of the product whose result they read: bytes, but no launch."""
    buffers = (*inputs(region, nodes), region.buffer(output))
    more = bounds.mean(lambda at: sum(map(at.bytes, buffers)) - 2 * at.bytes(result))
    return EPILOGUE_US + max(0.0, more / device.bandwidth * 1e6)


def inputs(region: Region, nodes: Nodes) -> list[Var]:
    """The buffers that a set reads and does not compute itself."""
    graph = region.graph
    own = {region.buffer(value) for place in bits(nodes) for value in region.values_of[place]}
    found = {
        graph.buffer(operand): None
        for place in bits(nodes)
        for operand in region.nodes[place].operands
    }
    return [buffer for buffer in found if buffer not in own]
