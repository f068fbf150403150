"""Stages that share no space, in one kernel all the same: in rounds, with barriers of the grid.

In: Stages in order and the buffers that must be written. Out: Programs, each with its round; those
of one round stand side by side. What a round has reduced, the next ones read from device memory;
everything of more elements they compute again from what was there before. Must not know threads.

A reduction belongs to the first round in which all that it needs is in memory. Where it follows
others along the same rows it stays in their round and Program. Reductions that would leave most of
a device idle are split (kernel/cooperative/split_reduction): partials in one round, their sums in
the next.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from tvm_stitch.kernel.cooperative.persistent_rows import with_persistent_inputs
from tvm_stitch.kernel.cooperative.split_reduction import is_split
from tvm_stitch.kernel.cooperative.two_stage_reduction import in_two_stages
from tvm_stitch.kernel.ir.behind_maximum import maximum_behind
from tvm_stitch.kernel.ir.iteration_space import goes_across
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.patterns.scattered_reduction import scattered_reduction
from tvm_stitch.stages.stage import (
    Refused,
    Stage,
    Var,
    dtype_of,
    find_reads,
    handle,
    product,
)
from tvm_stitch.stages.visit import walked

# What crosses a barrier is at most this share of the kernel's largest tensor.
CROSSING = 1 / 8
MOST_ROUNDS = 8
FEWEST_OF_WINDOWS = 3  # elements that are read for each
# Fewer elements than this are not worth the barriers of a grid.
FEWEST_ELEMENTS = 1 << 12

Home = tuple[str, int, int]  # rows of what kind, their number and length


@dataclass(frozen=True)
class Place:
    """Where a value can be used: from which round on, there only beside the rows of its home."""

    round: int
    home: Home | None = None


def make_rounds(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Program, ...] | Refused:
    """Programs in rounds; of their own stages."""
    if any(stage.is_reduction and is_product(stage) for stage in stages):
        return Refused("products have no place in rounds of a grid")
    if any(map(scattered_reduction, stages)):
        return Refused("rows that indices send updates to have no place in rounds of a grid")
    if any(map(_picks_among_places, stages)):
        return Refused("gradients of largest elements would be found again in every round")
    if any(map(_reads_overlap, stages)):
        return Refused("windows would be read again in every round")
    sizes = [NOMINAL.size(stage.total_size) for stage in stages if stage.is_reduction]
    reduced = max(sizes, default=0)
    if reduced < FEWEST_ELEMENTS:
        return Refused("too little is reduced for a barrier of the grid")
    if not any(map(is_split, stages)) and not _is_used_where_reduced_twice(stages, reduced):
        return Refused("no reduction of it needs all blocks of a grid")
    rounds = _Rounds(*in_two_stages(stages, outputs))
    return rounds.place() or rounds.programs()


@memoized
def _picks_among_places(stage: Stage) -> bool:
    """Whether memory says which of several places an element is read from.

    So do the gradients of max pooling, whose windows overlap: beside the sums of a batch norm's
    gradient they spill up to 1.8 KB a thread, in rounds that read them twice.
    """
    in_branches = {read.key for read in stage.reads if read.guarded}
    asked = set[int]()

    def note(select: tirx.Select) -> None:
        asked.update(in_branches.intersection(read.key for read in find_reads(select.condition)))

    walked(stage.value, (tirx.Select, note))
    return len(asked) > 1


@memoized
def _reads_overlap(stage: Stage) -> bool:
    """Whether neighbours read the same elements of a tensor, as those of a convolution do.

    Tiles of lines share them, which rounds have not: 3 x 3 by channels, a norm and SiLU of 16 x 144
    x 144 x 40 halves take 28 us on an H200 and their means 13, all in rounds of a grid 78.
    """
    counts = Counter(handle(read.buffer) for read in stage.reads)
    padded = {handle(read.buffer) for read in stage.reads if read.guarded}
    large = [each for each in _read_sizes(stage) if each[1] > _elements(stage) * CROSSING]
    # Slices of a tensor are as many reads, of other elements each; none of them is padded.
    return any(
        counts[key] >= FEWEST_OF_WINDOWS
        and counts[key] * _elements(stage) >= (size / 2 if key in padded else 3 * size / 2)
        for key, size in large
    )


def _is_used_where_reduced_twice(stages: tuple[Stage, ...], reduced: int) -> bool:
    """Whether rows that are reduced wait for what is reduced of many of them.

    So do those of a group norm's gradient: a barrier of the grid costs less than other kernels,
    which would read them again.
    """
    homes: dict[int, frozenset[Home]] = {}  # of the large reductions that a value is made of
    twice: set[int] = set()
    for stage in stages:
        before = frozenset[Home]().union(*(homes.get(key, ()) for key in _reads(stage)))
        is_twice = not twice.isdisjoint(_reads(stage))
        if stage.is_reduction:
            own = _home(stage)
            is_twice = is_twice or bool(before - {own})
            before |= {own} if NOMINAL.size(stage.total_size) == reduced else set()
        elif is_twice and _elements(stage) == reduced:
            return True
        homes[_key(stage)] = before
        if is_twice:
            twice.add(_key(stage))
    return False


@dataclass(frozen=True)
class _Group:
    """Targets of one Program of a round; what is computed for them; what that touches."""

    targets: list[int]
    inside: set[int]
    touched: set[int]

    def joined(self, other: _Group) -> _Group:
        """All of both."""
        return _Group(
            self.targets + other.targets, self.inside | other.inside, self.touched | other.touched
        )


class _Rounds:
    """Stages by number: TVM's variables are slow keys, and planners ask often."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        outputs: tuple[Var, ...],
        slices: dict[Var, tuple[Var, ...]],
    ) -> None:
        self.stages, self.outputs, self.slices = stages, outputs, slices
        self.number = {_key(stage): number for number, stage in enumerate(stages)}
        self.largest = max(_elements(stage) for stage in stages)
        joined = {handle(whole): tuple(map(handle, of)) for whole, of in slices.items()}
        reads = [[key for each in _reads(s) for key in joined.get(each, (each,))] for s in stages]
        self.sources = [[self.number[key] for key in keys if key in self.number] for keys in reads]
        # However many rows there are, so many segments share them.
        self.is_small = [stage.uneven or self._is_small(_elements(stage)) for stage in stages]
        self.places: list[Place] = []
        self.computed: dict[int, int] = {}  # the round of what others may read from memory
        self.closures: dict[tuple[int, int], tuple[set[int], set[int]]] = {}

    def place(self) -> Refused | None:
        """Find the round of every stage."""
        for index, stage in enumerate(self.stages):
            before = [self._seen(source, index) for source in self.sources[index]]
            number = max((place.round for place in before), default=0)
            homes = {place.home for place in before if place.round == number} - {None}
            own = _home(stage) if stage.is_reduction else None
            if len(homes) > 1 or any(not _joins(stage, own, home) for home in homes):
                number, homes = number + 1, set()
            home = own or next(iter(homes), None)
            # Partials of segments are of no use before all are there.
            waits = own is not None and own[0] == "segments"
            self.places.append(Place(number + 1) if waits else Place(number, home))
            if home is not None and (stage.is_reduction or self.is_small[index]):
                self.computed[index] = number
            if number >= MOST_ROUNDS:
                return Refused(f"more than {MOST_ROUNDS} rounds")
        return None

    def _seen(self, source: int, index: int) -> Place:
        """From where on a stage can use another; a maximum that grows with it, while it does."""
        stage = self.stages[source]
        if stage is self._maximum_behind(index):
            return Place(self.computed[source])
        return self.places[source]

    def _maximum_behind(self, index: int) -> Stage | None:
        """What is found in the pass of a reduction over the rows that is measured against it."""
        stage = self.stages[index]
        if not stage.is_reduction or not goes_across(stage):
            return None
        producer = {_key(self.stages[n]): self.stages[n] for n in self.sources[index]}
        return maximum_behind(stage, producer)

    def programs(self) -> tuple[Program, ...] | Refused:
        """The Programs of all rounds."""
        wanted = self._wanted()
        if isinstance(wanted, Refused):
            return wanted
        if len(wanted) < 2:
            return Refused("its parts need no barrier")
        found: list[Program] = []
        for number, key in enumerate(sorted(wanted)):
            made = self._round(key, number, sorted(wanted[key]))
            if isinstance(made, Refused):
                return made
            found += made
        return with_persistent_inputs(tuple(found))

    def _round_of(self, index: int) -> int:
        return self.computed.get(index, self.places[index].round)

    def _wanted(self) -> dict[int, set[int]] | Refused:
        """By round: the stages whose results it writes, for others or for the next rounds."""
        missing = [output for output in self.outputs if handle(output) not in self.number]
        if missing:
            return Refused(f"output {missing[0]} is computed by no stage")
        pending = [self.number[handle(output)] for output in self.outputs]
        wanted: dict[int, set[int]] = defaultdict(set)
        while pending:
            target = pending.pop()
            number = self._round_of(target)
            if target in wanted[number]:
                continue
            wanted[number].add(target)
            crossing = self._closure(target, number)[1]
            for index in crossing:
                output = self.stages[index].output
                if not self.is_small[index]:
                    return Refused(f"{output.name} is too large to cross a barrier of the grid")
                if dtype_of(output) != "float32":
                    return Refused(f"{output.name} of {dtype_of(output)} crosses a barrier")
            pending += crossing
        return wanted

    def _closure(self, target: int, number: int) -> tuple[set[int], set[int]]:
        """What is computed for a target in its round, and what comes from earlier ones."""
        if (target, number) not in self.closures:
            inside, crossing, pending = set[int](), set[int](), [target]
            while pending:
                index = pending.pop()
                if index != target and self.computed.get(index, number) < number:
                    crossing.add(index)
                elif index not in inside:
                    inside.add(index)
                    pending += self.sources[index]
            self.closures[target, number] = inside, crossing
        return self.closures[target, number]

    def _round(self, key: int, number: int, targets: list[int]) -> list[Program] | Refused:
        """Targets that share values or tensors become one Program where they can."""

        def made(group: _Group) -> Program | Refused:
            return self._made(number, group.targets, group.inside)

        # All that touch make a Program as a rule: then no smaller one is made on the way.
        found = [made(group) for group in self._groups(key, targets, lambda group: True)]
        if any(isinstance(program, Refused) for program in found):
            groups = self._groups(key, targets, lambda group: isinstance(made(group), Program))
            found = [made(group) for group in groups]
        refused = next((each for each in found if isinstance(each, Refused)), None)
        return refused or [program for program in found if isinstance(program, Program)]

    def _groups(
        self, key: int, targets: list[int], can_be: Callable[[_Group], bool]
    ) -> list[_Group]:
        """Each target joins the first group that it shares something with, if that can be."""
        groups: list[_Group] = []
        for target in targets:
            inside, _ = self._closure(target, key)
            own = _Group([target], inside, self._touched(inside))
            for place, group in enumerate(groups):
                if own.touched & group.touched and can_be(group.joined(own)):
                    groups[place] = group.joined(own)
                    break
            else:
                groups.append(own)
        return groups

    def _made(self, number: int, targets: list[int], inside: set[int]) -> Program | Refused:
        """The program of a round's stages; it stays with one of them."""
        stages = tuple(self.stages[index] for index in sorted(inside))
        asked = set(map(handle, self.outputs))
        crossing = [index for index in targets if _key(self.stages[index]) not in asked]
        # By the stages: partials of several numbers end in stages that write the same buffer.
        parts = [tuple(self.stages[index] for index in part) for part in (targets, crossing)]
        key = ("program", number, *parts, stages)

        def make() -> Program | Refused:
            made = make_program(stages, tuple(self.stages[index].output for index in targets))
            if isinstance(made, Refused):
                return made
            return replace(
                made,
                round=number,
                crossing=tuple(self.stages[index].output for index in crossing),
                joined=tuple((b, self.slices[b]) for b in made.inputs if b in self.slices),
            )

        return remembered(self.stages[targets[0]], key, make)

    def _touched(self, inside: set[int]) -> set[int]:
        """Large tensors and values that a set reads or computes, and reductions of it."""
        found = {i for i in inside if self.stages[i].is_reduction or not self.is_small[i]}
        keys = {_key(self.stages[index]) for index in found}
        for index in inside:
            keys |= {
                key for key, size in _read_sizes(self.stages[index]) if not self._is_small(size)
            }
        return keys

    def _is_small(self, size: int) -> bool:
        return size <= max(1, self.largest * CROSSING)


