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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import (
    CLUSTERS,
    NO_BOUNDS,
    Bounds,
    idle_threads,
    vector_width,
)
from tvm_stitch.kernel.choose_grid import with_blocks
from tvm_stitch.kernel.choose_product import mapping_of_products
from tvm_stitch.kernel.flight import RESIDENT_THREADS
from tvm_stitch.kernel.legal import Legality, scheme_of
from tvm_stitch.kernel.product_program import ProductProgram
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.room import registers
from tvm_stitch.kernel.schedule import MAX_BLOCK_THREADS, SCHEMES, WARP, Mapping, Schedule
from tvm_stitch.kernel.stage import constant
from tvm_stitch.kernel.tiling import find_tiling

Values = dict[str, Any]  # of the axes, by name
_POWERS = tuple(1 << n for n in range(11))
# What is tried of every field of a Mapping. The other fields follow: the scheme from the threads of
# a row, the steps of a row from its length, peeling from its alignment.
ROW_AXES: dict[str, tuple[object, ...]] = {
    "cluster": CLUSTERS,
    "threads": _POWERS,
    "rows": _POWERS,
    "vector": _POWERS[:5],
    "residence": ("register", "shared", "nowhere"),
    "recompute": (False, True),
    "batch": (1, 2, 4),
    "ahead": (False, True),
    "eager": (False, True),  # few blocks a multiprocessor, of many registers
    "turns": ("none", "plain", "pipelined"),  # blocks take turns at the rows
}
FLAT_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS[5:],
    "vector": _POWERS[:5],
    "steps": _POWERS[:5],
}
TILE_AXES: dict[str, tuple[object, ...]] = {
    **FLAT_AXES,
    "tile": (0, *_POWERS[3:8]),
}  # where something is read transposed
# For sums over the rows. Blocks follow from how many are resident; steps are tried where rows are
# split over blocks, else they follow from the row's length.
GRID_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS,
    "rows": _POWERS,
    "vector": _POWERS[:5],
    "split": (False, True),
    "steps": _POWERS[:4],
    "recompute": (False, True),
    "pipelined": (False, True),
    "resident": (1, 2, 3, 4, 6, 8),
}
# For small matrix products; steps follow from the widest value.
PRODUCT_AXES: dict[str, tuple[object, ...]] = {
    "threads": _POWERS[:9],
    "rows": _POWERS,
    "batch": (1, 2, 4, 8),
}
MUTATIONS = 16  # attempts to change one axis before a schedule is drawn afresh


@dataclass(frozen=True)
class Choice:
    """Values of the axes, and the mapping of every part that they make."""

    values: tuple[object, ...]
    mappings: tuple[Mapping, ...]

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
        self.groups = groups
        self._parts = len(programs)
        choices = [
            [
                choice
                for choice in _choices([programs[part] for part in group], device, bounds)
                if self._allowed(choice, schemes)
            ]
            for group in groups
        ]
        sizes = [{choice.block_threads for choice in each} for each in choices]
        # By threads of a block: the choices of every group.
        self._by_threads = {
            threads: [[c for c in each if c.block_threads == threads] for each in choices]
            for threads in sorted(set.intersection(*sizes))
        }

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
        """A schedule that differs in one axis of one group; any other if there is none.

        Where the axis changes the threads of a block, another axis makes up for it, or all groups
        of the kernel are drawn afresh.
        """
        for _ in range(MUTATIONS):
            group = rng.randrange(len(self.groups))
            old = point.choices[group]
            distance = rng.choice((1, 1, 2))
            wanted = self._by_threads.get(old.block_threads, self._empty)
            pool = wanted[group] if len(self.groups) > 1 or distance == 2 else self._all
            near = [c for c in pool if _differences(c, old) == distance]
            if near:
                choices = list(point.choices)
                choices[group] = rng.choice(near)
                return self._point(tuple(choices))
        return self.sample(rng)

    def nearest(self, schedule: Schedule) -> Point:
        """The schedule of the space that shares most with a given one."""

        def alike(choices: list[Choice], group: tuple[int, ...]) -> Choice:
            given = schedule.parts[group[0]]
            return max(choices, key=lambda c: sum(a == b for a, b in _pairs(c.mappings[0], given)))

        choices = self._by_threads.get(schedule.block_threads)
        if choices is None:
            choices = next(iter(self._by_threads.values()))
        return self._point(tuple(map(alike, choices, self.groups)))

    @property
    def _empty(self) -> list[list[Choice]]:
        return [[] for _ in self.groups]

    @cached_property
    def _all(self) -> list[Choice]:
        """The choices of the only group."""
        return [choice for choices in self._by_threads.values() for choice in choices[0]]

    def _point(self, choices: tuple[Choice, ...]) -> Point:
        parts: list[Mapping | None] = [None] * self._parts
        for group, choice in zip(self.groups, choices, strict=True):
            for part, mapping in zip(group, choice.mappings, strict=True):
                parts[part] = mapping
        return Point(choices, Schedule(tuple(part for part in parts if part is not None)))


