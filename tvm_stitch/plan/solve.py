"""The set of kernels that costs least, as an integer linear program.

In: Choices (what a kernel reads, writes and costs) and the values that are needed in the end. Out:
a Solution: which to take, and how far from the optimum it may be. Must not know graphs or kernels.

One binary variable a choice. A needed value is written by at least one chosen kernel, and so is
every value that a chosen kernel reads; several may write it (computed again rather than stored),
unless a partition is asked for. Kernels that wait for each other in a cycle are forbidden when
they turn up: most programs never need to be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tvm_stitch.plan.deadline import NEVER, REACHED, Deadline

Value = Hashable

# Of two plans that cost the same, the one of fewer kernels is taken.
KERNEL_EPSILON = 1e-6
# HiGHS stops at this relative gap: far below what a cost model can tell apart.
RELATIVE_GAP = 1e-7
INTEGER = 0.5
# Where the search ends: most programs are solved at its root, and few have cycles.
MOST_NODES = 1000
MOST_CYCLES = 100
SEARCH_LIMIT = "search limit"


@dataclass(frozen=True)
class Choice:
    """A kernel that could be taken."""

    cost: float
    reads: frozenset[Value]
    writes: frozenset[Value]
    covers: frozenset[Hashable] = frozenset()  # what it computes; each once in a partition
    memory: int = 0  # bytes that stay allocated for what it writes


@dataclass(frozen=True)
class Problem:
    """Choices, what must be written in the end, and the rules."""

    choices: tuple[Choice, ...]
    needed: frozenset[Value]
    partition: bool = False
    memory: int | None = None  # bound of the sum over chosen kernels
    required: frozenset[Hashable] = frozenset()  # of what choices cover: no solution is without

    @cached_property
    def produced(self) -> frozenset[Value]:
        """Values that some choice writes; all others are there from the start."""
        return frozenset().union(*(choice.writes for choice in self.choices))

    def cost(self, chosen: Iterable[int]) -> float:
        """What a set of choices costs, ties broken by the number of kernels."""
        return sum(self.choices[number].cost + KERNEL_EPSILON for number in chosen)


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


class SolverMissing(Exception):
    """The solver is not installed, or it failed; the message says which and why."""


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
    model = _Model(problem, deterministic)
    for cuts in range(MOST_CYCLES):
        if deadline.is_over:
            break
        found = model.run(deadline.seconds, best.chosen if best else ())
        if found.infeasible:
            return best
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
    return Solution(best.chosen, best.cost, model.bound, _limit(deadline), model.cycles)


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


def feasible(problem: Problem, chosen: Iterable[int]) -> bool:
    """Whether a set of choices obeys every rule but the order."""
    chosen = list(chosen)
    written = frozenset().union(*(problem.choices[number].writes for number in chosen))
    wanted = problem.needed.union(*(problem.choices[number].reads for number in chosen))
    if (wanted & problem.produced) - written or problem.needed - written:
        return False
    used = sum(problem.choices[number].memory for number in chosen)
    if problem.memory is not None and used > problem.memory:
        return False
    if not problem.partition:
        return True
    covered = [item for number in chosen for item in problem.choices[number].covers]
    everything = frozenset().union(*(choice.covers for choice in problem.choices))
    return len(covered) == len(everything) and set(covered) == everything


def in_order(problem: Problem, chosen: Iterable[int]) -> tuple[int, ...] | None:
    """The choices such that each reads only what is there by then; None if there is no order."""
    ready, stuck = _run(problem, chosen)
    return None if stuck else tuple(ready)


def find_cycle(problem: Problem, chosen: Iterable[int]) -> frozenset[Value]:
    """Values of which chosen kernels write each only once another is there: the fewest."""
    ready, stuck = _run(problem, chosen)
    there = {value for number in ready for value in problem.choices[number].writes}
    waits = {n: min(problem.choices[n].reads & problem.produced - there, key=str) for n in stuck}
    cycles = []
    for start in stuck:
        members, pending = {start}, [start]
        while pending:
            awaited = waits[pending.pop()]
            found = {n for n in stuck if awaited in problem.choices[n].writes} - members
            members |= found
            pending.extend(found)
        cycles.append(members)
    smallest = min(cycles, key=lambda members: (len(members), sorted(members)))
    return frozenset(waits[member] for member in smallest)


def _run(problem: Problem, chosen: Iterable[int]) -> tuple[list[int], list[int]]:
    """Let every kernel run whose values are there, over and over; the order, and who never did."""
    produced = problem.produced
    waiting = sorted(chosen)
    there: set[Value] = set()
    ready: list[int] = []
    while True:
        runs = [n for n in waiting if problem.choices[n].reads & produced <= there]
        if not runs:
            return ready, waiting
        ready += runs
        waiting = [n for n in waiting if n not in set(runs)]
        there.update(value for n in runs for value in problem.choices[n].writes)


@dataclass(frozen=True)
class _Found:
    chosen: tuple[int, ...] | None = None  # None: nothing found in time
    bound: float = 0.0
    optimal: bool = False
    infeasible: bool = False


@dataclass
class _Model:
    """The program in PuLP, to which cycles are added."""

    problem: Problem
    deterministic: bool
    bound: float = field(default=0.0, init=False)
    cycles: int = field(default=0, init=False)  # that are forbidden

    def __post_init__(self) -> None:
        try:
            # PuLP first: PuLP 4 loads HiGHS with its symbols visible to other extensions.
            import pulp
            import highspy  # isort: skip
        except Exception as missing:  # an extension that does not fit raises what it likes
            package = "HiGHS" if getattr(missing, "name", "") == "highspy" else "PuLP"
            raise SolverMissing(
                f"{package} is not installed, or cannot be loaded (pip install pulp highspy): "
                f"{missing}"
            ) from missing
        self.pulp, self.highspy = pulp, highspy
        with _failures_named():
            self._write()

    def _write(self) -> None:
        """The program. Names sort as the choices do: PuLP 3 orders columns by name, 4 by age."""
        pulp, problem = self.pulp, self.problem
        self.program = pulp.LpProblem("plan", pulp.LpMinimize)
        self.takes = [
            self.program.add_variable(f"x{number:09}", cat=pulp.LpBinary)
            for number in range(len(problem.choices))
        ]
        self.writers: dict[Value, list[int]] = defaultdict(list)
        self.covering: dict[Hashable, list[int]] = defaultdict(list)
        for number, choice in enumerate(problem.choices):
            for value in choice.writes:
                self.writers[value].append(number)
            for item in choice.covers:
                self.covering[item].append(number)
        self.program += pulp.lpSum(
            (choice.cost + KERNEL_EPSILON) * take
            for choice, take in zip(problem.choices, self.takes, strict=True)
        )
        self._demand()
        self._cover()
        self._demand_of_items()
        if problem.memory is not None:
            memory = (c.memory * t for c, t in zip(problem.choices, self.takes, strict=True))
            self.program += pulp.lpSum(memory) <= problem.memory

    def _demand(self) -> None:
        for value in sorted(self.problem.needed, key=str):
            self.program += self._written(value) >= 1
        for number, choice in enumerate(self.problem.choices):
            for value in sorted(choice.reads, key=str):
                if value in self.writers and value not in self.problem.needed:
                    self.program += self._written(value) >= self.takes[number]

    def _cover(self) -> None:
        """Every required item, once in a partition.

        That follows from what is demanded, but not for fractions of kernels: without, each kernel
        on a chain would have to be taken half as much as the one that reads from it.
        """
        for item, numbers in self.covering.items():
            if self.problem.partition:
                self.program += self._taken(numbers) == 1
            elif item in self.problem.required:
                self.program += self._taken(numbers) >= 1

    def _demand_of_items(self) -> None:
        """A value is written, or a required item is computed by a kernel that does not read it.

        That follows as well, but not for fractions: of two halves of kernels that compute an item,
        each would ask for half of a kernel that writes what they read, and half would be enough.
        """
        problem = self.problem
        reading: dict[tuple[Value, Hashable], set[int]] = defaultdict(set)
        for number, choice in enumerate(problem.choices):
            for item in choice.covers & problem.required:
                for value in choice.reads - problem.needed:
                    reading[value, item].add(number)
        rows: dict[Value, set[frozenset[int]]] = defaultdict(set)
        for (value, item), readers in reading.items():
            if value in self.writers:
                others = frozenset(self.covering[item]) - readers
                rows[value].add(others.union(self.writers[value]))
        for value in sorted(rows, key=str):
            for numbers in sorted(map(sorted, _least(rows[value]))):
                self.program += self._taken(numbers) >= 1

    def _written(self, value: Value) -> Any:
        return self._taken(self.writers[value])

    def _taken(self, numbers: Iterable[int]) -> Any:
        """How many of some choices are taken."""
        return self.pulp.lpSum(self.takes[number] for number in numbers)

    def forbid(self, values: frozenset[Value]) -> None:
        """Values that wait for each other: a kernel writes one of them that reads none of them.

        The first kernel that writes any does. Were only the kernels forbidden that were found, the
        next solution would have others in their place that differ in what they compute beside it.
        """
        self.cycles += 1
        choices = self.problem.choices
        free = {n for value in values for n in self.writers[value] if not choices[n].reads & values}
        first = self._taken(sorted(free))
        readers = [self.takes[n] for n, choice in enumerate(choices) if choice.reads & values]
        for least in [1] if values & self.problem.needed else readers:
            self.program += first >= least

    def run(self, seconds: float, warm: Sequence[int]) -> _Found:
        """Solve what is there so far, starting from a plan if there is one.

        PuLP hands the program over; HiGHS itself is asked for the rest, of which PuLP 3 and PuLP 4
        speak differently, and PuLP 3 passes no start on.
        """
        with _failures_named():
            return self._found(self._solved(seconds, frozenset(warm)))

    def _solved(self, seconds: float, warm: frozenset[int]) -> Any:
        common: dict[str, Any] = {"threads": 1} if self.deterministic else {}
        solver = self.pulp.HiGHS(
            msg=False, timeLimit=seconds, gapRel=RELATIVE_GAP, random_seed=0, **common
        )
        solver.createAndConfigureSolver(self.program)
        solver.buildSolverModel(self.program)
        highs = self.program.solverModel
        highs.setOptionValue("mip_max_nodes", MOST_NODES)
        if warm:
            start = self.highspy.HighsSolution()
            start.col_value = [float(number in warm) for number in range(len(self.takes))]
            highs.setSolution(start)
        highs.run()
        return highs

    def _found(self, highs: Any) -> _Found:
        """What HiGHS has come to."""
        statuses, status = self.highspy.HighsModelStatus, highs.getModelStatus()
        # Every variable is bounded, so the program cannot be.
        if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
            return _Found(infeasible=True)
        info = highs.getInfo()
        if info.primal_solution_status != int(self.highspy.SolutionStatus.kSolutionStatusFeasible):
            return _Found()
        values = highs.getSolution().col_value
        chosen = tuple(number for number, value in enumerate(values) if value > INTEGER)
        optimal = status == statuses.kOptimal
        proven = self.problem.cost(chosen) if optimal else info.mip_dual_bound
        self.bound = max(self.bound, proven if proven < float("inf") else 0.0)
        return _Found(chosen, self.bound, optimal)


def _least(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The sets that hold no other one."""
    found: list[frozenset[int]] = []
    for each in sorted(sets, key=len):
        if not any(other <= each for other in found):
            found.append(each)
    return found


@contextmanager
def _failures_named() -> Iterator[None]:
    """Whatever PuLP and HiGHS raise is one error: the simple rule's plan serves then."""
    try:
        yield
    except Exception as error:
        raise SolverMissing(f"HiGHS failed under PuLP: {type(error).__name__}: {error}") from error
