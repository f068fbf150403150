"""The result of planning: groups of nodes, and why the rest is not in any."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Nodes that become one kernel, and the variables that it must write (by name, in order)."""

    nodes: tuple[int, ...]
    outputs: tuple[object, ...]  # relax variables


@dataclass(frozen=True)
class Fallback:
    """An operator that goes the default way, and why."""

    op: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Groups and fallbacks of one dataflow block."""

    groups: tuple[Group, ...]
    fallbacks: tuple[Fallback, ...]
