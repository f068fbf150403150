"""The best kernels for one region.

In: a Region and its Judge. Out: a RegionPlan, in terms of places and value numbers, so that it
holds for every equal region.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tvm_stitch.options import Options
from tvm_stitch.plan.deadline import NOT_PLANNED, REACHED, Deadline
from tvm_stitch.plan.integer_program import SolverMissing
from tvm_stitch.plan.plan import OPTIMAL, Measured, Solved
from tvm_stitch.plan.problem import Choice, Problem, in_order
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.candidates import (
    Candidate,
    Candidates,
    Way,
    each_alone,
    find_candidates,
)
from tvm_stitch.plan.search.judge import Judge, Verdict
from tvm_stitch.plan.search.whole import one_kernel, whole_kernel
from tvm_stitch.plan.solve import Solution, solve
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

# Plans of a region whose kernels check_kernel refuses, before all of it is left to TVM.
MAX_REPLANS = 8


@dataclass(frozen=True)
class RegionPlan:
    """The candidates that are taken, in an order in which they can run."""

    picks: tuple[Candidate, ...]
    separate_us: tuple[float, ...]  # for each pick, its operators in kernels of their own
    depths: tuple[int, ...]  # for each pick, the kernels that must run before it
    solved: Solved
    cuts: tuple[RegionCut, ...] = ()
    measured: Measured | None = None


@dataclass(frozen=True)
class RegionCut:
    """A value that goes from one pick to another through memory, and why."""

    value: Value
    writer: Nodes
    reader: Nodes
    reason: str


def holding_plan(
    region: Region, judge: Judge, options: Options, deadline: Deadline, explained: bool = False
) -> RegionPlan:
    """A plan all of whose kernels pass their check; what does not is planned anew without."""
    for _ in range(MAX_REPLANS):
        plan = plan_region(region, judge, options, deadline, explained)
        refused = judge.revoked(pick.verdict for pick in plan.picks if pick.verdict)
        if not refused:
            return plan
    return left_to_tvm(region, plan, refused[0].reason)


def plan_region(
    region: Region, judge: Judge, options: Options, deadline: Deadline, explained: bool = False
) -> RegionPlan:
    """One kernel where no more can be better; else find candidates and choose among them.

    Once the time is up, one kernel will do; operators that none has been found for are TVM's.

    What operators cost separately is not known of one kernel unless it is to be explained.
    """
    whole, status = whole_kernel(region, judge, options), OPTIMAL
    if whole is None and deadline.is_over:
        whole, status = one_kernel(region, judge, options), REACHED
    if whole is None:
        return _of_candidates(region, judge, options, deadline)
    alone = each_alone(region, judge, options, deadline) if explained else ()
    return _of_one_kernel(region, judge, whole, options, alone, status)


def _of_one_kernel(
    region: Region,
    judge: Judge,
    whole: Verdict,
    options: Options,
    alone: tuple[Candidate, ...],
    status: str,
) -> RegionPlan:
    nodes = region.without_views(region.everything)
    cost = whole.cost_us + options.launch_us
    kernel = Candidate(nodes, whole.outputs, (), Way.STITCHED, cost, whole)
    views = tuple(
        _by_itself(region, place, Way.VIEW)
        for place in bits(region.everything & ~nodes)
        if region.leaving(1 << place)
    )
    picks = (kernel, *views)
    cost += sum(product.cost_us + options.launch_us for product in judge.products())
    bound = cost if status == OPTIMAL else 0.0
    solved = Solved(
        cost, cost, _default_us(alone), bound, status, regions=1, distinct=1, candidates=1
    )
    return RegionPlan(picks, _separate_us(picks, alone), _depths(picks), solved)


def _of_candidates(
    region: Region, judge: Judge, options: Options, deadline: Deadline
) -> RegionPlan:
    candidates = find_candidates(region, judge, options, deadline)
    problem = problem_of(region, candidates, options)
    solution = _solve(problem, candidates, options, deadline)
    order = in_order(problem, solution.chosen)
    assert order is not None, "neither the solver nor the simple rule closes a cycle"
    picks = _written_once(judge, tuple(candidates.all[number] for number in order))
    if picks is None:
        order = in_order(problem, candidates.greedy) or ()
        picks = tuple(candidates.all[number] for number in order)
    solved = Solved(
        cost_us=sum(pick.cost_us for pick in picks),
        greedy_us=sum(candidates.all[number].cost_us for number in candidates.greedy),
        default_us=_default_us(candidates.all),
        bound_us=min(solution.bound, sum(pick.cost_us for pick in picks)),
        status=solution.status,
        regions=1,
        distinct=1,
        candidates=len(candidates.all),
        cycles=solution.cuts,
    )
    return RegionPlan(picks, _separate_us(picks, candidates.all), _depths(picks), solved)


def not_planned(region: Region) -> RegionPlan:
    """The region left to TVM as planning's time was up before it; what it costs is not known."""
    solved = Solved(status=REACHED, regions=1, distinct=1)
    return left_to_tvm(region, RegionPlan((), (), (), solved), NOT_PLANNED)


def left_to_tvm(region: Region, plan: RegionPlan, why: str) -> RegionPlan:
    """The region without a group: TVM fuses its operators as it likes."""
    picks = tuple(
        _by_itself(region, place, Way.VIEW if node.pattern is Pattern.RESHAPE else Way.DEFAULT, why)
        for place, node in enumerate(region.nodes)
        if region.leaving(1 << place)
    )
    solved = replace(plan.solved, cost_us=plan.solved.default_us)
    return replace(
        plan, picks=picks, separate_us=(0.0,) * len(picks), depths=_depths(picks), solved=solved
    )


