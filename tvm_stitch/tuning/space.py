"""The search space of one kernel: every legal Schedule that the table below spans.

In: the Programs of a kernel and the Device. Out: a Space to enumerate, to sample from and to mutate
in. What is legal is asked of kernel/legal; nothing here knows what is fast.

Unrelated parts of a kernel that compute the same for other sizes share their choice, and all parts
have blocks of equally many threads.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.transposed_reads import find_tiling
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose
from tvm_stitch.kernel.cooperative.choose_column_sums import with_blocks
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import MAX_BLOCK_THREADS, SCHEMES, WARP, Mapping, Schedule
from tvm_stitch.kernel.ir.stage import Refused, constant
from tvm_stitch.kernel.legal import Legality, scheme_of
from tvm_stitch.kernel.rows.choose import CLUSTERS, idle_threads
from tvm_stitch.kernel.rows.footprint import registers
from tvm_stitch.kernel.small_matmul.choose import mapping_of_products
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.tuning import rounds
from tvm_stitch.tuning.redundant import Values, is_redundant

_POWERS = tuple(1 << n for n in range(11))
# What is tried of every field of a Mapping, but for those that follow from others: the scheme and
# how steps cover a row from its threads and its length, peeling from its alignment.
FOLLOWING = (
    "scheme",
    "peeled",
    "idle",
    "steps",
    "split",
    "blocks",
    "prefetch_next_row",
    "persistent_rows",
)
ROW_AXES: dict[str, tuple[object, ...]] = {
    "cluster": CLUSTERS,
    "threads": _POWERS,
    "rows": _POWERS,
    "vector": _POWERS[:5],
    "residence": ("register", "shared", "nowhere"),
    "recompute": (False, True),
    "batch": (1, 2, 4),
    "prefetch_weights": (False, True),
    "min_blocks_per_sm": (0, 512, 1024, 2048),  # threads that a multiprocessor has registers for
    "unroll": (0, 2, 8),
    "turns": ("none", "plain", "pipelined"),  # blocks take turns at the rows
}
FLAT_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS[5:],
    "vector": _POWERS[:5],
    "steps": _POWERS[:5],
    "min_blocks_per_sm": (0, 1024, 2048),
}
# Where something is read transposed.
TILE_AXES: dict[str, tuple[object, ...]] = {**FLAT_AXES, "tile": (0, *_POWERS[3:8])}
# For sums over the rows. Blocks follow from how many are resident; steps are tried where rows are
# split over blocks, else they follow from the row's length.
GRID_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS,
    "rows": _POWERS,
    "vector": _POWERS[:5],
    "split": (False, True),
    "steps": _POWERS[:4],
    "recompute": (False, True),
    "prefetch_next_row": (False, True),
    "min_blocks_per_sm": (1, 2, 3, 4, 6, 8),
}
# For small matrix products; steps follow from the widest value.
PRODUCT_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS[:9],
    "rows": _POWERS,
    "batch": (1, 2, 4, 8),
    "split": (False, True),
    "prefetch_weights": (False, True),
}
# Yes or no: whatever else a Mapping says that way is tried of every kernel; legality has the say.
FLAGS: dict[str, tuple[object, ...]] = {
    field.name: (False, True)
    for field in fields(Mapping)
    if field.type == "bool" and field.name not in {*ROW_AXES, *GRID_AXES, *FOLLOWING}
}
MUTATIONS = 64  # attempts to change an axis before a schedule is drawn afresh


@dataclass(frozen=True)
class Choice:
    """Values of the axes, and the mapping of every part that they make."""

    values: tuple[object, ...]
    mappings: tuple[Mapping, ...]
    whole: Schedule | None = None  # of a kernel in rounds, whose parts share all values

    @property
    def block_threads(self) -> int:
        """Threads of its blocks."""
        return self.mappings[0].block_threads


@dataclass(frozen=True)
class Point:
    """One schedule of the space, with the choices that it is made of."""

    choices: tuple[Choice, ...]
    schedule: Schedule


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
        return [
            [
                choice
                for choice in _choices([programs[part] for part in group], device, bounds)
                if self._allowed(choice, schemes)
            ]
            for group in self.groups
        ]

    def _allowed(self, choice: Choice, schemes: tuple[str, ...]) -> bool:
        first = choice.mappings[0]
        if self._parts > 1 and ("independent" not in schemes or first.cluster > 1 or first.blocks):
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

    def nearest(self, schedule: Schedule) -> Point:
        """The schedule of the space that shares most with a given one."""

        def alike(choices: list[Choice], group: tuple[int, ...]) -> Choice:
            given = schedule.parts[group[0]]

            def likeness(choice: Choice) -> tuple[bool, int]:
                pairs = _pairs(choice.mappings[0], given)
                return choice.whole == schedule, sum(a == b for a, b in pairs)

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


def _pairs(left: Mapping, right: Mapping) -> list[tuple[object, object]]:
    return list(zip(vars(left).values(), vars(right).values(), strict=True))


def tables_of(program: Program) -> dict[str, tuple[object, ...]]:
    """The axes of a program's mappings, without flags."""
    if isinstance(program, ProductProgram):
        return PRODUCT_AXES
    if program.column_reductions:
        return GRID_AXES
    if program.reduces:
        return ROW_AXES
    return FLAT_AXES if find_tiling(program) is None else TILE_AXES


