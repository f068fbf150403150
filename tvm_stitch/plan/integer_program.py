"""A Problem as an integer linear program, solved by HiGHS.

In: a Problem. Out: the choices that HiGHS takes, and a bound of what any cost. It takes the program
as arrays: a column for each choice, a row for each rule. Must not know what is done with an answer.

Its linear relaxation is solved first: of most regions it takes no fractions of kernels, in a
twentieth of the time. Where it does, its prices tell which kernels no cheaper plan can hold
(reduced-cost fixing), and branch and bound goes on with the others.

One binary variable a choice. A needed value is written by at least one chosen kernel, and so is
every value that a chosen kernel reads; several may write it (computed again rather than stored),
unless a partition is asked for. Kernels that wait for each other in a cycle are forbidden when
they turn up: most programs never need to be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tvm_stitch.plan.deadline import Deadline
from tvm_stitch.plan.problem import KERNEL_EPSILON, Problem, Value

# HiGHS stops at this relative gap: far below what a cost model can tell apart.
RELATIVE_GAP = 1e-7
INTEGER = 0.5
FRACTION = 1e-6  # how far a value of the relaxation may be from an integer
WRONG = 1e-4  # how far its costs may be from ours, as a share
# Where the search ends: most programs are solved at its root.
MOST_NODES = 1000
INFINITY = float("inf")


class SolverMissing(Exception):
    """The solver is not installed, or it failed; the message says which and why."""


@dataclass(frozen=True)
class Found:
    """What HiGHS has come to."""

    chosen: tuple[int, ...] | None = None  # None: nothing found in time, or nothing that is cheaper
    bound: float = 0.0
    optimal: bool = False  # no solution costs less, nor less than the one that is known
    infeasible: bool = False


@dataclass
class _Rows:
    """Rows of a program as HiGHS takes them, one behind the other."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(
        self, factors: Mapping[int, float], least: float = -INFINITY, most: float = INFINITY
    ) -> None:
        """A row by its columns' factors."""
        self.lower.append(least)
        self.upper.append(most)
        self.columns += factors
        self.factors += factors.values()
        self.starts.append(len(self.columns))