def _by_itself(region: Region, place: int, way: Way, why: str = "") -> Candidate:
    nodes = 1 << place
    return Candidate(nodes, region.leaving(nodes), region.entering(nodes), way, 0.0, why=why)


def problem_of(region: Region, candidates: Candidates, options: Options) -> Problem:
    """The choice among a region's candidates, as the solver takes it."""
    bytes_of = [0 if v.needed else NOMINAL.bytes(region.buffer(v)) for v in region.values]
    readers = _readers_of_products(region, candidates)
    choices = tuple(
        Choice(
            cost=candidate.cost_us,
            reads=frozenset(value.number for value in candidate.reads).union(
                name
                for name, nodes in readers.items()
                if nodes & candidate.nodes and name not in _products(candidate)
            ),
            writes=frozenset(value.number for value in candidate.outputs).union(
                () if candidate.nodes else _products(candidate)
            ),
            covers=frozenset([*bits(candidate.nodes), *_products(candidate)]),
            memory=sum(bytes_of[v.number] for v in candidate.outputs if candidate.way != Way.VIEW),
        )
        for candidate in candidates.all
    )
    needed = frozenset(value.number for value in region.values if value.needed)
    ends = (
        1 << value.node | region.ancestors[value.node] for value in region.values if value.needed
    )
    required = frozenset(place for nodes in ends for place in bits(nodes)).union(readers)
    return Problem(choices, needed, options.partition, options.workspace_bytes, required)


def _products(candidate: Candidate) -> tuple[str, ...]:
    """The products that a kernel computes, as the solver names them."""
    return tuple(f"product {number}" for number in candidate.products)


def _readers_of_products(region: Region, candidates: Candidates) -> dict[str, Nodes]:
    """Who reads the result of each product that is a candidate: by itself it is stored for them."""
    graph, found = region.graph, {}
    own = own_products(region)
    for candidate in candidates.all:
        if candidate.products and not candidate.nodes:
            ((number,), (name,)) = candidate.products, _products(candidate)
            (result,) = graph.nodes[own[number]].results
            found[name] = region.readers[graph.buffer(result)]
    return found


def _solve(
    problem: Problem, candidates: Candidates, options: Options, deadline: Deadline
) -> Solution:
    cost = problem.cost(candidates.greedy)
    greedy = Solution(candidates.greedy, cost, 0.0, "simple rule")
    if options.solver == "greedy":
        return greedy
    if options.time_limit_s == 0 or deadline.is_over:
        return replace(greedy, status=REACHED)
    try:
        found = solve(problem, candidates.greedy, deadline, options.deterministic)
    except SolverMissing as missing:
        warnings.warn(f"{missing}; kernels are grouped by a simple rule", stacklevel=2)
        return replace(greedy, status=f"simple rule: {missing}")
    return found or greedy


def _written_once(judge: Judge, picks: tuple[Candidate, ...]) -> tuple[Candidate, ...] | None:
    """Where several kernels would write a value, only the first does; None if one cannot but."""
    written: set[Value] = set()
    found: list[Candidate] = []
    for pick in picks:
        outputs = tuple(value for value in pick.outputs if value not in written)
        written.update(outputs)
        if pick.outputs and not outputs:
            continue
        if outputs != pick.outputs:
            verdict = judged(judge, pick, outputs)
            if pick.verdict is None or isinstance(verdict, Refused) or verdict.spare:
                return None
            cost = pick.cost_us - pick.verdict.cost_us + verdict.cost_us
            pick = replace(pick, outputs=outputs, cost_us=cost, verdict=verdict)
        found.append(pick)
    return tuple(found)


def judged(judge: Judge, pick: Candidate, outputs: tuple[Value, ...]) -> Verdict | Refused:
    """The verdict on what a candidate computes, with these values for others."""
    if not pick.products:
        return judge(pick.nodes, outputs)
    own = own_products(judge.region)
    return judge.ending(tuple(own[number] for number in pick.products), pick.nodes, outputs)


def _separate_us(picks: Iterable[Candidate], among: Iterable[Candidate]) -> tuple[float, ...]:
    """For each pick, the cheapest kernels of its nodes by themselves."""
    alone: dict[Nodes, float] = {}
    products: dict[int, float] = {}
    for candidate in among:
        if not candidate.products:
            known = alone.get(candidate.nodes, candidate.cost_us)
            alone[candidate.nodes] = min(known, candidate.cost_us)
        elif not candidate.nodes:
            products[candidate.products[0]] = candidate.cost_us
    return tuple(
        sum(alone.get(1 << place, 0.0) for place in bits(pick.nodes))
        + sum(products.get(number, 0.0) for number in pick.products)
        for pick in picks
    )


def _default_us(among: Iterable[Candidate]) -> float:
    """Every node TVM's way, by itself, and the products."""
    ways = (Way.DEFAULT, Way.VIEW, Way.PRODUCT)
    alone = (c for c in among if c.way in ways)
    return sum(c.cost_us for c in alone if c.nodes.bit_count() + len(c.products) == 1)


def _depths(picks: tuple[Candidate, ...]) -> tuple[int, ...]:
    """How many picks each waits for, on the longest way; views take no rank of their own."""
    writer: dict[Value, int] = {}
    found: list[int] = []
    for number, pick in enumerate(picks):
        before = [writer[value] for value in pick.reads if value in writer]
        found.append(max((found[w] + (picks[w].way != Way.VIEW) for w in before), default=0))
        for value in pick.outputs:
            writer[value] = number
    return tuple(found)