def values_of(mapping: Mapping, program: Program) -> Values:
    """The values of the axes that make a mapping."""
    turns = "none" if not mapping.blocks else "pipelined" if mapping.prefetch_next_row else "plain"
    values = {**vars(mapping), "turns": turns}
    if not program.column_reductions:
        values["min_blocks_per_sm"] = (
            0 if mapping.blocks else mapping.min_blocks_per_sm * mapping.block_threads
        )
    return {name: values[name] for name in (*tables_of(program), *FLAGS)}


def fitted(values: Values, legality: Legality) -> Mapping | None:
    """The mapping that values of the axes make of a program; None where it is not legal."""
    plain = _without_flags(values, legality)
    if plain is None:
        return None
    mapping = replace(plain, **{name: values.get(name, False) for name in FLAGS})
    return None if legality.refusal(mapping) is not None else mapping


def _without_flags(values: Values, legality: Legality) -> Mapping | None:
    """What the other axes make of a program; None where values say the same as others do."""
    program = legality.program
    own = {name: value for name, value in values.items() if name not in {"turns", *FLAGS}}
    least = {"rows": 1, "vector": 1, "steps": 1}
    fixed = {"scheme": "local", **least, "split": not program.reduces}
    mapping = Mapping(**{**fixed, **own})
    if isinstance(program, ProductProgram):
        sizes = mapping.threads, mapping.rows, mapping.batch
        products = mapping_of_products(program, *sizes, mapping.split)
        return replace(products, prefetch_weights=mapping.prefetch_weights)
    if not WARP <= mapping.block_threads <= MAX_BLOCK_THREADS:
        return None
    if program.column_reductions:
        return _grid_mapping(mapping, legality)
    resident = mapping.min_blocks_per_sm // mapping.block_threads
    mapping = replace(mapping, scheme=scheme_of(mapping, program), min_blocks_per_sm=resident)
    return _row_mapping(mapping, legality, str(values["turns"])) if program.reduces else mapping


def _steps(mapping: Mapping, reach: int) -> int:
    """Steps in which a row is covered."""
    return max(1, -(-reach // (mapping.cluster * mapping.working * mapping.vector)))


def _row_mapping(mapping: Mapping, legality: Legality, turns: str) -> Mapping | None:
    """With what follows from its threads and vectors; None where it repeats another."""
    program = legality.program
    peeled = not legality.aligned(mapping.vector)
    idle = idle_threads(program, mapping.threads, mapping.vector)
    mapping = replace(mapping, scheme=scheme_of(mapping, program), peeled=peeled, idle=idle)
    reach = legality.columns + (mapping.vector - 1 if peeled else 0)
    mapping = replace(mapping, steps=_steps(mapping, reach))
    if mapping.unroll > mapping.steps:
        return None
    return mapping if turns == "none" else _in_turns(mapping, legality, turns == "pipelined")


def _in_turns(mapping: Mapping, legality: Legality, pipelined: bool) -> Mapping | None:
    """With a grid as large as the device holds at once; None where no block has two turns."""
    device = legality.device
    program, residency = legality.program, legality.residency(mapping)
    needed = registers(program, mapping, residency) * mapping.block_threads
    resident = min(device.max_threads // mapping.block_threads, device.registers // needed)
    rows = constant(legality.program.space.rows)
    blocks = max(1, resident) * device.multiprocessors
    if rows is not None and -(-rows // mapping.rows) <= blocks:
        return None
    return replace(
        mapping, blocks=blocks, min_blocks_per_sm=max(1, resident), prefetch_next_row=pipelined
    )


def _grid_mapping(mapping: Mapping, legality: Legality) -> Mapping | None:
    """With as many blocks as may be resident; None where other values of the axes say the same."""
    if not mapping.split:
        mapping = replace(mapping, steps=_steps(mapping, legality.columns))
    residency = legality.residency(mapping)
    wanted = mapping.min_blocks_per_sm
    found = with_blocks(
        legality.program,
        residency,
        replace(mapping, scheme="global"),
        legality.device,
        legality.columns,
        wanted,
    )
    return found if found is not None and found.min_blocks_per_sm == wanted else None


def _choices(programs: list[Program], device: Device, bounds: Bounds) -> Iterator[Choice]:
    """The legal choices of programs that share theirs."""
    legalities = [Legality(program, device, bounds) for program in programs]
    for plain in _combinations(tables_of(programs[0]), partial(is_redundant, legalities)):
        found = _fitted_to_all(plain, legalities)
        if not found:
            continue
        # Most programs have no use for most flags: those are tried where all else is legal.
        for flags in itertools.product((False, True), repeat=len(FLAGS)):
            values = {**plain, **dict(zip(FLAGS, flags, strict=True))}
            mappings = _fitted_to_all(values, legalities) if any(flags) else found
            if mappings:
                yield Choice(tuple(values.values()), mappings)


def _choices_in_rounds(
    programs: tuple[Program, ...], device: Device, bounds: Bounds, schemes: tuple[str, ...]
) -> Iterator[Choice]:
    """The legal choices of a kernel whose blocks meet between rounds."""
    chosen = choose(programs, device, bounds, schemes)
    if not isinstance(chosen, Refused):
        for whole, values in rounds.schedules(programs, chosen, device, bounds, schemes).items():
            yield Choice(values, whole.parts, whole)


def _fitted_to_all(values: Values, legalities: list[Legality]) -> tuple[Mapping, ...]:
    """A mapping for each program; none where one of them has none."""
    found = []
    for legality in legalities:
        mapping = fitted(values, legality)
        if mapping is None:
            return ()
        found.append(mapping)
    return tuple(found)


def _combinations(
    axes: dict[str, tuple[object, ...]], skip: Callable[[Values], bool]
) -> Iterator[Values]:
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
