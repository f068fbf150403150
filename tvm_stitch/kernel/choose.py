"""Mapping: from Programs to the Schedule that suits their shapes and the device.

In: the Programs of one kernel and a Device. Out: a Schedule, or why there is none. Of what a kind
proposes for a part the first that is legal is taken; the kind says what is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from math import isqrt
from statistics import fmean
from typing import Any

import tvm
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.kind import BESIDE, IN_ROUNDS, KERNEL_OF_ITS_OWN, Context, Problem
from tvm_stitch.kernel.codegen.footprint import too_much_shared
from tvm_stitch.kernel.cooperative.choose_rounds import in_rounds, none_waits, round_threads
from tvm_stitch.kernel.footprint import footprint_of, tile_bytes
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping, switched_off
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.rows.choose import balance_registers
from tvm_stitch.kernel.rows.vector_width import narrowest_item
from tvm_stitch.kernel.shared_input import shares_input
from tvm_stitch.stages.extents import Extents, nominal
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import Refused, constant

# Each part of a kernel has room of its own for its tiles: many would leave few blocks resident.
TILES_BYTES = 40 * 1024
# Where the length of rows is symbolic, kernels for rows of up to so many elements; the last is for
# those that the model does not bound, and one that reads rows again in every phase takes the rest.
SHORT_COLUMNS, SYMBOLIC_COLUMNS = 1024, 16384
# The same of sums over the rows: blocks keep a share of each column in registers.
SUMMED_COLUMNS = 4096
# Where the number of rows is symbolic, that of a few. They have a kernel of their own where rows
# are so long: a few short ones take as long as a launch, and every kernel costs compile time.
FEW, LONG_ROW_BYTES = 16, 1 << 13
# But not where registers are as good as taken: a layer norm of 65536 bfloat16 by 512 threads of 108
# of their 128, as estimated, spills 824 bytes.
CROWDED = 1.2


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of symbolic dimensions by name, as Relax's tir_var_upper_bound states them.

    Kernels are compared by what they cost on average at some `points`, sizes of the symbols. Of
    sizes that nobody states no kernel is preferred to another but for the bytes that it moves;
    products have to suit any, those around what is `expected` first of all.
    """

    of: tuple[tuple[str, int], ...] = ()
    points: tuple[Extents, ...] = ()
    expected: tuple[tuple[str, int], ...] = ()

    @property
    def representative(self) -> Extents:
        """Sizes to show figures for: the middle one of the points."""
        return self.points[len(self.points) // 2] if self.points else self.likely

    @cached_property
    def likely(self) -> Extents:
        """Sizes to judge by where nobody states any."""
        return nominal(dict(self.expected), dict(self.of))

    def mean(self, figure: Callable[[Extents], float]) -> float:
        """A figure on average at the sizes that are stated, or at likely ones."""
        return fmean(map(figure, self.points or (self.likely,)))

    def columns(self, program: Program) -> int:
        """The row length, or the largest that it may have; 0: nobody says how long it may be.

        Rows of any length have a kernel behind those for shorter ones.
        """
        exact = constant(program.space.columns)
        if exact is not None:
            return exact
        if program.round:  # which other kernels would have to go through as well
            return 0
        analyzer = tvm.sym.Analyzer()
        known = dict(self.of)
        for var in tirx.analysis.undefined_vars(program.space.columns):
            if var.name not in known:
                return self._longest_named(program)
            analyzer.bind(var, tvm.ir.Range(tirx.IntImm("int64", 0), known[var.name] + 1))
        return min(int(analyzer.const_int_bound(program.space.columns).max_value), 1 << 30)

    def _longest_named(self, program: Program) -> int:
        """Rows as long as at any of the points, and of some length at least."""
        named = (point.size(program.space.columns) for point in self.points)
        least = SUMMED_COLUMNS if program.column_reductions else SYMBOLIC_COLUMNS
        return max(least, *named, 0)

    def told(self, programs: tuple[Program, ...], likely: Extents | None) -> tuple[Program, ...]:
        """Programs with the sizes to expect, where they have symbols and somebody says them."""
        return tuple(map(partial(_told, likely), programs))

    def shorter(self, programs: Sequence[Program]) -> list[tuple[int, Extents | None]]:
        """For rows of up to how many elements there are kernels besides that for all with a bound.

        With the sizes to expect there: rows as long as at points that somebody names, and short
        ones.
        """
        longest = max(map(self.columns, programs))
        lengths: dict[int, Extents | None] = {
            max(point.size(program.space.columns) for program in programs): point
            for point in self.points
        }
        if min(lengths, default=longest) > SHORT_COLUMNS:
            lengths[SHORT_COLUMNS] = self.points[0] if self.points else None
        return [(most, lengths[most]) for most in sorted(lengths) if most < longest]

    def row_ranges(
        self, programs: tuple[Program, ...], device: Device
    ) -> list[tuple[int, Extents | None]]:
        """Numbers of rows that may ask for schedules of their own, each with sizes to expect.

        As many as at the points, or where there are none a few and many; 0: any number.
        """
        if len(programs) > 1 or not programs or not programs[0].reduces:
            return []
        rows = programs[0].space.rows
        if constant(rows) is not None:
            return []
        if not self.points:
            few, most = _few_rows(programs[0]), isqrt(FEW * 2 * device.multiprocessors)
            return [] if few is None else [(most, few), (0, None)]
        at = {point.size(rows): point for point in self.points}
        numbers = sorted(at)
        limits = [isqrt(one * next_) for one, next_ in pairwise(numbers)]
        return [(most, at[number]) for most, number in zip([*limits, 0], numbers, strict=True)]

    def know(self, program: Program) -> bool:
        """Whether the row length has a bound."""
        known = dict(self.of)
        return all(v.name in known for v in tirx.analysis.undefined_vars(program.space.columns))


def _few_rows(program: Program) -> Extents | None:
    """Sizes where a program has a few long rows; None: where its rows are none."""
    if (constant(program.space.columns) or 0) * narrowest_item(program) < LONG_ROW_BYTES:
        return None
    names = sorted(var.name for var in tirx.analysis.undefined_vars(program.space.rows))
    along = {var.name for var in tirx.analysis.undefined_vars(program.space.columns)}
    least = Extents(tuple((name, 1) for name in names)).size(program.space.rows)
    if along.intersection(names) or least > FEW:
        return None
    return Extents(((names[0], FEW // least), *((name, 1) for name in names[1:])))


def _told(likely: Extents | None, program: Program) -> Program:
    if likely is None or constant(program.space.size) is not None:
        return program
    return remembered(program, likely, lambda: replace(program, likely=likely))


NO_BOUNDS = Bounds()


def context_of(programs: Sequence[Program], threads: int = 0) -> Context:
    """Where each of these programs is in their kernel, whose blocks have so many threads."""
    if any(program.round for program in programs):
        return Context(IN_ROUNDS, threads or round_threads(programs))
    return Context(BESIDE, threads) if len(programs) > 1 else KERNEL_OF_ITS_OWN


def problem_of(
    program: Program,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    others_follow: bool = False,
    schemes: tuple[str, ...] = (),
    context: Context = KERNEL_OF_ITS_OWN,
) -> Problem[Program]:
    """A program of which a mapping from elsewhere is asked.

    `others_follow`: a kernel of another schedule takes the rows that are too long.
    """
    columns = bounds.columns(program) if kind_of(program).has_rows else 0
    is_open = constant(program.space.columns) is None
    return Problem(program, device, columns, others_follow and is_open, schemes, context)


def choose(
    programs: tuple[Program, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Schedule | Refused:
    """The default schedule of a kernel of these programs on a device."""
    likely = bounds.representative if bounds.points else None
    ranges = bounds.row_ranges(programs, device)
    schedule = _of_lengths(programs, device, bounds, schemes, ranges[-1][1] if ranges else likely)
    for most, few in reversed(ranges[:-1]):
        chosen = _of_lengths(programs, device, bounds, schemes, few)
        if not isinstance(chosen, Refused) and not _is_crowded(programs, chosen, device):
            schedule = _for_few(chosen, schedule, most)
    return schedule


def _is_crowded(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> bool:
    """Whether threads are likely to want more registers than a block's have."""
    taken = footprint_of(programs, schedule)
    return not taken.registers_fit(CROWDED, device)


def _for_few(few: Schedule, schedule: Schedule | Refused, most: int) -> Schedule | Refused:
    """A schedule with others for so many rows, where that makes a difference."""
    if isinstance(schedule, Refused) or few == schedule:
        return schedule
    variants: list[Schedule] = []
    own: Schedule | None = few
    while own is not None:
        variants += [own] if not own.parts[0].any_length else []
        own = own.longer
    for each in reversed(variants):
        schedule = replace(each, longer=schedule, most_rows=most)
    return schedule


def _of_lengths(
    programs: tuple[Program, ...],
    device: Device,
    bounds: Bounds,
    schemes: tuple[str, ...],
    likely: Extents | None,
) -> Schedule | Refused:
    """A schedule for every range of lengths, for numbers of rows as at a likely size."""
    schedule = _choose(bounds.told(programs, likely), device, bounds.columns, schemes)
    open_ended = {
        number
        for number, program in enumerate(programs)
        if program.reduces and constant(program.space.columns) is None and not program.round
    }
    if not open_ended:
        return schedule
    own = [programs[number] for number in sorted(open_ended)]

    def up_to(most: int, likely: Extents | None) -> Schedule | Refused:
        told = bounds.told(programs, likely)
        is_open = {told[number] for number in open_ended}

        def length(program: Program) -> int:
            columns = bounds.columns(program)
            return min(columns, most) if program in is_open else columns

        return _choose(told, device, length, schemes)

    if not all(map(bounds.know, own)):
        rest = up_to(0, likely)
        is_refused = isinstance(schedule, Refused)
        schedule = rest if is_refused else _followed(schedule, rest) or schedule
    for most, point in reversed(bounds.shorter(own)):
        schedule = _followed(up_to(most, point), schedule) or schedule
    return schedule


def _followed(shorter: Schedule | Refused, longer: Schedule | Refused) -> Schedule | None:
    """The schedule for shorter rows, the other one for those that are longer."""
    if isinstance(shorter, Refused) or isinstance(longer, Refused):
        return None
    if all(part.any_length for part in shorter.parts):
        return shorter
    return replace(shorter, longer=longer)


def _choose(
    programs: tuple[Program, ...],
    device: Device,
    length: Callable[[Program], int],
    schemes: tuple[str, ...],
) -> Schedule | Refused:
    """The schedule for rows of up to that length; 0: of any length."""
    if not programs:
        return Refused("nothing is computed")
    lengths = tuple(map(length, programs))
    context = context_of(programs)
    parts = _mappings(programs, device, lengths, schemes, context)
    if not isinstance(parts, Refused) and context.place == BESIDE:
        with_rows = [part.block_threads for part in parts if not part.split]
        # Other parts take blocks of any size.
        common = max(with_rows or [part.block_threads for part in parts])
        parts = _mappings(programs, device, lengths, schemes, replace(context, threads=common))
    if isinstance(parts, Refused):
        return parts
    schedule = _together(programs, parts, device)
    if isinstance(schedule, Refused):
        return schedule
    return switched_off(schedule.schemes, schemes) or schedule


def _mappings(
    programs: tuple[Program, ...],
    device: Device,
    lengths: tuple[int, ...],
    schemes: tuple[str, ...],
    context: Context,
) -> list[Mapping] | Refused:
    """What each program of a kernel gets."""
    found: list[Mapping] = []
    for program, columns in zip(programs, lengths, strict=True):
        mapping = _mapping(program, device, columns, schemes, context)
        if isinstance(mapping, Refused):
            return mapping
        found.append(mapping)
    return found


@memoized
def _mapping(
    program: Program, device: Device, columns: int, schemes: tuple[str, ...], context: Context
) -> Mapping | Refused:
    problem = Problem(program, device, columns, schemes=schemes, context=context)
    return kind_of(program).choose(problem)


def _together(
    programs: tuple[Program, ...], parts: list[Mapping], device: Device
) -> Schedule | Refused:
    """The schedule of a kernel of these parts."""
    if len(parts) == 1 and not programs[0].round:
        return Schedule(tuple(parts))
    if any(program.round for program in programs):
        return in_rounds([*zip(programs, parts, strict=True)], device)
    if shares_input(programs, parts):
        rows: list[Any] = parts  # of which parts that share are
        parts = [*balance_registers(rows)]
    needed = tile_bytes(programs, parts)
    if needed > TILES_BYTES:
        return Refused(f"its parts' tiles need {needed} bytes of shared memory")
    schedule = Schedule(tuple(parts))
    return too_large(programs, schedule, device) or schedule


def round_by_round(
    kernels: Sequence[tuple[tuple[Program, ...], Schedule]], device: Device
) -> tuple[tuple[Program, ...], Schedule] | Refused:
    """Unrelated kernels in rounds as one, with as many barriers as the longest of them."""
    parts = [
        (program, none_waits(mapping))
        for programs, schedule in kernels
        for program, mapping in zip(programs, schedule.parts, strict=True)
    ]
    parts.sort(key=lambda part: (part[0].round, not part[0].persistent_inputs))
    schedule = in_rounds(parts, device)
    if isinstance(schedule, Refused):
        return schedule
    return tuple(program for program, _ in parts), schedule


def too_large(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> Refused | None:
    """Whether parts side by side, each with room of its own, need more than a block has."""
    needed = footprint_of(programs, schedule).shared
    reason = next(too_much_shared("its parts need", needed, device), None)
    return None if reason is None else Refused(reason)
