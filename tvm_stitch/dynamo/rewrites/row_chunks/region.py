"""What there is between a product and the loss that is made of it, row by row.

In: a functional graph with FakeTensors, and a product with rows and columns. Out: the nodes as
large as the product, those between them, what they are reduced to, and who reads that. Must not
know what becomes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import fx

from tvm_stitch.dynamo.rewrites.row_chunks.pieces import (
    NotByRows,
    is_turned,
    lead,
    rest,
    sums_rows,
)


@dataclass(frozen=True)
class Region:
    """A part of a graph, in its order.

    computed: nodes that have something for each row.
    results: those of them that others read, none as large as the product.
    sums: sums over rows of what is computed, which others read.
    nodes: all of these, and views that sums have of what is computed.
    """

    rows: int
    computed: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    sums: tuple[fx.Node, ...]
    nodes: frozenset[fx.Node]

    @staticmethod
    def of(product: fx.Node) -> Region:
        """That around a product; NotByRows if it needs more than a row at a time."""
        rows, columns = product.meta["val"].shape
        nodes = product.graph.nodes
        large = _as_large(product, rows, columns)
        inside, sums, turned = large | _between(product.graph, large), set(), set()
        for node in [each for each in nodes if each in large]:
            for user in list(node.users):
                if user.op == "output":
                    raise NotByRows(f"{node.name} is asked for")
                if is_turned(user):
                    turned.add(user)
                    sums.update(user.users)
                elif sums_rows(user, rows):
                    sums.add(user)
                else:
                    inside.add(user)
        if not all(sums_rows(each, rows) for each in sums):
            raise NotByRows("its columns are asked for")
        computed = tuple(node for node in nodes if node in inside)
        found = frozenset(inside | sums | turned)
        results = tuple(node for node in computed if not found.issuperset(node.users))
        return Region(rows, computed, results, tuple(node for node in nodes if node in sums), found)


def _as_large(product: fx.Node, rows: int, columns: int) -> set[fx.Node]:
    """The product and what is as large, as far as one is made of the other."""
    found, waiting = {product}, [product]
    while waiting:
        node = waiting.pop()
        for each in (*node.users, *node.all_input_nodes):
            if each.op != "call_function" or each in found or is_turned(each):
                continue
            if lead(each, rows) is not None and prod(rest(each, rows)) == columns:
                found.add(each)
                waiting.append(each)
    return found


def _between(graph: fx.Graph, nodes: set[fx.Node]) -> set[fx.Node]:
    """What depends on some of the nodes, and others of them on it."""
    behind, before = set[fx.Node](), set[fx.Node]()
    for node in graph.nodes:
        if any(each in nodes or each in behind for each in node.all_input_nodes):
            behind.add(node)
    for node in reversed(graph.nodes):
        if any(each in nodes or each in before for each in node.users):
            before.add(node)
    return behind & before
