"""What a set of kernels has to obey, to be chosen from.

In: Choices (what a kernel reads, writes and costs) and the values that are needed in the end. Out:
whether some of them do it all, in which order, and which wait for each other. Must not know graphs
or kernels, nor how a set is found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

Value = Hashable

# Of two plans that cost the same, the one of fewer kernels is taken.
KERNEL_EPSILON = 1e-6


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
