"""The set of kernels that costs least.

In: a Problem. Out: a Solution: which choices to take, and how far from the optimum it may be.
Must not know graphs or kernels.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from tvm_stitch.plan.deadline import NEVER, REACHED, Deadline
from tvm_stitch.plan.integer_program import INFINITY, RELATIVE_GAP, IntegerProgram
from tvm_stitch.plan.problem import KERNEL_EPSILON, Problem, feasible, find_cycle, in_order

MOST_CYCLES = 100  # few programs have any
SEARCH_LIMIT = "search limit"


@dataclass(frozen=True)
class Solution:
    """Which choices to take, in an order in which they can run."""

    chosen: tuple[int, ...]
    cost: float
    bound: float  # no solution costs less
    status: str  # "optimal", "time limit", or why nothing was solved
    cuts: int = 0  # cycles that had to be forbidden

    @property
    def gap(self) -> float:
        """How much of the cost the optimum may save at most, as a share."""
        return max(0.0, (self.cost - self.bound) / self.cost) if self.cost > 0 else 0.0


def solve(
    problem: Problem,
    incumbent: Sequence[int] | None = None,
    deadline: Deadline = NEVER,
    deterministic: bool = True,
) -> Solution | None:
    """The cheapest set of choices, or the best found in time, never worse than the incumbent.

    The search ends after MOST_NODES and MOST_CYCLES, on any machine with the same answer.

    None if no set of choices does it. Raises SolverMissing.
    """
    best = _checked(problem, incumbent)
    if best is not None and is_proven_by_prices(problem, best.chosen):
        return Solution(best.chosen, best.cost, best.cost, "optimal")
    model = IntegerProgram(problem, deterministic)
    for cuts in range(MOST_CYCLES):
        if deadline.is_over:
            break
        found = model.run(deadline, INFINITY if best is None else best.cost)
        if found.infeasible:
            return best
        if best is not None and found.optimal and found.chosen is None:
            return replace(best, bound=best.cost, status="optimal", cuts=cuts)
        if found.chosen is None:
            break
        order = in_order(problem, found.chosen)
        if order is None:
            model.forbid(find_cycle(problem, found.chosen))
            continue
        cost = problem.cost(order)
        if best is None or cost < best.cost:
            best = Solution(order, cost, found.bound, "optimal")
        status = "optimal" if found.optimal else _limit(deadline)
        return Solution(best.chosen, best.cost, min(found.bound, best.cost), status, cuts)
    if best is None:
        return None
    bound = min(model.bound, best.cost)
    return Solution(best.chosen, best.cost, bound, _limit(deadline), model.cycles)


def _limit(deadline: Deadline) -> str:
    """What ended a search that is not at its end."""
    return REACHED if deadline.is_over else SEARCH_LIMIT


def _checked(problem: Problem, incumbent: Sequence[int] | None) -> Solution | None:
    """The incumbent, if it obeys the rules."""
    if incumbent is None or not feasible(problem, incumbent):
        return None
    order = in_order(problem, incumbent)
    return None if order is None else Solution(order, problem.cost(order), 0.0, "given")


def is_proven_by_prices(problem: Problem, chosen: Iterable[int]) -> bool:
    """Whether a solution is easily seen to be optimal: most plans of the simple rule are.

    Each chosen kernel's cost is shared out as prices of the required items that it covers, in the
    ratio of what they cost alone. If no choice costs less than the items it covers, then no set of
    choices that covers all of them does.
    """
    alone: dict[Hashable, float] = {}
    for choice in problem.choices:
        if len(choice.covers) == 1:
            (item,) = choice.covers
            alone[item] = min(choice.cost + KERNEL_EPSILON, alone.get(item, float("inf")))
    prices: dict[Hashable, float] = {}
    for number in chosen:
        choice = problem.choices[number]
        items = [item for item in choice.covers & problem.required if item not in prices]
        total = sum(alone.get(item, 0.0) for item in items)
        for item in items:
            share = alone.get(item, 0.0) / total if total else 0.0
            prices[item] = (choice.cost + KERNEL_EPSILON) * share
    if sum(prices.values()) < problem.cost(chosen) * (1 - RELATIVE_GAP):
        return False
    return all(
        sum(prices.get(item, 0.0) for item in choice.covers)
        <= (choice.cost + KERNEL_EPSILON) * (1 + RELATIVE_GAP)
        for choice in problem.choices
    )
