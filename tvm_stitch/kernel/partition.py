"""Every kind of Program that stages may become, and how many.

In: Stages in order and the buffers that must be written. Out: Programs, one for each unrelated
part, or several that run in rounds; or the reason why there are none. Must not know threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from tvm_stitch.kernel.analysis.bounded_products import Limits, widened
from tvm_stitch.kernel.analysis.kind import Made
from tvm_stitch.kernel.axis_order.of_result import in_result_order
from tvm_stitch.kernel.axis_order.of_source import in_source_order
from tvm_stitch.kernel.cooperative.rounds import make_rounds
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.placing import unit_reductions_as_elements
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.kinds import KINDS, kind_of
from tvm_stitch.kernel.shared_input import co_scheduled_programs
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Refused, Stage, Var, constant

# Parts of up to so many stages are the same in many sets that planners ask about.
KEPT_STAGES = 16


def make_programs(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    schemes: Sequence[str] = SCHEMES,
    limits: Limits = MappingProxyType({}),
) -> tuple[Program, ...] | Refused:
    """What mostly is the best of the ways that there are."""
    ways = ways_of(stages, outputs, schemes, limits)
    return ways if isinstance(ways, Refused) else ways[0]


def ways_of(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    schemes: Sequence[str] = SCHEMES,
    limits: Limits = MappingProxyType({}),
) -> list[tuple[Program, ...]] | Refused:
    """One program if the stages share a space and data, else one for each unrelated part.

    Where neither is possible, or memory would be read in short pieces or by few blocks only, the
    programs follow each other in rounds, if the global scheme may be used, of what a transpose has
    read as it lies; those without rounds come second then. Small products are as wide and deep as
    the `limits` of their symbols allow.
    """
    if limits:
        stages = widened(stages, outputs, limits) or stages
    found = _side_by_side(stages, outputs)
    alone = found if isinstance(found, Refused) else [found]
    if "global" not in schemes:
        return alone
    if not isinstance(found, Refused) and not any(map(wants_rounds, found)):
        return alone
    turned = in_source_order(stages, outputs)
    in_rounds = turned if isinstance(turned, Refused) else make_rounds(turned, outputs)
    if isinstance(in_rounds, Refused) or not all(map(_is_taken, in_rounds)):
        in_rounds = make_rounds(stages, outputs)
    if isinstance(in_rounds, Refused):
        return alone
    return [in_rounds] if isinstance(alone, Refused) else [in_rounds, *alone]


def wants_rounds(program: Program, at: Extents | None = None) -> bool:
    """Whether rows are so few and long, or in such short pieces, that partials of them are better.

    Of sizes that only run time knows, at some sizes, or perhaps at any.
    """
    space = program.space
    rows, columns = (
        constant(each) if at is None else at.size(each) for each in (space.rows, space.columns)
    )
    return program.reduces and kind_of(program).wants_rounds(program, rows, columns)


def _side_by_side(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Program, ...] | Refused:
    parts = unrelated(stages, outputs)
    if len(parts) == 1:
        parts = [(stages, outputs)]
    programs: list[Program] = []
    for own_stages, own_outputs in parts:
        program = _one_program(own_stages, own_outputs)
        if isinstance(program, Refused):
            several = co_scheduled_programs(own_stages, own_outputs) if len(parts) == 1 else ()
            several = several or _sharing_inputs(own_stages, own_outputs)
            if not several:
                return program
            programs += several
        else:
            programs.append(program)
    return tuple(programs)


def _sharing_inputs(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> tuple[Program, ...]:
    """Programs that have nothing in common but inputs, if that is all that keeps them together."""
    parts = unrelated(stages, outputs, by_inputs=False)
    programs = [_one_program(*part) for part in parts] if len(parts) > 1 else []
    found = [program for program in programs if not isinstance(program, Refused)]
    return tuple(found) if len(found) == len(programs) else ()


def _one_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """The program of a part; of a small one it is kept, for sets that differ in other parts."""
    if len(stages) > KEPT_STAGES:
        return _new_program(stages, outputs)
    key = (_one_program, stages, outputs)
    return remembered(stages[-1], key, lambda: _new_program(stages, outputs))


def _new_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """The program of the kind that claims a stage, else of the most special one that is wanted.

    Where there is none, that of the rows in the order of a transposed result.
    """
    stages = unit_reductions_as_elements(stages)
    for kind in KINDS:
        if any(map(kind.claims, stages)):
            return kind.program(stages, outputs)
    found = _best_made(stages, outputs)
    if not found.is_supported:
        turned = in_result_order(stages, outputs)
        if not isinstance(turned, Refused):
            other = _best_made(turned, outputs)
            found = other if other.is_supported else found
    return found.program


def _best_made(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Made:
    general, *special = reversed(KINDS)
    found = _made(stages, general.program(stages, outputs))
    for kind in special:
        if kind.is_wanted(found):
            made = _made(stages, kind.program(stages, outputs))
            # Of two that nobody takes, why it is not the special one says more.
            says_more = isinstance(made.program, Program) and not found.is_supported
            found = made if says_more or made.is_supported else found
    return found


def _made(stages: tuple[Stage, ...], program: Program | Refused) -> Made:
    return Made(stages, program, isinstance(program, Program) and _is_taken(program))


def _is_taken(program: Program) -> bool:
    return kind_of(program).unsupported(program) is None


def unrelated(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], by_inputs: bool = True
) -> list[tuple[tuple[Stage, ...], tuple[Var, ...]]]:
    """Parts that share no computed value, and no input that all elements of both read.

    Without `by_inputs`, parts may share inputs.
    """
    writer = {stage.output: number for number, stage in enumerate(stages)}
    leader = list(range(len(stages)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    readers: dict[Var, int] = {}
    for number, stage in enumerate(stages):
        for buffer, is_whole in stage.buffers.items():
            if buffer in writer:
                leader[find(writer[buffer])] = find(number)
            elif is_whole and by_inputs:
                leader[find(readers.setdefault(buffer, number))] = find(number)
    parts: dict[int, tuple[list[Stage], list[Var]]] = {}
    for number, stage in enumerate(stages):
        parts.setdefault(find(number), ([], []))[0].append(stage)
    for output in outputs:
        if output in writer:
            parts[find(writer[output])][1].append(output)
    return [(tuple(own), tuple(found)) for own, found in parts.values() if found]
