"""A large part that falls apart, as parts of which many are equal: an optimizer's step.

In: a part's nodes. Out: the same nodes in pieces between which nothing flows. Layers of a model
have parameters of equal shapes, one after the other, so that their updates become equal pieces:
those are planned and compiled once. Must not know what a node computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import fx

# Operators of a part that is planned as a whole; see plan/regions.
MOST_OPERATORS = 256
# Operators of a component that counts as one of many.
_SMALL = 32

Nodes = list[fx.Node]


def pieces(part: Nodes, counts: Callable[[fx.Node], bool]) -> list[Nodes]:
    """A part, in the graph's order, in pieces where it is many small components side by side."""
    components = _components(part)
    sizes = {id(each): sum(map(counts, each)) for each in components}
    small = [each for each in components if sizes[id(each)] <= _SMALL]
    if sum(sizes[id(each)] for each in small) <= MOST_OPERATORS:
        return [part]
    largest = MOST_OPERATORS // max(sizes[id(each)] for each in small)
    runs = _runs([_kind(each) for each in small], range(len(small)), largest)
    found = [[node for number in run for node in small[number]] for run in runs]
    taken = {node for each in small for node in each}
    place = {node: n for n, node in enumerate(part)}
    others = [node for node in part if node not in taken]
    return [sorted(each, key=place.__getitem__) for each in (*found, others) if each]


def _components(part: Nodes) -> list[Nodes]:
    """Nodes that are connected within the part, by the first of them."""
    inside = set(part)
    found: dict[fx.Node, Nodes] = {}
    for node in part:
        joined: Nodes = [node]
        for source in node.all_input_nodes:
            if source in inside and found[source] is not joined:
                # The larger takes the smaller in: each node moves few times.
                small, joined = sorted((joined, found[source]), key=len)
                joined.extend(small)
                for each in small:
                    found[each] = joined
        found[node] = joined
    return list({id(component): component for component in found.values()}.values())


def _kind(component: Nodes) -> Hashable:
    """Equal for components that are computed alike."""
    number = {node: n for n, node in enumerate(component)}

    def described(node: fx.Node) -> Any:
        return number[node] if node in number else _Shape(node.meta.get("val"))

    return str(
        [(node.target, fx.map_arg((node.args, node.kwargs), described)) for node in component]
    )


class _Shape:
    """A value from outside, as `_kind` writes it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        value = self.value
        if not isinstance(value, torch.Tensor):
            return str(value)
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}"


def _runs(kinds: Sequence[Hashable], among: Sequence[int], largest: int) -> list[list[int]]:
    """Components in pieces of at most `largest`, the longest repeated sequence again and again."""
    if len(among) <= largest:
        return [list(among)] if among else []
    best = (0, 0, 0, 0)  # components that need not be compiled; length, beginning, repetitions
    # Shorter sequences come twice or more in these; pieces cost a launch each.
    for length in range(largest // 2 + 1, largest + 1):
        begin = 0
        while begin + length < len(among):
            repeated = 0
            while (
                begin + repeated + length < len(among)
                and kinds[among[begin + repeated]] == kinds[among[begin + repeated + length]]
            ):
                repeated += 1
            times = repeated // length
            best = max(best, (times * length, length, -begin, times + 1))
            begin += max(1, repeated)
    saved, length, begin, times = best[0], best[1], -best[2], best[3]
    if not saved:
        size = math.ceil(len(among) / math.ceil(len(among) / largest))
        return [list(among[at : at + size]) for at in range(0, len(among), size)]
    equal = [list(among[begin + n * length : begin + (n + 1) * length]) for n in range(times)]
    others = [*among[:begin], *among[begin + times * length :]]
    return [*equal, *_runs(kinds, others, largest)]