def _pairs(left: Mapping, right: Mapping) -> list[tuple[object, object]]:
    return list(zip(vars(left).values(), vars(right).values(), strict=True))


def _differences(left: Choice, right: Choice) -> int:
    return sum(a != b for a, b in zip(left.values, right.values, strict=True))


def axes_of(program: Program) -> dict[str, tuple[object, ...]]:
    """The axes of a program's mappings."""
    if isinstance(program, ProductProgram):
        return PRODUCT_AXES
    if program.across:
        return GRID_AXES
    if program.reduces:
        return ROW_AXES
    return FLAT_AXES if find_tiling(program) is None else TILE_AXES


def values_of(mapping: Mapping, program: Program) -> Values:
    """The values of the axes that make a mapping."""
    turns = "none" if not mapping.blocks else "pipelined" if mapping.pipelined else "plain"
    eager = mapping.resident > 0 and not mapping.blocks
    fields = {**vars(mapping), "turns": turns, "eager": eager}
    return {name: fields[name] for name in axes_of(program)}


def fitted(values: Values, legality: Legality) -> Mapping | None:
    """The mapping that values of the axes make of a program; None where it is not legal."""
    program = legality.program
    own = {name: value for name, value in values.items() if name not in ("eager", "turns")}
    least = {"rows": 1, "vector": 1, "steps": 1}
    fields = {"scheme": "local", **least, "split": not program.reduces, **own}
    mapping: Mapping | None = Mapping(**fields)
    assert mapping is not None
    if isinstance(program, ProductProgram):
        mapping = mapping_of_products(program, mapping.threads, mapping.rows, mapping.batch)
    if not WARP <= mapping.block_threads <= MAX_BLOCK_THREADS:
        return None
    if program.across:
        mapping = _grid_mapping(mapping, legality)
    elif program.reduces and not isinstance(program, ProductProgram):
        mapping = _row_mapping(mapping, legality, bool(values["eager"]), str(values["turns"]))
    else:
        mapping = replace(mapping, scheme=scheme_of(mapping, program))
    return None if mapping is None or legality.refusal(mapping) is not None else mapping


