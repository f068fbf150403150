"""Bytes that two kernels must move beyond what one kernel of the same nodes moves.

In: a Region, nodes of it and sizes of symbols. Out: a number that no division of the nodes among
several kernels goes below. Must not know kernels.

The first of several kernels reads nothing that the others compute. If all nodes follow from one
tensor, it reads that. The last one writes something that is needed, which follows from the tensor
as well: it reads the tensor once more, or in its place, somewhere on each way from it, a value that
the others have stored. On the widest of these ways even the smallest is read in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tvm_stitch.graph.front.read import Node
from tvm_stitch.plan.regions.region import Nodes, Region, bits
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Var

# Nodes that read all of each tensor that is as large as what they walk through.
_READS_ALL = (Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.ROW_REDUCTION)


def bytes_read_twice(region: Region, nodes: Nodes, extents: Extents) -> int:
    """The least that is read again, or stored and read, where nodes become several kernels."""
    return _Ways(region, nodes, extents).least()


class _Ways:
    """Which nodes read all of which tensors; a view is the tensor that it shows."""

    def __init__(self, region: Region, nodes: Nodes, extents: Extents) -> None:
        self.region, self.extents = region, extents
        self.shown: dict[Var, Var] = {}  # by views
        self.producer: dict[Var, int] = {}
        self.nodes: Nodes = 0  # without views
        for place in bits(nodes):
            node = region.nodes[place]
            (result, *_) = results = [region.graph.buffer(var) for var in node.results]
            if node.pattern is Pattern.RESHAPE:
                self.shown[result] = self._tensor(region.graph.buffer(node.operands[0]))
            else:
                self.nodes |= 1 << place
                self.producer.update(dict.fromkeys(results, place))
        leaving = (self._tensor(region.buffer(value)) for value in region.leaving(nodes))
        self.needed = {tensor for tensor in leaving if tensor in self.producer}
        self.read = {place: list(self._read(region.nodes[place])) for place in bits(self.nodes)}

    def least(self) -> int:
        """Of all tensors from which everything follows, what can be said by the best."""
        readers: dict[Var, Nodes] = {}
        for place, read in self.read.items():
            for tensor in read:
                if tensor not in self.producer:
                    readers[tensor] = readers.get(tensor, 0) | 1 << place
        sources = (tensor for tensor, nodes in readers.items() if self._leads_to_all(nodes))
        return max(map(self._least_from, sources), default=0)

    def _tensor(self, buffer: Var) -> Var:
        return self.shown.get(buffer, buffer)

    def _read(self, node: Node) -> Iterator[Var]:
        """The tensors that a node reads from end to end."""
        if node.pattern in _READS_ALL and len(node.results) == 1:
            for stage in node.stages:
                yield from (self._tensor(b) for b, is_whole in stage.buffers.items() if is_whole)

    def _leads_to_all(self, readers: Nodes) -> bool:
        """Whether no node can be computed, with all before it, without what these read."""
        reached = readers
        for place in bits(readers):
            reached |= self.region.descendants[place]
        return not self.nodes & ~reached

    def _least_from(self, source: Var) -> int:
        widths: dict[Var, int] = {source: self.extents.bytes(source)}
        for tensor, place in self.producer.items():  # in order
            widths[tensor] = self._width(widths, self.read[place])
        ends = (self._width(widths, self.read[self.producer[tensor]]) for tensor in self.needed)
        return min(ends, default=0)

    def _width(self, widths: dict[Var, int], read: Iterable[Var]) -> int:
        """Of the widest way up to a node, the smallest tensor."""
        known = (tensor for tensor in read if tensor in widths)
        return max((min(widths[t], self.extents.bytes(t)) for t in known), default=0)
