"""Which rows can persist on the chip from one round to the next.

In: Programs in rounds, each in a space of its own. Out: the same, those without reductions in the
space of others that read the same tensors, and every program told which of its inputs other rounds
read in the same rows. Must not know threads: how many rows persist is
kernel/cooperative/choose_rounds' to say.

A block then has the same rows of a tensor in every round, and what it has loaded need not leave.
An input that is read only behind a reduction along the rows, where it is read first, does not
persist: rows are copied from the registers that are loaded before that.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial

from tvm_stitch.kernel.analysis.keep_or_recompute import plan_phases
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Refused, Var, constant, handle, same_size

# Shorter rows of an element-wise program are better read as one run.
SHORTEST_OF_SEGMENT = 32
SHORTEST_ROW = 512

PersistentKey = tuple[int, tuple[str, ...]]  # a tensor in the rows of a space


def with_persistent_inputs(programs: tuple[Program, ...]) -> tuple[Program, ...]:
    """See the module's docstring."""
    spaces: dict[int, Space] = {}
    for program in programs:
        if _has_rows(program.space):
            for buffer in program.rows_read:
                spaces.setdefault(handle(buffer), program.space)
    programs = tuple(_in_rows(program, spaces) for program in programs)
    rounds: dict[PersistentKey, set[int]] = defaultdict(set)
    for program in programs:
        for key, buffer in _persistent_keys(program).items():
            if key in rounds or _loads_first(program, buffer):
                rounds[key].add(program.round)
    pairs = [(program, _chosen(program, rounds)) for program in programs]
    first = {key: program.round for program, own in reversed(pairs) for key in own}
    told = [_told(program, own, first) for program, own in pairs]
    # A block finds the same rows in every round if these come first in each.
    return tuple(sorted(told, key=lambda program: (program.round, not program.persistent_inputs)))


def _has_rows(space: Space) -> bool:
    """Whether a space has segments, or several long rows that each lie in one run."""
    columns = NOMINAL.size(space.columns)
    if space.row_segment is not None:
        return columns >= SHORTEST_OF_SEGMENT
    return space.whole and constant(space.rows) != 1 and columns >= SHORTEST_ROW


def _in_rows(program: Program, spaces: dict[int, Space]) -> Program:
    """An element-wise program in the rows in which one of its inputs has been reduced."""
    if program.reduces:
        return program
    for buffer in program.rows_read:
        space = spaces.get(handle(buffer))
        if space is None or not same_size(space.size, program.space.size):
            continue
        made = remembered(program, ("in rows", space.key), partial(_made_in, program, space))
        return program if isinstance(made, Refused) else made
    return program


def _made_in(program: Program, space: Space) -> Program | Refused:
    made = make_program(program.stages, program.outputs, space)
    if isinstance(made, Refused):
        return made
    return replace(made, round=program.round, crossing=program.crossing, joined=program.joined)


def _persistent_keys(program: Program) -> dict[PersistentKey, Var]:
    space = program.space
    if constant(space.size) is None or (space.row_segment is None and not _has_rows(space)):
        return {}
    return {(handle(buffer), program.space.key): buffer for buffer in program.rows_read}


def _loads_first(program: Program, buffer: Var) -> bool:
    """Whether a row of an input is in registers before the first reduction of the row ends."""
    # As it is planned for mappings of rows, which asks for the same.
    return buffer in plan_phases(program, False, "register").phases[0].loads


def _chosen(program: Program, rounds: dict[PersistentKey, set[int]]) -> dict[PersistentKey, Var]:
    """The inputs that are read in most rounds: room is short."""
    keys = {k: b for k, b in _persistent_keys(program).items() if program.round in rounds[k]}
    most = max((len(rounds[key]) for key in keys), default=0)
    return {key: b for key, b in keys.items() if len(rounds[key]) == most > 1}


def _told(
    program: Program, chosen: dict[PersistentKey, Var], first: dict[PersistentKey, int]
) -> Program:
    """The program with what is chosen."""
    if not chosen:
        return program
    reused_inputs = tuple(b for each, b in chosen.items() if first[each] < program.round)
    key = ("persistent", *chosen, len(reused_inputs))
    own = tuple(chosen.values())
    told = partial(replace, program, persistent_inputs=own, reused_inputs=reused_inputs)
    return remembered(program, key, told)
