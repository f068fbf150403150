"""Plans again, with fewer operators, while TVM's own fusion would launch fewer kernels.

In: a module before decomposition. Out: the module after StitchOps, such that nowhere more kernels
are launched than by TVM's default pipeline unless they take less time, and no operator is written
out of which no stitched kernel takes a part. What is left to TVM goes its way as it came: whole
operators, fused by FuseOps. Must not know how plans are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.device import device_of
from tvm_stitch.graph.back.default_fusion import DefaultKernel, Numbers, default_kernels
from tvm_stitch.graph.back.launches import nests, outside_calls
from tvm_stitch.graph.back.merged_groups import Chooser, MergedGroup, refused_groups
from tvm_stitch.graph.front.convolution import has_direct
from tvm_stitch.graph.front.decompose import Decomposed, decomposed
from tvm_stitch.graph.front.functions.erf import SumOfErf
from tvm_stitch.graph.front.legalize import Legalize
from tvm_stitch.graph.front.origins import are_as_they_came, followed, needed, numbered
from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.kernel.ir.placing import ComputedAgain
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.library.convolution import NAME as CONVOLUTION
from tvm_stitch.options import Options
from tvm_stitch.plan.measured import all_measured
from tvm_stitch.plan.plan import Plan
from tvm_stitch.plan.planner import Known
from tvm_stitch.stages.stage import Refused
from tvm_stitch.transform import Grouped, bounds_of_module, grouped
from tvm_stitch.tvm_default.compare_launches import Launched, connected, to_give_up
from tvm_stitch.workarounds.few_collections import few_collections

# Plans of a module, before all operators of a comparison that is lost are left to TVM.
MOST_ATTEMPTS = 6
# The plan has weighed what products can end with: what TVM merges must be this much faster; where
# there are none, it must be this much slower.
MERGED_MARGIN = 1.1
MERGES_EQUALS = "EliminateCommonSubexpr"
INDEPENDENT = "independent"

_REDUCTIONS = {
    f"relax.{name}"
    for name in (
        "sum", "mean", "max", "min", "prod", "variance", "std", "matmul",
        "nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm", "nn.group_norm",
        "nn.conv1d", "nn.conv2d", "nn.conv3d",
    )
}  # fmt: skip

# Receives what became of a module: the graph and plan of each dataflow block, and the operators
# that were left to TVM after all, by number, with the reasons.
Heard = Callable[[Sequence[tuple[StitchGraph, Plan]], Mapping[int, str]], None]


class Settling:
    """The passes Decompose and StitchOps of a pipeline, the second of which may go back."""

    def __init__(
        self,
        target: tvm.target.Target,
        options: Options | None,
        between: Sequence[tvm.transform.Pass],
        schedules: Callable[[tvm.IRModule], tvm.IRModule],
        heard: Heard | None = None,
    ) -> None:
        """`between` are the passes between the two, `schedules` make TVM's default kernels."""
        self.target, self.options = target, options or Options()
        self.between, self.schedules = between, schedules
        self._heard = heard
        self._way: _Way | None = None

    @property
    def explained(self) -> bool:
        """Whether somebody wants to read the plans."""
        return self._heard is not None

    def Decompose(self) -> tvm.transform.Pass:
        """The pass; what comes into it is what StitchOps goes back to."""

        @tvm.transform.module_pass(opt_level=0, name="Decompose")
        def decompose(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
            self._way = _Way(self, relax.transform.Normalize()(mod))
            return self._way.decompose()

        return decompose

    def StitchOps(self) -> tvm.transform.Pass:
        """The pass; it goes through those before it again while a plan can be improved."""

        @tvm.transform.module_pass(opt_level=0, name="StitchOps")
        def stitch_ops(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
            assert self._way is not None, "Decompose comes first"
            with few_collections():
                found = self._way.settled(mod)
            if self._heard is not None:
                self._heard(found.blocks, self._way.left)
            return found.module

        return stitch_ops


class _Way:
    """What is known of one module."""

    def __init__(self, settling: Settling, source: tvm.IRModule) -> None:
        self.settling, self.source = settling, source
        pinned = settling.options.plan
        self.is_pinned = pinned is not None
        self.left: dict[int, str] = dict(pinned.left) if pinned is not None else {}
        self._numbers = numbered(source)
        self._decomposed: Decomposed | None = None
        self._legalized = source  # once it is: as it is planned first
        self._known = Known.of(str(settling.target), settling.options, settling.explained)
        self._merges_equals = True
        self._options = settling.options

    @property
    def decomposed(self) -> Decomposed:
        """The module of this attempt."""
        assert self._decomposed is not None
        return self._decomposed

    def decompose(self) -> tvm.IRModule:
        """The module with its operators written out, but for those that are left."""
        left, rounds = self.left.keys(), self._options.tf32_products
        self._decomposed = decomposed(self.source, self._numbers, left, rounds)
        return SumOfErf()(self._decomposed.module)

    def settled(self, mod: tvm.IRModule) -> Grouped:
        """The module's groups, planned until nothing is worse than TVM's way."""
        self._legalized, attempts = mod, 1
        found = self._grouped(mod)
        measured = [plan.measured for _, plan in found.blocks]
        while not self.is_pinned and not self._known.deadline(self._options).is_over:
            planned_as = self._planned_as
            more = self._worse(found, everything=attempts >= MOST_ATTEMPTS)
            if more.keys() <= self.left.keys() and planned_as == self._planned_as:
                break
            self.left = {**more, **self.left}
            attempts += 1
            found = self._grouped(tvm.transform.Sequential(self._between())(self.decompose()))
            again = [plan.measured for _, plan in found.blocks]
            measured = list(map(all_measured, measured, again))
        return replace(
            found,
            blocks=tuple(
                (graph, replace(plan, measured=each, origins=self._origins(graph)))
                for (graph, plan), each in zip(found.blocks, measured, strict=True)
            ),
        )

    @property
    def _planned_as(self) -> tuple[object, ...]:
        """How it is planned, but for what is left to TVM."""
        return self._merges_equals, self._options, frozenset(self._known.separate)

    def _between(self) -> list[tvm.transform.Pass]:
        passes = self.settling.between
        return [p for p in passes if self._merges_equals or p.info.name != MERGES_EQUALS]

    def _grouped(self, mod: tvm.IRModule) -> Grouped:
        numbers = followed(self.decomposed.numbers, self.decomposed.module, mod)
        self._decomposed = replace(self.decomposed, numbers=numbers)
        left = {var: self.left[n] for var, n in numbers.items() if n in self.left}
        target, explained = self.settling.target, self.settling.explained
        return grouped(mod, target, self._options, explained, left, self._known)

    def _worse(self, found: Grouped, everything: bool) -> dict[int, str]:
        """Operators that are better left to TVM, with the reason."""
        refused = self._refused(found)
        if refused and INDEPENDENT in self._options.schemes:
            self._share_less(found, refused, everything)
            return {}
        if refused:
            return refused
        stitched = [
            Launched(
                self._of_nodes(graph, group.nodes),
                group,
                holds_product=any(graph.nodes[index].reason for index in group.nodes),
            )
            for graph, plan in found.blocks
            for group in plan.groups
        ]
        reasons = self._reasons(found)
        vain = self.decomposed.others.difference(*(each.numbers for each in stitched))
        if vain & reasons.keys():
            return {number: reasons[number] for number in vain & reasons.keys()}
        default = _by_default(found.grouped, self.decomposed.numbers)
        if self._is_least([*stitched, *default]) or self._wants_more or self._tvm is None:
            return {}
        written = self.decomposed.halves | self.decomposed.others
        worse: dict[int, str] = {}
        for ours, theirs in connected([*stitched, *default], self._tvm):
            if len(ours) <= len(theirs) and all(each.group for each in ours):
                continue
            reason = self._lost(ours, theirs)
            if not reason or self._is_no_slower(ours, theirs):
                continue
            dropped = ours if everything else to_give_up(ours, theirs, self._count)
            numbers = {number for each in dropped for number in each.numbers}
            if not dropped:
                numbers = {number for each in ours for number in each.numbers & written}
                # A value that is computed once, for two readers, ends TVM's kernel.
                self._merges_equals = self._merges_equals and bool(numbers - self.left.keys())
            worse.update({number: reasons.get(number, reason) for number in numbers})
        return worse

    @property
    def _wants_more(self) -> bool:
        """Whether launches do not count: small kernels were asked for, or something convolves.

        A library wants other layouts: a group norm before a convolution of 8 x 320 x 64 x 64 halves
        takes an H200 1742 us by TVM, 60 with transposes. Depthwise ones want transposed weights.
        """
        if CONVOLUTION in outside_calls(self.source) or has_direct(self.source):
            return True
        return self.settling.options.largest_kernel < Options().largest_kernel

    def _is_least(self, ours: Sequence[Launched]) -> bool:
        """Whether each kernel holds an operator of its own that TVM launches a kernel for as well:
        so it is in most models, which spares them what TVM would make of them."""
        taken: set[int] = set()
        for each in ours:
            own = next(iter((each.numbers & self._launched) - taken), None)
            if own is None:
                return False
            taken.add(own)
        return True

    @cached_property
    def _launched(self) -> frozenset[int]:
        """Operators of which FuseOps never puts two into one kernel."""
        return frozenset(
            self._numbers[binding.var]
            for function in self.source.functions.values()
            if isinstance(function, relax.Function)
            for block in function.body.blocks
            for binding in block.bindings
            if isinstance(binding.value, tvm.ir.Call)
            and getattr(binding.value.op, "name", "") in _REDUCTIONS
        )

    def _lost(self, ours: Sequence[Launched], theirs: Sequence[Launched]) -> str:
        """Why TVM is to take these operators, if it takes fewer launches."""
        mine = sum(map(self._count, ours))
        if mine <= len(theirs):  # which launch one kernel each at least: nothing to be scheduled
            return ""
        least = sum(map(self._count, theirs))
        if mine <= least:
            return ""
        launches = "1 launch" if least == 1 else f"{least} launches"
        return f"TVM's own fusion takes {launches} where stitching would take {mine}"

    def _is_no_slower(self, ours: Sequence[Launched], theirs: Sequence[Launched]) -> bool:
        """Whether more launches take no more time: by more products of ours, or by their costs.

        Without products, where FuseOps computes the same again for many readers.
        """
        default = ([e.default for e in side if e.default is not None] for side in (ours, theirs))
        found, fused = (list(map(self._kernel, side)) for side in default)
        if any(isinstance(each, ComputedAgain) for each in fused):
            return True  # launches are not what takes TVM's time
        mine, merged = ([k for k in side if isinstance(k, Kernel)] for side in (found, fused))
        groups = [each.group for each in ours if each.group is not None]
        products = sum(k.is_product for k in mine) + sum(each.holds_product for each in ours)
        theirs_products = sum(kernel.is_product for kernel in merged)
        if products != theirs_products:
            return products > theirs_products
        if len(mine) + len(groups) != len(ours) or len(merged) != len(theirs):
            return False  # the time of others is not known
        launch = self.settling.options.launch_us
        ours_us = sum(g.cost_us for g in groups) + sum(k.cost_us for k in mine)
        ours_us += launch * len(ours)
        theirs_us = sum(each.cost_us for each in merged) + launch * len(theirs)
        return ours_us < (MERGED_MARGIN if products else 1 / MERGED_MARGIN) * theirs_us

    def _kernel(self, kernel: DefaultKernel) -> Kernel | Refused:
        """The kernel of ours that what TVM puts together becomes, if any."""
        try:
            return self._chooser.of_function(kernel.function())
        except Exception as error:  # TVM does not merge them: then there is no such kernel
            return Refused(str(error))

    @cached_property
    def _chooser(self) -> Chooser:
        bounds = bounds_of_module(self.source, self.settling.options)
        schemes = self.settling.options.ways
        return Chooser(device_of(self.settling.target), bounds, schemes)

    def _of_nodes(self, graph: StitchGraph, nodes: Iterable[int]) -> Numbers:
        numbers = self.decomposed.numbers
        found = (numbers.get(b.var) for index in nodes for b in graph.nodes[index].bindings)
        return frozenset(number for number in found if number is not None)

    def _origins(self, graph: StitchGraph) -> tuple[int, ...]:
        return tuple(
            max(self._of_nodes(graph, [place]), default=-1) for place in range(len(graph.nodes))
        )

    def _share_less(self, found: Grouped, refused: Mapping[int, str], everything: bool) -> None:
        """Keep kernels separate that shared a refused launch: each by itself was found to be one.

        Where that is not the reason, or too many were refused, none share one.
        """
        packs = {
            frozenset(group.nodes)
            for graph, plan in found.blocks
            for group in plan.groups
            if group.kernels > 1 and self._of_nodes(graph, group.nodes) & refused.keys()
        }
        if packs - self._known.separate and not everything:
            self._known.separate |= packs
            return
        schemes = tuple(s for s in self._options.ways if s != INDEPENDENT)
        self._options, self._known = replace(self._options, schemes=schemes), self._known.anew()

    def _refused(self, found: Grouped) -> dict[int, str]:
        """The operators of groups that are something else once TVM has merged them."""
        groups = [
            MergedGroup(
                group.function,
                tuple(graph.nodes[index] for index in group.nodes),
                tuple(map(graph.buffer, group.outputs)),
                group.kernels > 1,
            )
            for graph, plan in found.blocks
            for group in plan.groups
        ]
        reasons = refused_groups(found.grouped, groups, self._chooser)
        return {
            number: reasons[group.function]
            for graph, plan in found.blocks
            for group in plan.groups
            if group.function in reasons
            for number in self._of_nodes(graph, group.nodes)
        }

    def _reasons(self, found: Grouped) -> dict[int, str]:
        """Why operators, or parts of them, were not stitched."""
        reasons: dict[int, str] = {}
        for graph, plan in found.blocks:
            for index, reason in plan.reasons:
                for number in self._of_nodes(graph, [index]):
                    reasons.setdefault(number, reason)
        return reasons

    @cached_property
    def _tvm(self) -> list[Launched] | None:
        """What TVM's default pipeline makes of the module as it came; None if it refuses it."""
        known = self.decomposed.numbers
        if are_as_they_came(self._legalized, known, needed(self.source, self._numbers)):
            return _by_default(self._legalized, known)
        passes = [
            Legalize(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.ConvertToDataflow(),
        ]
        whole = decomposed(self.source, self._numbers, frozenset(self._numbers.values()))
        with self.settling.target, tvm.transform.PassContext(opt_level=3):
            try:
                mod = tvm.transform.Sequential(passes)(whole.module)
            except Exception:  # it gives batch norms of halves another type than their results
                return None
        return _by_default(mod, followed(whole.numbers, whole.module, mod))

    def _count(self, each: Launched) -> int:
        """How many kernels TVM's schedules make of what FuseOps puts together."""
        if each.default is None or each.default.holds_product:
            return 1
        if each not in self._counts:
            self._counts[each] = self._scheduled(each.default)
        return self._counts[each]

    @cached_property
    def _counts(self) -> dict[Launched, int]:
        return {}

    def _scheduled(self, kernel: DefaultKernel) -> int:
        with self.settling.target, tvm.transform.PassContext(opt_level=3):
            try:
                mod = self.settling.schedules(tvm.IRModule({"main": kernel.function()}))
            except Exception:  # TVM builds none of it, so nothing is lost beside it
                return len(kernel.functions)
        functions = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
        return max(1, sum(len(nests(function)) for function in functions))


def _by_default(mod: tvm.IRModule, numbers: Mapping[relax.Var, int]) -> list[Launched]:
    with tvm.transform.PassContext(opt_level=3):
        kernels = default_kernels(mod, numbers)
    return [Launched(each.numbers, default=each) for each in kernels if not each.is_view]
