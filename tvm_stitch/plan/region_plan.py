"""The best kernels for one region.

In: a Region and its Judge. Out: a RegionPlan, in terms of places and value numbers, so that it
holds for every equal region.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from tvm_stitch.kernel.stage import Refused
from tvm_stitch.options import Options
from tvm_stitch.plan.candidates import Candidate, Candidates, Way, find_candidates
from tvm_stitch.plan.judge import Judge
from tvm_stitch.plan.plan import Solved
from tvm_stitch.plan.price import nominal_bytes
from tvm_stitch.plan.region import Region, Value, bits
from tvm_stitch.plan.solve import Choice, Problem, Solution, SolverMissing, solve


@dataclass(frozen=True)
class RegionPlan:
    """The candidates that are taken, in an order in which they can run."""

    picks: tuple[Candidate, ...]
    apart_us: tuple[float, ...]  # for each pick, its operators in kernels of their own
    depths: tuple[int, ...]  # for each pick, the kernels that must run before it
    refused: dict[int, str]
    solved: Solved


def plan_region(region: Region, judge: Judge, options: Options, seconds: float) -> RegionPlan:
    """Find candidates and choose among them."""
    candidates = find_candidates(region, judge, options)
    problem = _problem(region, candidates, options)
    solution = _solve(problem, candidates, options, seconds)
    picks = tuple(candidates.all[number] for number in solution.chosen)
    picks = _written_once(judge, picks) or tuple(candidates.all[n] for n in candidates.greedy)
    alone = _alone(candidates)
    apart = tuple(sum(alone[place] for place in bits(pick.nodes)) for pick in picks)
    solved = Solved(
        cost_us=sum(pick.cost_us for pick in picks),
        greedy_us=sum(candidates.all[number].cost_us for number in candidates.greedy),
        default_us=_default_us(candidates),
        bound_us=min(solution.bound, sum(pick.cost_us for pick in picks)),
        status=solution.status,
        regions=1,
        distinct=1,
        candidates=len(candidates.all),
        circles=solution.cuts,
    )
    return RegionPlan(picks, apart, _depths(picks), candidates.refused, solved)


def _problem(region: Region, candidates: Candidates, options: Options) -> Problem:
    bytes_of = [0 if v.needed else nominal_bytes(region.buffer(v)) for v in region.values]
    choices = tuple(
        Choice(
            cost=candidate.cost_us,
            reads=frozenset(value.number for value in candidate.reads),
            writes=frozenset(value.number for value in candidate.outputs),
            covers=frozenset(bits(candidate.nodes)),
            memory=sum(bytes_of[v.number] for v in candidate.outputs if candidate.way != Way.VIEW),
        )
        for candidate in candidates.all
    )
    needed = frozenset(value.number for value in region.values if value.needed)
    return Problem(choices, needed, options.partition, options.workspace_bytes)


def _solve(problem: Problem, candidates: Candidates, options: Options, seconds: float) -> Solution:
    greedy = Solution(candidates.greedy, problem.cost(candidates.greedy), 0.0, "greedy")
    if options.solver == "greedy" or not seconds > 0:
        return greedy
    try:
        found = solve(problem, candidates.greedy, options.solver, seconds, options.deterministic)
    except SolverMissing as missing:
        warnings.warn(f"{missing}; kernels are grouped by a simple rule", stacklevel=2)
        return greedy
    return found or greedy


def _written_once(judge: Judge, picks: tuple[Candidate, ...]) -> tuple[Candidate, ...] | None:
    """Where several kernels would write a value, only the first does; None if one cannot but."""
    written: set[Value] = set()
    found: list[Candidate] = []
    for pick in picks:
        outputs = tuple(value for value in pick.outputs if value not in written)
        written.update(outputs)
        if not outputs:
            continue
        if outputs != pick.outputs:
            verdict = judge(pick.nodes, outputs)
            if pick.way is not Way.STITCHED or isinstance(verdict, Refused) or verdict.spare:
                return None
            pick = Candidate(
                pick.nodes, outputs, pick.reads, pick.way, verdict.cost_us, verdict, pick.why
            )
        found.append(pick)
    return tuple(found)


def _alone(candidates: Candidates) -> dict[int, float]:
    """The cheapest kernel of each node by itself."""
    found: dict[int, float] = {}
    for candidate in candidates.all:
        if candidate.nodes.bit_count() == 1:
            place = candidate.nodes.bit_length() - 1
            found[place] = min(found.get(place, candidate.cost_us), candidate.cost_us)
    return found


def _default_us(candidates: Candidates) -> float:
    """Every node TVM's way, by itself."""
    ways = (Way.DEFAULT, Way.VIEW)
    return sum(c.cost_us for c in candidates.all if c.nodes.bit_count() == 1 and c.way in ways)


def _depths(picks: tuple[Candidate, ...]) -> tuple[int, ...]:
    """How many picks each waits for, on the longest way; views take no turn of their own."""
    writer: dict[Value, int] = {}
    found: list[int] = []
    for number, pick in enumerate(picks):
        before = [writer[value] for value in pick.reads if value in writer]
        found.append(max((found[w] + (picks[w].way != Way.VIEW) for w in before), default=0))
        for value in pick.outputs:
            writer[value] = number
    return tuple(found)
