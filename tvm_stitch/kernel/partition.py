"""Every kind of Program that stages may become, and how many.

In: Stages in order and the buffers that must be written. Out: Programs, one for each unrelated
part, or several that run in rounds; or the reason why there are none. Must not know threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.cooperative.rounds import make_rounds
from tvm_stitch.kernel.cooperative.split_reduction import GROUP
from tvm_stitch.kernel.ir.accumulating import accumulating_program
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.placing import make_program, unit_reductions_as_elements
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.scan_pattern import is_scan
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.panels.program import fits_a_block, is_panel, panel_program
from tvm_stitch.kernel.rows.vector_width import narrowest_item
from tvm_stitch.kernel.scattered.program import scattering_program
from tvm_stitch.kernel.shared_input import co_scheduled_programs
from tvm_stitch.kernel.small_matmul.program import make_product_program
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.matmul_pattern import Factors, small_product
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.scattered_sum import scattered_sum
from tvm_stitch.stages.stage import Refused, Stage, Var, constant

SHORT_ROW = 256  # columns of windows, some of which a block has
# Of rows so few and long, partials are reduced in one round of blocks and summed up in the next.
FEW_ROWS, LONG_ROW = 8, 1 << 18
# What an H200 reads while the blocks of a grid wait for each other: a microsecond.
BARRIER_BYTES = 1 << 22


def make_programs(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], schemes: Sequence[str] = SCHEMES
) -> tuple[Program, ...] | Refused:
    """One program if the stages share a space and data, else one for each unrelated part.

    Where neither is possible, or memory would be read in short pieces or by few blocks only, the
    programs follow each other in rounds, if the global scheme may be used.
    """
    found = _side_by_side(stages, outputs)
    if "global" not in schemes:
        return found
    if not isinstance(found, Refused) and not any(map(wants_rounds, found)):
        return found
    in_rounds = make_rounds(stages, outputs)
    return found if isinstance(in_rounds, Refused) else in_rounds


def wants_rounds(program: Program, at: Extents | None = None) -> bool:
    """Whether rows are so few and long, or in such short pieces, that partials of them are better.

    Of sizes that only run time knows, at some sizes, or perhaps at any.
    """
    space = program.space
    rows, columns = (
        constant(each) if at is None else at.size(each) for each in (space.rows, space.columns)
    )
    if not program.reduces or not kind_of(program).rounds_if_long:
        return False
    if is_panel(program):
        return columns is None or not fits_a_block(program, columns)
    if not space.whole:
        run, beside = constant(space.run) or GROUP, constant(space.inner) or 1
        # Short rows of one block lie side by side, piece by piece, as a pooling's windows do.
        is_short = columns is not None and columns <= SHORT_ROW
        return run < GROUP and not (is_short and run * beside >= GROUP)
    return (rows is None or rows <= FEW_ROWS) and (columns is None or columns >= LONG_ROW)


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
    """Rows of one length where that is possible; products give them several."""
    stages = unit_reductions_as_elements(stages)
    if any(map(scattered_sum, stages)):
        return scattering_program(stages, outputs)
    if any(map(is_scan, stages)):
        return accumulating_program(stages, outputs)
    if any(stage.is_reduction and is_product(stage) for stage in stages):
        return make_product_program(stages, outputs)
    program = make_program(stages, outputs)
    supported = _is_supported(program)
    if not supported or _waits_for_little(program) or _has_windows(program):
        panel = panel_program(stages, outputs)
        # Of two that nobody takes, why it is no panel says more.
        says_more = not supported and isinstance(panel, Program)
        program = panel if says_more or _is_supported(panel) else program
    if isinstance(program, Refused) and any(isinstance(small_product(s), Factors) for s in stages):
        with_products = make_product_program(stages, outputs)
        return program if isinstance(with_products, Refused) else with_products
    return program


def _is_supported(program: Program | Refused) -> bool:
    """Whether there is a program, and a kind of kernel that takes it."""
    return isinstance(program, Program) and kind_of(program).unsupported(program) is None


def _has_windows(program: Program | Refused) -> bool:
    """Whether rows are windows, perhaps those that do not overlap."""
    return isinstance(program, Program) and reads_windows(program)


def _waits_for_little(program: Program | Refused) -> bool:
    """Whether a barrier of the grid would take longer than the sums over the rows before it."""
    if isinstance(program, Refused) or program.row_reductions or not program.column_reductions:
        return False
    elements = constant(program.space.size)
    return elements is not None and elements * narrowest_item(program) <= BARRIER_BYTES


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
