"""A chunk of rows as one node of a graph, and later as one of its parts.

In: a graph for so many rows. Out: what a node calls, or a submodule in place of such a node. As one
node a chunk is neither torn apart where forward and backward are parted, nor do parts of several
chunks come to be in memory at once. Must not know what is computed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import fx


@dataclass(frozen=True, eq=False)
class Chunk:
    """Computes a graph; its text says all that it does to what it is given."""

    graph: fx.GraphModule

    __name__ = "chunk"  # as FX writes it

    def __call__(self, *given: Any) -> Any:
        """The results."""
        return self.graph(*given)

    def __repr__(self) -> str:
        return f"chunk {self.graph.graph}"


def with_parts_of_chunks(
    graph: fx.GraphModule, prefix: str, rewrite: Callable[[fx.Graph], None]
) -> dict[str, dict[int, int]]:
    """Make each chunk a submodule, of a graph that has been rewritten.

    For each by its name the results that may be written over what it is given, both by number.
    """
    chunks = {node: node.target for node in graph.graph.nodes if isinstance(node.target, Chunk)}
    over: dict[str, dict[int, int]] = {}
    rewritten: dict[Chunk, fx.Graph] = {}
    for number, (node, chunk) in enumerate(chunks.items()):
        if chunk not in rewritten:
            rewritten[chunk] = copy.deepcopy(chunk.graph.graph)
            rewrite(rewritten[chunk])
        # A module that stood for two nodes would be one child.
        part = fx.GraphModule(torch.nn.Module(), copy.deepcopy(rewritten[chunk]))
        name = f"{prefix}chunk_{number}"
        graph.add_submodule(name, part)
        over[name] = dict(_passed_on(node, chunks))
        node.op, node.target = "call_module", name
    return over


def _passed_on(node: fx.Node, chunks: Container[fx.Node]) -> Iterator[tuple[int, int]]:
    """The sums over rows before that a chunk makes its own of, which nobody else reads.

    They are the same results of both.
    """
    for number, given in enumerate(node.args):
        if not isinstance(given, fx.Node) or given.target is not getitem:
            continue
        if given.args[0] in chunks and list(given.users) == [node]:
            yield int(given.args[1]), number  # type: ignore[arg-type]
