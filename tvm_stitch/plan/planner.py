"""Which operators become one kernel: the best plan of a whole dataflow block.

In: a StitchGraph, a Device and Options. Out: a Plan. Regions that are equal up to renaming are
solved once; then independent kernels that are short share launches.
"""

from __future__ import annotations

import warnings
from collections import ChainMap, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from tvm_stitch import timing
from tvm_stitch.device import Device
from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.options import Options
from tvm_stitch.plan.cuts import cuts_within, find_cuts
from tvm_stitch.plan.deadline import NEVER, Deadline
from tvm_stitch.plan.lone_products import lone_products
from tvm_stitch.plan.measured import counted
from tvm_stitch.plan.pack import Item, Pack, Rank, holding, pack
from tvm_stitch.plan.plan import OPTIMAL, Fallback, Group, Measured, Plan, Solved
from tvm_stitch.plan.processes.elsewhere import Elsewhere
from tvm_stitch.plan.processes.job import Source
from tvm_stitch.plan.region_plan import RegionPlan, holding_plan, left_to_tvm, not_planned
from tvm_stitch.plan.regions.levels import find_levels, find_regions
from tvm_stitch.plan.regions.region import Region, bits, own_products
from tvm_stitch.plan.search.candidates import Way
from tvm_stitch.plan.search.judge import Answers, Judge
from tvm_stitch.plan.search.price import separate_us
from tvm_stitch.plan.shared import once
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Var

Timed = Callable[[Region, Plan], Measured]

UNUSED = "nothing of it is used"
FASTER_BY_DEFAULT = "TVM's default kernel is predicted to be faster"


class Known:
    """What is known of regions and sets of equal structure, of blocks planned in the same way."""

    def __init__(self, others: Known | None = None) -> None:
        """`others` is known of another module that is planned so: what is new is known of both."""
        # Those of this module alone, and those that others find as well.
        self.plans: ChainMap[Hashable, RegionPlan] = ChainMap(
            {}, {} if others is None else others.plans.maps[-1]
        )
        # Nodes of kernels that shared a launch, until TVM had merged them.
        self.separate: set[frozenset[int]] = set()
        self._answers: dict[Bounds, Answers] = (
            defaultdict(Answers) if others is None else others._answers
        )
        self._deadline: Deadline | None = None

    @staticmethod
    def of(target: str, options: Options, explained: bool) -> Known:
        """What is known before a module is planned: something, within `shared_work`."""
        if options.measure:  # plans depend on a clock
            return Known()
        key = "known", target, repr(options), explained
        return Known(once(lambda: key, Known))

    def keep(self, key: Hashable, plan: RegionPlan, options: Options) -> None:
        """Note the plan of a region; one that the clock cut short is no other module's."""
        self.plans.maps[0 if self.deadline(options).is_over else -1][key] = plan

    def deadline(self, options: Options) -> Deadline:
        """When planning must be done; its time begins where it is asked first."""
        if options.time_limit_s == 0:  # nothing but the simple rule
            return NEVER
        if self._deadline is None:
            self._deadline = Deadline.after(options.time_limit_s)
        return self._deadline

    def anew(self) -> Known:
        """Nothing known but when planning must be done: for other options."""
        known = Known()
        known._deadline = self._deadline
        return known

    def answers(self, bounds: Bounds) -> Answers:
        """Of sets of nodes; symbols of one name may have other bounds elsewhere."""
        return self._answers[bounds]


def plan_graph(
    graph: StitchGraph,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    options: Options | None = None,
    explained: bool = False,
    timed: Timed | None = None,
    known: Known | None = None,
    source: Source | None = None,
) -> Plan:
    """The plan of a dataflow block; with the reasons of its cuts if it is to be explained.

    `timed` measures a region with its plan and without: the faster is kept. `known` comes
    from blocks planned in the same way; it takes up what is new. Where the graph was read from,
    `source`, lets other processes plan regions of it.
    """
    chosen = options or Options()
    if chosen.time_limit_s == 0 and chosen.solver != "greedy":
        warnings.warn("a time limit of 0: kernels are grouped by a simple rule", stacklevel=2)
    known = known or Known()
    deadline = known.deadline(chosen)  # its time begins
    regions = find_regions(graph)
    elsewhere = Elsewhere(
        None if explained or timed else source, regions, device, bounds, chosen, deadline
    )
    plans = _plan_regions(regions, device, bounds, chosen, explained, timed, known, elsewhere)
    ended = (index for r, p in zip(regions, plans, strict=True) for index in _ended(r, p))
    lone = lone_products(graph, ended, device, bounds, chosen, known.answers(bounds), deadline)
    plan = _assembled(graph, regions, plans, device, bounds, chosen, known, tuple(lone))
    cuts = find_cuts(graph, regions, plans) if explained else ()
    return replace(plan, cuts=cuts, measured=counted(plan.measured for plan in plans))


