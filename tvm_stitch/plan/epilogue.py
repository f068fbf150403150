"""What TVM lets a matrix product or convolution compute at the end of its own kernel.

In: a Region. Out: Epilogues: sets of element-wise nodes that follow a product, so that TVM's
FuseOps puts them into its kernel if they are left alone. Must not know stitched kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.op_pattern import Pattern
from tvm_stitch.plan.price import epilogue_us
from tvm_stitch.plan.region import Nodes, Region, Value, own_products

_FREE = (Pattern.ELEMENTWISE, Pattern.BROADCAST)


@dataclass(frozen=True)
class Epilogue:
    """Nodes after a product that come to one value."""

    product: str
    index: int  # of the product in the graph
    nodes: Nodes
    output: Value
    cost_us: float


def epilogues(region: Region, device: Device) -> Iterator[Epilogue]:
    """Every set that TVM would fuse with a product, from the shortest to the longest."""
    for index in own_products(region):
        product = region.graph.nodes[index]
        result = region.graph.buffer(product.results[0])
        for nodes, output in _meeting_points(region, region.readers[result]):
            cost = epilogue_us(region, nodes, output, result, device)
            yield Epilogue(product.name, index, nodes, output, cost)


def _meeting_points(region: Region, readers: Nodes) -> Iterator[tuple[Nodes, Value]]:
    """The nodes through which everything behind a product goes, each with all before it."""
    inside, waiting = 0, readers
    while waiting:
        place = (waiting & -waiting).bit_length() - 1
        inside, waiting = inside | 1 << place, waiting & ~(1 << place)
        values = region.values_of[place]
        if region.nodes[place].pattern not in _FREE or len(values) != 1:
            return
        if not waiting:
            yield inside, values[0]
        if values[0].needed:
            return
        waiting |= values[0].users
