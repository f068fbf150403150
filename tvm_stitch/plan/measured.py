"""Regions by the clock: where TVM's kernels are faster than the planned ones, they are taken.

In: a region, its Plan, and a Clock. Out: a Measured with both times. Must not know how modules are
compiled or timed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tvm

from tvm_stitch.graph.front.extract import extracted
from tvm_stitch.graph.front.read import StitchGraph, read_block
from tvm_stitch.plan.cuts import operators
from tvm_stitch.plan.plan import Measured, Plan, SavedBlock
from tvm_stitch.plan.regions.region import Region, own_products
from tvm_stitch.plan.saved import SavedPlan, fingerprint, saved

BLOCK = "main/0"


@dataclass(frozen=True)
class Time:
    """What a clock showed, or why it showed nothing."""

    us: float | None
    error: str = ""


class Clock(Protocol):
    """Times a module whose main holds one dataflow block of TIR calls, compiled by each plan."""

    def times(self, module: tvm.IRModule, plans: tuple[SavedPlan, ...]) -> list[Time]:
        """The time of every plan."""

    def close(self) -> None:
        """End what it has started."""


def measured(mod: tvm.IRModule, region: Region, plan: Plan, clock: Clock) -> Measured:
    """Time a region by its plan, and left to TVM.

    Products whose kernels may compute some of the region's operators are timed with it, both ways.
    """
    graph = region.graph
    indices = sorted({*region.indices, *own_products(region)})
    module = extracted(mod, graph, indices)
    block = renumbered(saved(BLOCK, graph, plan), indices, module)
    nothing = replace(block, groups=(), kept=())
    ours, default = clock.times(module, (SavedPlan((block,)), SavedPlan((nothing,))))
    return Measured(
        operators=operators(region, region.everything),
        stitched_us=ours.us,
        default_us=default.us,
        why=_why(ours, default),
    )


def _why(ours: Time, default: Time) -> str:
    """What went wrong, if something did."""
    errors = [("the plan", ours.error), ("TVM's kernels", default.error)]
    return "; ".join(f"{name} could not be timed: {error}" for name, error in errors if error)


def renumbered(block: SavedBlock, indices: list[int], module: tvm.IRModule) -> SavedBlock:
    """A plan of some nodes, as the plan of the module that was made of them."""
    place = {index: number for number, index in enumerate(indices)}
    groups = tuple(
        replace(
            group,
            nodes=tuple(place[index] for index in group.nodes),
            outputs=tuple((place[index], result) for index, result in group.outputs),
        )
        for group in block.groups
    )
    kept = tuple(place[index] for index in block.kept)
    return replace(
        block, groups=groups, kept=kept, fingerprint=fingerprint(_graph(module)), fallbacks=()
    )


def _graph(module: tvm.IRModule) -> StitchGraph:
    (block,) = module["main"].body.blocks
    return read_block(module, block)


def counted(found: Iterable[Measured | None]) -> tuple[Measured, ...]:
    """What was measured once, with the number of regions for which it holds."""
    counts: dict[int, Any] = {}
    for each in found:
        if each is not None:
            known = counts.get(id(each))
            counts[id(each)] = replace(each, count=known.count + 1 if known else 1)
    return tuple(counts.values())


def all_measured(before: tuple[Measured, ...], after: tuple[Measured, ...]) -> tuple[Measured, ...]:
    """What was timed before a plan was made again, and what it was made with."""
    counted_anew = {(each.operators, each.stitched_us, each.default_us) for each in after}
    return after + tuple(
        each
        for each in before
        if (each.operators, each.stitched_us, each.default_us) not in counted_anew
    )