def _assembled(
    graph: StitchGraph,
    regions: Sequence[Region],
    plans: Sequence[RegionPlan],
    device: Device,
    bounds: Bounds,
    options: Options,
    known: Known,
    lone: Sequence[Item] = (),
) -> Plan:
    """The plans of regions as one, short independent kernels in common launches.

    And products that no region's kernel computes, if they share one.
    """
    items = [
        item for region, plan in zip(regions, plans, strict=True) for item in _items(region, plan)
    ]
    items += lone
    if "independent" in options.schemes:
        available = _available(graph, regions, plans)
        deadline, largest = known.deadline(options), options.largest_kernel
        packed = pack(items, available, options.launch_us, largest, deadline, known.separate)
        packs = holding(packed, known.answers(bounds).checked)
    else:
        packs = list(map(Pack.of, items))
    packs = [each for each in packs if len(each.items) > 1 or not each.items[0].is_lone]
    own = frozenset(lone)
    shared = [item for each in packs for item in each.items if item in own]
    kept, fallbacks, reasons = _left(graph, regions, plans, shared)
    groups = sorted(map(_group, packs), key=lambda group: group.nodes)
    solved = _summary(regions, plans, device, options)
    return Plan(tuple(groups), fallbacks, reasons, kept, solved=solved)


def _plan_regions(
    regions: Sequence[Region],
    device: Device,
    bounds: Bounds,
    options: Options,
    explained: bool,
    timed: Timed | None,
    known: Known,
    elsewhere: Elsewhere,
) -> list[RegionPlan]:
    """A plan for each region; equal regions have the same.

    Once the time for all of them is up, those that are left are TVM's.
    """
    answers = known.answers(bounds)
    found: list[RegionPlan] = []

    def unknown() -> list[int]:
        first: dict[Hashable, int] = {}
        for number, region in enumerate(regions):
            first.setdefault((bounds, region.key), number)
        return [number for key, number in first.items() if key not in known.plans]

    for number, region in enumerate(regions):
        timing.step(timing.PLANNING, number, len(regions))
        key = bounds, region.key
        if key not in known.plans and known.deadline(options).is_over:
            known.keep(key, not_planned(region), options)
        if key not in known.plans:
            judge = Judge(region, device, bounds, options.ways, answers)
            told = elsewhere.plan(number, unknown)
            plan = (told and told.restored(judge)) or holding_plan(
                region, judge, options, known.deadline(options), explained
            )
            if timed is not None:
                plan = _faster(region, plan, device, bounds, options, known, timed)
            if explained and not known.deadline(options).is_over:
                plan = replace(plan, cuts=cuts_within(region, judge, plan.picks))
            known.keep(key, plan, options)
        found.append(known.plans[key])
    return found


def _faster(
    region: Region,
    plan: RegionPlan,
    device: Device,
    bounds: Bounds,
    options: Options,
    known: Known,
    timed: Timed,
) -> RegionPlan:
    """The region's plan, or none of it where TVM's kernels are faster by the clock."""
    alone = _assembled(region.graph, (region,), (plan,), device, bounds, options, known)
    if not alone.groups:
        return plan
    found = timed(region, alone)
    if found.is_default_faster:
        plan = left_to_tvm(region, plan, f"measured: {found}")
    return replace(plan, measured=found)


def _items(region: Region, plan: RegionPlan) -> list[Item]:
    """What becomes a function of its own: stitched kernels."""
    return [
        Item(
            region,
            (*region.rank, depth),
            pick.nodes,
            pick.outputs,
            pick.cost_us,
            separate_us,
            pick.verdict,
            tuple(own_products(region)[number] for number in pick.products),
        )
        for pick, separate_us, depth in zip(plan.picks, plan.separate_us, plan.depths, strict=True)
        if pick.verdict is not None
    ]


def _ended(region: Region, plan: RegionPlan) -> Iterator[int]:
    """The products of the graph that a region's kernels compute."""
    products = own_products(region)
    return (products[number] for pick in plan.picks if pick.verdict for number in pick.products)


