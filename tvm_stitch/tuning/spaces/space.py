"""The search space of one kernel: every legal Schedule that the axes of its programs' kinds span,
and whatever is legal of what the kinds propose without a search.

In: the Programs of a kernel and the Device. Out: a Space to enumerate, to sample from and to mutate
in. What is legal is asked of the kinds; nothing here knows what is fast.

Unrelated parts of a kernel that compute the same for other sizes share their choice, and all parts
have blocks of equally many threads.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.kind import Axes, Problem, Values
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose, context_of, problem_of
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.spaces import rounds
from tvm_stitch.tuning.spaces.redundant import is_redundant

Fitted = tuple[Values, tuple[Mapping, ...]]  # what values of the axes make of each program

MUTATIONS = 64  # attempts to change an axis before a schedule is drawn afresh


@dataclass(frozen=True)
class Choice:
    """Values of the axes, and the mapping of every part that they make."""

    values: tuple[object, ...]
    mappings: tuple[Mapping, ...]
    # Of a kernel in rounds, whose parts share all values, or of a product.
    whole: Schedule | Tiles | None = None

    @property
    def block_threads(self) -> int:
        """Threads of its blocks."""
        return self.mappings[0].block_threads


@dataclass(frozen=True)
class Point:
    """One schedule of the space, with the choices that it is made of."""

    choices: tuple[Choice, ...]
    schedule: Schedule | Tiles


class Space:
    """All legal schedules of a kernel."""

    def __init__(
        self,
        programs: tuple[Program, ...],
        groups: tuple[tuple[int, ...], ...],
        device: Device,
        bounds: Bounds = NO_BOUNDS,
        schemes: tuple[str, ...] = SCHEMES,
    ) -> None:
        self._parts = len(programs)
        if any(program.round for program in programs):
            self.groups: tuple[tuple[int, ...], ...] = (tuple(range(len(programs))),)
            choices = [list(_choices_in_rounds(programs, device, bounds, schemes))]
        else:
            self.groups = groups
            choices = self._choices_of_groups(programs, device, bounds, schemes)
        sizes = [{choice.block_threads for choice in each} for each in choices]
        # By threads of a block: the choices of every group.
        self._by_threads = {
            threads: [[c for c in each if c.block_threads == threads] for each in choices]
            for threads in sorted(set.intersection(*sizes))
        }

    def _choices_of_groups(
        self,
        programs: tuple[Program, ...],
        device: Device,
        bounds: Bounds,
        schemes: tuple[str, ...],
    ) -> list[list[Choice]]:
        chosen = choose(programs, device, bounds, schemes)
        found = []
        for group in self.groups:
            own = [programs[part] for part in group]
            problems = [
                problem_of(program, device, bounds, schemes=schemes, context=context_of(programs))
                for program in own
            ]
            choices = {choice.mappings: choice for choice in _choices(problems)}
            for mappings in _proposed(problems, chosen, group):
                values = kind_of(own[0]).search.values_of(own[0], mappings[0])
                choices.setdefault(mappings, Choice(tuple(values.values()), mappings))
            found.append([c for c in choices.values() if self._allowed(c, schemes)])
        return found

    def _allowed(self, choice: Choice, schemes: tuple[str, ...]) -> bool:
        if self._parts > 1 and "independent" not in schemes:
            return False
        return all(mapping.scheme in schemes for mapping in choice.mappings)

    @cached_property
    def size(self) -> int:
        """How many schedules there are."""
        return sum(math.prod(map(len, choices)) for choices in self._by_threads.values())

    def __iter__(self) -> Iterator[Point]:
        for choices in self._by_threads.values():
            yield from map(self._point, itertools.product(*choices))

    def sample(self, rng: random.Random) -> Point:
        """Any schedule: first the threads of a block, then a choice for every group."""
        choices = self._by_threads[rng.choice(list(self._by_threads))]
        return self._point(tuple(rng.choice(each) for each in choices))

    def mutate(self, point: Point, rng: random.Random) -> Point:
        """A schedule that differs in one axis or two of one group; any other if there is none.

        Where that changes the threads of a block, there must be no other group.
        """
        for _ in range(MUTATIONS):
            group = rng.randrange(len(self.groups))
            near = self._near(group, point.choices[group], rng.choice((1, 1, 2)), rng)
            if near is not None:
                choices = list(point.choices)
                choices[group] = near
                return self._point(tuple(choices))
        return self.sample(rng)

    def _near(self, group: int, old: Choice, distance: int, rng: random.Random) -> Choice | None:
        """A choice with other values of so many axes, drawn at random; None if it is not legal."""
        domains, known = self._domains[group], self._by_values[group]
        values = list(old.values)
        for axis in rng.sample(range(len(values)), distance):
            others = [value for value in domains[axis] if value != old.values[axis]]
            if not others:
                return None
            values[axis] = rng.choice(others)
        found = known.get(tuple(values))
        alone = len(self.groups) == 1
        fits = found is not None and (alone or found.block_threads == old.block_threads)
        return found if fits else None

    def nearest(self, layout: Any) -> Point:
        """The schedule of the space that shares most with a given one."""
        schedule: Schedule = layout

        def alike(choices: list[Choice], group: tuple[int, ...]) -> Choice:
            given = tuple(schedule.parts[part] for part in group)

            def likeness(choice: Choice) -> tuple[bool, int]:
                pairs = vars(choice.mappings[0]).items()
                shared = sum(getattr(given[0], name) == value for name, value in pairs)
                return given == choice.mappings or choice.whole == schedule, shared

            return max(choices, key=likeness)

        choices = self._by_threads.get(schedule.block_threads)
        if choices is None:
            choices = next(iter(self._by_threads.values()))
        return self._point(tuple(map(alike, choices, self.groups)))

    @cached_property
    def _by_values(self) -> list[dict[tuple[object, ...], Choice]]:
        """The choices of every group by the values of their axes."""
        every = (
            itertools.chain.from_iterable(choices[number] for choices in self._by_threads.values())
            for number in range(len(self.groups))
        )
        return [{choice.values: choice for choice in choices} for choices in every]

    @cached_property
    def _domains(self) -> list[list[list[object]]]:
        """The values that each axis of each group takes."""
        return [
            [list(dict.fromkeys(values)) for values in zip(*known, strict=True)]
            for known in self._by_values
        ]

    def _point(self, choices: tuple[Choice, ...]) -> Point:
        if choices[0].whole is not None:
            return Point(choices, choices[0].whole)
        parts: list[Mapping | None] = [None] * self._parts
        for group, choice in zip(self.groups, choices, strict=True):
            for part, mapping in zip(group, choice.mappings, strict=True):
                parts[part] = mapping
        return Point(choices, Schedule(tuple(part for part in parts if part is not None)))


def fitted(values: Values, problem: Problem[Program]) -> Mapping | None:
    """The mapping that values of the axes make of a program; None where it is not legal."""
    kind = kind_of(problem.program)
    mapping = kind.search.fitted(problem, values)
    return None if mapping is None or kind.refusal(problem, mapping) is not None else mapping


def _proposed(
    problems: list[Problem[Program]], chosen: Schedule | Refused, group: tuple[int, ...]
) -> Iterator[tuple[Mapping, ...]]:
    """What would be taken without a search: of parts that share their choice what is chosen, of a
    kernel of one part all that is legal of what is proposed for it."""
    if isinstance(chosen, Refused) or chosen.longer is not None:
        return
    yield tuple(chosen.parts[part] for part in group)
    if len(chosen.parts) == 1:
        (problem,) = problems
        kind = kind_of(problem.program)
        for mapping in kind.candidates(problem):
            if kind.refusal(problem, mapping) is None:
                yield (mapping,)


def _choices(problems: list[Problem[Program]]) -> Iterator[Choice]:
    """The legal choices of programs that share theirs, as the axes of their kind span them.

    Of the extras and flags, others than the plain ones are tried of what is legal without.
    """
    search, first = kind_of(problems[0].program).search, problems[0].program
    sets = itertools.product((False, True), repeat=len(search.flags))
    unset, *flags = (dict(zip(search.flags, each, strict=True)) for each in sets)
    plain = {name: values[0] for name, values in search.extras.items()}
    changes: list[list[Values]] = [
        *([{name: each} for each in values[1:]] for name, values in search.extras.items()),
        flags,
    ]
    for own in _combinations(search.axes(first), partial(is_redundant, problems)):
        found = _legal([{**own, **plain, **unset}], problems)
        for each in changes:
            found = _and_changed(found, each, problems)
        yield from (Choice(tuple(values.values()), mappings) for values, mappings in found)


def _legal(candidates: Iterable[Values], problems: list[Problem[Program]]) -> Iterator[Fitted]:
    """Those that are legal of every program and say what no other does."""
    for values in candidates:
        mappings = () if is_redundant(problems, values) else _fitted_to_all(values, problems)
        if mappings:
            yield values, mappings


def _and_changed(
    legal: Iterable[Fitted], changes: Sequence[Values], problems: list[Problem[Program]]
) -> Iterator[Fitted]:
    """What is legal, each with all changes of it that are."""
    for values, mappings in legal:
        yield values, mappings
        yield from _legal([{**values, **change} for change in changes], problems)


def _choices_in_rounds(
    programs: tuple[Program, ...], device: Device, bounds: Bounds, schemes: tuple[str, ...]
) -> Iterator[Choice]:
    """The legal choices of a kernel whose blocks synchronise between rounds."""
    chosen = choose(programs, device, bounds, schemes)
    if not isinstance(chosen, Refused):
        for whole, values in rounds.schedules(programs, chosen, device, bounds, schemes).items():
            yield Choice(values, whole.parts, whole)


def _fitted_to_all(values: Values, problems: list[Problem[Program]]) -> tuple[Mapping, ...]:
    """A mapping for each program; none where one of them has none."""
    found = []
    for problem in problems:
        mapping = fitted(values, problem)
        if mapping is None:
            return ()
        found.append(mapping)
    return tuple(found)


def _combinations(axes: Axes, skip: Callable[[Values], bool]) -> Iterator[Values]:
    """Values of all axes, without those of which the first few are redundant already."""
    pending: list[Values] = [{}]
    while pending:
        values = pending.pop()
        if len(values) == len(axes):
            yield values
            continue
        name = list(axes)[len(values)]
        longer = [{**values, name: value} for value in reversed(axes[name])]
        pending += [each for each in longer if not skip(each)]