@memoized
def _key(stage: Stage) -> int:
    return handle(stage.output)


@memoized
def _elements(stage: Stage) -> int:
    return NOMINAL.size(stage.size)


def _total(stage: Stage) -> int:
    return NOMINAL.size(stage.total_size)


def _reads(stage: Stage) -> tuple[int, ...]:
    return tuple(key for key, _ in _read_sizes(stage))


@memoized
def _read_sizes(stage: Stage) -> tuple[tuple[int, int], ...]:
    """What a stage reads, each with its elements."""
    buffers = {handle(read.buffer): read.buffer for read in stage.reads}
    return tuple((key, NOMINAL.elements(buffer)) for key, buffer in buffers.items())


def _home(stage: Stage) -> Home:
    """The rows that a reduction belongs to."""
    size, reduced = NOMINAL.size(stage.size), NOMINAL.size(stage.reduced_size)
    if not goes_across(stage):
        return "rows", size, reduced
    columns = NOMINAL.size(product(stage.extents[stage.row_segments or 0 :]))
    return "segments" if stage.row_segments else "columns", reduced, columns


def _joins(stage: Stage, own: Home | None, home: Any) -> bool:
    """Whether a stage can be computed in the Program of a home, from values that are there."""
    kind, rows, columns = home
    if own is not None and own[0] == "segments":
        return kind == "rows" and own[2] == columns and _total(stage) == rows * columns
    if own is not None:
        return kind == "rows" and own == home
    size = _elements(stage)
    return size == columns if kind == "columns" else size in (rows, rows * columns)