def _available(
    graph: StitchGraph, regions: Sequence[Region], plans: Sequence[RegionPlan]
) -> dict[Var, Rank]:
    """From which rank on there is what no group computes."""
    found: dict[Var, Rank] = {}
    levels = find_levels(graph)
    for node in graph.nodes:
        if node.reason:
            for var in node.results:
                if var in graph.buffers:
                    found[graph.buffer(var)] = levels[node.index] + 1, 0, 0
    for symbol, var in graph.found_by.items():
        found[symbol] = levels[graph.producer[var]] + 1, 0, 0
    for region, plan in zip(regions, plans, strict=True):
        for pick, depth in zip(plan.picks, plan.depths, strict=True):
            if pick.verdict is None:
                for value in pick.outputs:
                    after = depth + (pick.way is not Way.VIEW)
                    found[region.buffer(value)] = *region.rank, after
    return found


def _group(found: Pack) -> Group:
    """The group of a pack; nodes and outputs are the graph's."""
    indices = {item.region.indices[place] for item in found.items for place in bits(item.nodes)}
    products = [product for item in found.items for product in item.products]
    indices.update(products)
    operators = sum(not item.region.is_view(p) for item in found.items for p in bits(item.nodes))
    return Group(
        tuple(sorted(indices)),
        tuple(item.region.var(value) for item in found.items for value in item.outputs),
        cost_us=found.cost_us,
        separate_us=sum(item.separate_us for item in found.items),
        bytes_saved=sum(_bytes_saved(item) for item in found.items),
        launches_saved=operators + len(products) - 1,
        kernels=len(found.items),
    )


def _bytes_saved(item: Item) -> int:
    """What its operators would write and read again in kernels of their own."""
    region, total = item.region, 0
    for product in item.products:
        result = region.graph.buffer(region.graph.nodes[product].results[0])
        total += NOMINAL.bytes(result) * (1 + (region.readers[result] & item.nodes).bit_count())
    for place in bits(item.nodes):
        for value in region.values_of[place]:
            inside = value.users & item.nodes
            if inside and not region.is_view(place):
                times = inside.bit_count() + (value not in item.outputs)
                total += times * NOMINAL.bytes(region.buffer(value))
    return total


def _left(
    graph: StitchGraph,
    regions: Sequence[Region],
    plans: Sequence[RegionPlan],
    shared: Iterable[Item],
) -> tuple[frozenset[int], tuple[Fallback, ...], tuple[tuple[int, str], ...]]:
    """Nodes that stay as they are; of those that are kernels the reason; and all reasons."""
    in_launches = {index for item in shared for index in item.computed}
    reasons = {
        node.index: node.reason
        for node in graph.nodes
        if node.reason and node.index not in in_launches
    }
    kept: set[int] = set()
    for region, plan in zip(regions, plans, strict=True):
        grouped = 0
        for pick in plan.picks:
            if pick.verdict is not None:
                grouped |= pick.nodes
                for number in pick.products:
                    del reasons[own_products(region)[number]]
                continue
            for place in bits(pick.nodes):
                kept.add(region.indices[place])
                if pick.way is not Way.VIEW:
                    reasons[region.indices[place]] = pick.why or FASTER_BY_DEFAULT
        for place in bits(region.everything & ~grouped):
            reasons.setdefault(region.indices[place], UNUSED)
    reported = tuple(
        Fallback(graph.nodes[index].name, reason)
        for index, reason in sorted(reasons.items())
        if graph.nodes[index].pattern is not Pattern.RESHAPE and graph.nodes[index].is_operator
    )
    return frozenset(kept), reported, tuple(sorted(reasons.items()))


def _summary(
    regions: Sequence[Region], plans: Sequence[RegionPlan], device: Device, options: Options
) -> Solved:
    """All regions together; the status that is furthest from optimal."""
    later = [region.part for region in regions if region.part]
    parts = len(later) + later.count(1)  # with the first of each
    parts_us = sum(separate_us(region.crossing, device, options.launch_us) for region in regions)
    distinct = {id(plan): plan.solved for plan in plans}
    statuses = [solved.status for solved in distinct.values()]
    return Solved(
        cost_us=sum(plan.solved.cost_us for plan in plans),
        greedy_us=sum(plan.solved.greedy_us for plan in plans),
        default_us=sum(plan.solved.default_us for plan in plans),
        bound_us=max(0.0, sum(plan.solved.bound_us for plan in plans) - parts_us),
        status=next((status for status in statuses if status != OPTIMAL), OPTIMAL),
        regions=len(plans),
        distinct=len(distinct),
        candidates=sum(solved.candidates for solved in distinct.values()),
        cycles=sum(solved.cycles for solved in distinct.values()),
        parts=parts,
        parts_us=parts_us,
    )
