"""What goes between the process that compiles and those that plan for it.

In: where a graph was read from, and a RegionPlan. Out: both as plain data that can be pickled, and
back. Kernels stay where they were found: of each that is taken there is its set of nodes, which is
judged once more, where dozens of others that the search came across are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import tvm
from tvm import relax

from tvm_stitch.device import Device
from tvm_stitch.graph.front.read import read_block
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.options import Options
from tvm_stitch.plan.region_plan import RegionPlan, judged
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.regions.region import Region, Value
from tvm_stitch.plan.search.dequantize import with_dequantized_weights
from tvm_stitch.plan.search.judge import Judge, Verdict
from tvm_stitch.processes.modules import module_of, text_of
from tvm_stitch.stages.stage import Refused


@dataclass(frozen=True)
class Source:
    """Where a graph was read from, which another process reads anew."""

    module: tvm.IRModule
    function: str
    block: int  # which of the function's
    left: Mapping[relax.Var, str] = field(default_factory=lambda: MappingProxyType({}))

    def job(
        self,
        regions: Sequence[Region],
        device: Device,
        bounds: Bounds,
        options: Options,
        libraries: Mapping[str, str | None],
        seconds: float,
    ) -> Job | None:
        """Its regions, to be planned in so many seconds; None if it is not to be sent."""
        text = text_of(self.module)
        if text is None:
            return None
        block = self.module[self.function].body.blocks[self.block]
        variables = enumerate(binding.var for binding in block.bindings[:])
        left = {number: self.left[var] for number, var in variables if var in self.left}
        return Job(
            text,
            self.function,
            self.block,
            left,
            tuple(region.indices for region in regions),
            device,
            bounds,
            replace(options, dump=None, cache=None),
            dict(libraries),
            seconds,
        )


@dataclass(frozen=True)
class Job:
    """A graph's regions, and all that their plans depend on."""

    module: str  # TVM's JSON
    function: str
    block: int
    left: Mapping[int, str]  # bindings that may not be stitched, and why
    indices: tuple[tuple[int, ...], ...]  # the nodes of every region
    device: Device
    bounds: Bounds
    options: Options
    libraries: Mapping[str, str | None]  # why one cannot be called, if it cannot
    seconds: float

    @cached_property
    def regions(self) -> Sequence[Region]:
        """Those of the graph, read anew; ValueError if they are others here."""
        mod = module_of(self.module)
        block = mod[self.function].body.blocks[self.block]
        left = {block.bindings[number].var: why for number, why in self.left.items()}
        read = read_block(mod, block, dict(self.bounds.of)).without(left)
        graph = with_dequantized_weights(read, self.device, self.bounds, self.options)
        found = find_regions(graph)
        if tuple(region.indices for region in found) != self.indices:
            raise ValueError("regions of a graph that was sent are not those of the graph")
        return found


@dataclass(frozen=True)
class Found:
    """A RegionPlan without its kernels."""

    plan: RegionPlan
    # For each pick that has a kernel, what it computes for others, written or not, and its cost.
    kernels: tuple[tuple[tuple[Value, ...], float] | None, ...]

    @staticmethod
    def of(plan: RegionPlan) -> Found:
        """What is left of a plan that can be sent."""
        picks = tuple(replace(pick, verdict=None) for pick in plan.picks)
        kernels = tuple(None if p.verdict is None else _kernel(p.verdict) for p in plan.picks)
        return Found(replace(plan, picks=picks), kernels)

    def restored(self, judge: Judge) -> RegionPlan | None:
        """The plan with kernels that are found here; None if they are others."""
        picks = []
        for pick, kernel in zip(self.plan.picks, self.kernels, strict=True):
            if kernel is not None:
                outputs, cost_us = kernel
                verdict = judged(judge, pick, outputs)
                if isinstance(verdict, Refused) or verdict.cost_us != cost_us:
                    return None
                pick = replace(pick, verdict=verdict)
            picks.append(pick)
        return replace(self.plan, picks=tuple(picks))


def _kernel(verdict: Verdict) -> tuple[tuple[Value, ...], float]:
    values = sorted((*verdict.outputs, *verdict.spare), key=lambda value: value.number)
    return tuple(values), verdict.cost_us