def _steps(mapping: Mapping, reach: int) -> int:
    """Steps in which a row is covered."""
    return max(1, -(-reach // (mapping.cluster * mapping.working * mapping.vector)))


def _row_mapping(mapping: Mapping, legality: Legality, eager: bool, turns: str) -> Mapping | None:
    """With what follows from its threads and vectors; None where it repeats another."""
    program = legality.program
    peeled = not legality.aligned(mapping.vector)
    idle = idle_threads(program, mapping.threads, mapping.vector)
    mapping = replace(mapping, scheme=scheme_of(mapping, program), peeled=peeled, idle=idle)
    reach = legality.columns + (mapping.vector - 1 if peeled else 0)
    mapping = replace(mapping, steps=_steps(mapping, reach))
    if eager:
        mapping = replace(mapping, resident=max(1, RESIDENT_THREADS // mapping.block_threads))
    return mapping if turns == "none" else _in_turns(mapping, legality, turns == "pipelined")


def _in_turns(mapping: Mapping, legality: Legality, pipelined: bool) -> Mapping | None:
    """With a grid as large as the device holds at once; None where no block has two turns."""
    device = legality.device
    needed = registers(mapping, legality.residency(mapping)) * mapping.block_threads
    resident = min(device.max_threads // mapping.block_threads, device.registers // needed)
    rows = constant(legality.program.space.rows)
    blocks = max(1, resident) * device.multiprocessors
    if rows is not None and -(-rows // mapping.rows) <= blocks:
        return None
    return replace(mapping, blocks=blocks, resident=max(1, resident), pipelined=pipelined)


def _grid_mapping(mapping: Mapping, legality: Legality) -> Mapping | None:
    """With as many blocks as may be resident; None where other values of the axes say the same."""
    if not mapping.split:
        if mapping.steps != 1:
            return None
        mapping = replace(mapping, steps=_steps(mapping, legality.columns))
    residency = legality.residency(mapping)
    wanted = mapping.resident
    found = with_blocks(
        legality.program,
        residency,
        replace(mapping, scheme="global"),
        legality.device,
        legality.columns,
        wanted,
    )
    return found if found is not None and found.resident == wanted else None


def _choices(programs: list[Program], device: Device, bounds: Bounds) -> Iterator[Choice]:
    """The legal choices of programs that share theirs."""
    legalities = [Legality(program, device, bounds) for program in programs]
    widest = min(map(vector_width, programs))

    def is_pointless(values: Values) -> bool:
        return values.get("vector", 1) > widest or _is_odd(values) or _is_idle(values, legalities)

    for values in _combinations(axes_of(programs[0]), is_pointless):
        mappings = []
        for legality in legalities:
            mapping = fitted(values, legality)
            if mapping is None:
                break
            mappings.append(mapping)
        else:
            yield Choice(tuple(values.values()), tuple(mappings))


def _combinations(
    axes: dict[str, tuple[object, ...]], is_pointless: Callable[[Values], bool]
) -> Iterator[Values]:
    """Values of all axes, without those of which the first few are pointless already."""
    pending: list[Values] = [{}]
    while pending:
        values = pending.pop()
        if len(values) == len(axes):
            yield values
            continue
        name = list(axes)[len(values)]
        longer = [{**values, name: value} for value in reversed(axes[name])]
        pending += [each for each in longer if not is_pointless(each)]


def _is_odd(values: Values) -> bool:
    """Whether blocks are of no size that there is, or several ways of loading early meet."""
    get = values.get
    block, cluster = get("threads", 1) * get("rows", 1), get("cluster", 1)
    if block > MAX_BLOCK_THREADS or ("rows" in values and "split" not in values and block < WARP):
        return True
    if cluster > 1 and (get("rows", 1) > 1 or get("threads", WARP) < WARP):
        return True
    batched = get("batch", 1) > 1 or get("ahead", False)
    alone = get("residence", "register") == "register" and cluster == 1
    if batched and (get("threads", 1) > WARP or not alone):
        return True
    if get("residence", "register") == "nowhere" and get("recompute", True) is False:
        return True  # what is kept nowhere is always computed again
    eager, turns = get("eager", False), get("turns", "none") != "none"
    return (eager and not alone) or (turns and (eager or batched or not alone))


def _is_idle(values: Values, legalities: list[Legality]) -> bool:
    """Whether threads or rows have no work, or a choice only repeats another one."""
    get = values.get
    block, batch = get("threads", 1) * get("rows", 1), get("batch", 1)
    for legality in legalities:
        width = get("cluster", 1) * get("threads", 1) * get("vector", 1)
        if legality.columns and width >= 2 * legality.columns and get("threads", 1) > 1:
            return True
        program = legality.program
        rows = (constant(program.space.rows) if program.reduces else None) or 1 << 62
        if get("rows", 1) * batch >= 2 * rows and block * batch > WARP:
            return True
        # Where recomputing makes no difference, sums over the rows say that they do.
        recompute = get("recompute", bool(program.across))
        streams = get("residence") == "nowhere"
        if recompute != bool(program.across) and not legality.recomputes and not streams:
            return True
        if get("ahead", False) and not legality.has_weights:
            return True
    return False
