"""A part in training through which much memory passes, in several that run one after the other.

In: what could be one part. Out: the same nodes in pieces, in an order that runs. A part has its
results from its beginning, and its inputs and the memory between its kernels to its end; between
two parts, what has been read is free. A cut costs what kernels would share across it, and is made
where that is little: in front of library calls. Must not know what a part is compiled to.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from torch import fx

from tvm_stitch.dynamo.parts.nodes import (
    bytes_of,
    computes,
    is_forwards,
    is_librarys,
    is_view,
    memory_of,
)

LEAST_BYTES = 256 << 20
"""So many pass through a part at least, whose kernels then take longer than calling it."""
MOST_PIECES = 12
# How far from equal pieces a cut may be, as a share of a piece.
_REACH = 0.4
_NOWHERE = 1 << 62  # bytes: of what cannot pass between parts

Nodes = list[fx.Node]


def cut(part: Nodes) -> list[Nodes]:
    """A part of a forward or backward graph, in the graph's order, in pieces."""
    reads = _Reads.by(part)
    passed = list(accumulate(_passing(part, reads)))
    pieces = min(MOST_PIECES, passed[-1] // LEAST_BYTES)
    if pieces < 2:
        return [part]
    return _in_pieces(part, _places(passed, _costs(part, reads), pieces))


@dataclass
class _Readers:
    """Of a tensor: the place of the last one in the part, and what others there are.

    first_kernel, last_kernel: places between which kernels of ours make or read it; those of a
        library make and read it in memory, whatever is in one part.
    """

    last: int = -1
    first_kernel: int | None = None
    last_kernel: int = -1
    is_read_outside: bool = False
    is_read_behind: bool = False
    has_library: bool = False

    def add_kernel(self, place: int) -> None:
        """One more, in order."""
        self.first_kernel = place if self.first_kernel is None else self.first_kernel
        self.last_kernel = place


@dataclass
class _Reads:
    """Who reads which memory."""

    place: Mapping[fx.Node, int]
    of: dict[fx.Node, _Readers] = field(default_factory=dict)

    @classmethod
    def by(cls, part: Nodes) -> _Reads:
        """Of what a part makes or is given, by it and by the graph around it."""
        reads = cls({node: number for number, node in enumerate(part)})
        in_graph = {node: number for number, node in enumerate(part[0].graph.nodes)}
        touched = (memory_of(each) for node in part for each in (node, *node.all_input_nodes))
        for memory in dict.fromkeys(touched):
            if memory in reads.place and not is_librarys(memory):
                reads.of.setdefault(memory, _Readers()).add_kernel(reads.place[memory])
            for user in sorted(_readers(memory), key=in_graph.__getitem__):
                reads._add(user, memory)
        return reads

    def _add(self, user: fx.Node, memory: fx.Node) -> None:
        readers = self.of.setdefault(memory, _Readers())
        if user in self.place:
            readers.last = self.place[user]
            readers.is_read_behind = False
            if is_librarys(user):
                readers.has_library = True
            else:
                readers.add_kernel(readers.last)
        else:
            readers.is_read_outside = True
            readers.is_read_behind = True


def _readers(memory: fx.Node) -> set[fx.Node]:
    """What reads a node's memory, through views as well."""
    found, pending = set[fx.Node](), [memory]
    while pending:
        for user in pending.pop().users:
            if is_view(user):
                pending.append(user)
            else:
                found.add(user)
    return found


def _passing(part: Nodes, reads: _Reads) -> list[int]:
    """By place: bytes of results that are made there, and of inputs that are read for the last."""
    passing = [0] * len(part)
    for memory, readers in reads.of.items():
        if memory in reads.place:
            if readers.is_read_outside:
                passing[reads.place[memory]] += bytes_of(memory)
        elif readers.last >= 0 and not readers.is_read_behind and _dies(memory):
            passing[readers.last] += bytes_of(memory)
    return passing


def _dies(memory: fx.Node) -> bool:
    """Whether what a part is given is nobody's once the graph has read it."""
    return not is_forwards(memory) if memory.op == "placeholder" else memory.op == "call_function"


def _costs(part: Nodes, reads: _Reads) -> list[int]:
    """By place: bytes that a cut in front of it has written, and read again."""
    changes = [0] * (len(part) + 1)

    def add(begin: int, end: int, cost: int) -> None:
        if begin < end:
            changes[begin] += cost
            changes[end] -= cost

    for memory, readers in reads.of.items():
        bytes_, begin = bytes_of(memory), reads.place.get(memory)
        if readers.first_kernel is not None:
            add(readers.first_kernel + 1, readers.last_kernel + 1, bytes_)
        if begin is None:
            continue
        if any(user.target is operator.getitem for user in memory.users):
            add(begin + 1, readers.last + 1, _NOWHERE)
        elif not readers.is_read_outside and not readers.has_library:
            add(begin + 1, readers.last + 1, bytes_)
    return list(accumulate(changes[:-1]))


def _places(passed: Sequence[int], costs: Sequence[int], pieces: int) -> list[int]:
    """Where to cut: near equal pieces, where it costs least."""
    found, piece = set[int](), passed[-1] / pieces
    for number in range(1, pieces):
        begin, end = (
            bisect_right(passed, (number + reach) * piece) + 1 for reach in (-_REACH, _REACH)
        )
        near = range(begin, min(end, len(costs)))
        if near:
            wanted = number * piece
            best = min(near, key=lambda at: (costs[at], abs(passed[at - 1] - wanted)))
            found |= {best} if costs[best] < _NOWHERE else set()
    return sorted(found)


def _in_pieces(part: Nodes, places: Sequence[int]) -> list[Nodes]:
    """The nodes by what they stand behind; a view goes with the first that wants it."""
    number = {node: bisect_right(places, at) for at, node in enumerate(part)}
    for node in reversed(part):
        wanted = [number[user] for user in node.users if user in number]
        if is_view(node) and wanted:
            number[node] = min(wanted)
    found: list[Nodes] = [[] for _ in range(len(places) + 1)]
    for node in part:
        found[number[node]].append(node)
    return [each for each in found if any(map(computes, each))]