@dataclass
class IntegerProgram:
    """The program, a column for each choice and a row for each rule, to which cycles are added."""

    problem: Problem
    deterministic: bool
    bound: float = field(default=0.0, init=False)
    cycles: int = field(default=0, init=False)  # that are forbidden

    def __post_init__(self) -> None:
        try:
            import highspy
        except Exception as missing:  # an extension that does not fit raises what it likes
            raise SolverMissing(
                f"HiGHS is not installed, or cannot be loaded (pip install highspy): {missing}"
            ) from missing
        self.highspy = highspy
        self._write()

    def _write(self) -> None:
        problem = self.problem
        self.rows = _Rows()
        self.writers: dict[Value, list[int]] = defaultdict(list)
        self.covering: dict[Hashable, list[int]] = defaultdict(list)
        for number, choice in enumerate(problem.choices):
            for value in choice.writes:
                self.writers[value].append(number)
            for item in choice.covers:
                self.covering[item].append(number)
        self._demand()
        self._cover()
        self._demand_of_items()
        if problem.memory is not None:
            memory = {n: c.memory for n, c in enumerate(problem.choices) if c.memory}
            self.rows.add(memory, most=problem.memory)

    def _demand(self) -> None:
        for value in sorted(self.problem.needed, key=str):
            self._require(self.writers.get(value, ()))
        for number, choice in enumerate(self.problem.choices):
            for value in sorted(choice.reads, key=str):
                if value in self.writers and value not in self.problem.needed:
                    self._require(self.writers[value], number)

    def _cover(self) -> None:
        """Every required item, once in a partition.

        That follows from what is demanded, but not for fractions of kernels: without, each kernel
        on a chain would have to be taken half as much as the one that reads from it.
        """
        for item, numbers in self.covering.items():
            if self.problem.partition:
                self.rows.add(dict.fromkeys(numbers, 1.0), 1.0, 1.0)
            elif item in self.problem.required:
                self._require(numbers)

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
                self._require(numbers)

    def _require(self, numbers: Iterable[int], by: int | None = None) -> None:
        """One of some choices is taken; where a choice asks for it, if that is."""
        taken = dict.fromkeys(numbers, 1.0)
        if by is None:
            self.rows.add(taken, least=1.0)
        elif by not in taken:  # else it does itself what it asks for
            self.rows.add({**taken, by: -1.0}, least=0.0)

    def forbid(self, values: frozenset[Value]) -> None:
        """Values that wait for each other: a kernel writes one of them that reads none of them.

        The first kernel that writes any does. Were only the kernels forbidden that were found, the
        next solution would have others in their place that differ in what they compute beside it.
        """
        self.cycles += 1
        choices = self.problem.choices
        free = {n for value in values for n in self.writers[value] if not choices[n].reads & values}
        readers = [number for number, choice in enumerate(choices) if choice.reads & values]
        for by in [None] if values & self.problem.needed else readers:
            self._require(sorted(free), by)

    def run(self, deadline: Deadline, worth: float = INFINITY) -> Found:
        """Solve what is there so far, for what costs less than a solution that is known.

        It starts from nothing: HiGHS 1.16 takes a solution that it is given for another one of
        what it has simplified the program to, and says that it is optimal.
        """
        with _failures_named():
            relaxed = self.program(deadline.seconds, is_relaxed=True)
            relaxed.run()
            statuses, status = self.highspy.HighsModelStatus, relaxed.getModelStatus()
            if status != statuses.kOptimal:
                return Found(infeasible=status == statuses.kInfeasible)
            solution, bound = relaxed.getSolution(), relaxed.getInfo().objective_function_value
            if all(abs(value - round(value)) < FRACTION for value in solution.col_value):
                return self._found(relaxed)
            self.bound = max(self.bound, bound)
            if bound >= worth * (1 - RELATIVE_GAP):
                return Found(bound=self.bound, optimal=True)
            above = worth * (1 + RELATIVE_GAP) - bound
            dear = {n for n, price in enumerate(solution.col_dual) if price > above}
            highs = self.program(deadline.seconds, dear)
            highs.run()
            found = self._found(highs)
            return Found(bound=worth, optimal=True) if dear and found.infeasible else found

    def program(
        self, seconds: float, without: Collection[int] = (), is_relaxed: bool = False
    ) -> Any:
        """All of it in HiGHS but for some choices, to be solved in so many seconds."""
        highspy, count, rows = self.highspy, len(self.problem.choices), self.rows
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = count, len(rows.lower)
        program.col_cost_ = [choice.cost + KERNEL_EPSILON for choice in self.problem.choices]
        program.col_lower_ = [0.0] * count
        program.col_upper_ = [0.0 if number in without else 1.0 for number in range(count)]
        if not is_relaxed:
            program.integrality_ = [highspy.HighsVarType.kInteger] * count
        program.row_lower_, program.row_upper_ = rows.lower, rows.upper
        matrix = program.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.num_col_, matrix.num_row_ = program.num_col_, program.num_row_
        matrix.start_, matrix.index_, matrix.value_ = rows.starts, rows.columns, rows.factors
        highs = highspy.Highs()
        options: dict[str, Any] = {
            "output_flag": False,
            "time_limit": seconds,
            "mip_rel_gap": RELATIVE_GAP,
            "mip_max_nodes": MOST_NODES,
            "random_seed": 0,
        }
        if is_relaxed:  # which takes the simplex method less time than presolving does
            options["presolve"] = "off"
        if self.deterministic:
            options["threads"] = 1
        for name, value in options.items():
            highs.setOptionValue(name, value)
        highs.passModel(program)
        return highs

    def _found(self, highs: Any) -> Found:
        """What HiGHS has come to."""
        statuses, status = self.highspy.HighsModelStatus, highs.getModelStatus()
        # Every variable is bounded, so the program cannot be.
        if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
            return Found(infeasible=True)
        info = highs.getInfo()
        if info.primal_solution_status != int(self.highspy.SolutionStatus.kSolutionStatusFeasible):
            return Found()
        values = highs.getSolution().col_value
        chosen = tuple(number for number, value in enumerate(values) if value > INTEGER)
        cost, said = self.problem.cost(chosen), info.objective_function_value
        if abs(cost - said) > WRONG * max(1.0, cost):
            raise ValueError(f"it says that what costs {cost:.6g} costs {said:.6g}")
        optimal = status == statuses.kOptimal
        proven = cost if optimal else info.mip_dual_bound
        self.bound = max(self.bound, proven if proven < float("inf") else 0.0)
        return Found(chosen, self.bound, optimal)


def _least(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The sets that hold no other one."""
    found: list[frozenset[int]] = []
    for each in sorted(sets, key=len):
        if not any(other <= each for other in found):
            found.append(each)
    return found


@contextmanager
def _failures_named() -> Iterator[None]:
    """Whatever HiGHS raises is one error: the simple rule's plan serves then."""
    try:
        yield
    except Exception as error:
        raise SolverMissing(f"HiGHS failed: {type(error).__name__}: {error}") from error
