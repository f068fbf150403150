"""What the columns of a segment need from memory, loaded once for all of its rows.

In: a Part at any row of a segment. Writes the loads of everything whose place depends on the column
and the segment alone, such as weights and the statistics that an earlier round has left, and tells
the Part where they are.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import ROW, Address, Frame, Stride
from tvm_stitch.kernel.codegen.tir_builder import all_of
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.row_segments import Uneven
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Expr, constant, dtype_of, element_bytes, substitute
from tvm_stitch.stages.symbolic_analyzer import int64, quotient
from tvm_stitch.stages.visit import mapped


def load_columns(part: Part, exists: Expr | None = None) -> None:
    """See the module's docstring; nothing is loaded unless the part's row `exists`."""
    for address in columns_of(part.program):
        tile = part.tile(f"{address.buffer.name}_of_columns", dtype_of(address.buffer))
        for steps in part.position.steps():
            with (
                part.writer.unrolled(steps.count, "step", steps.start) as step,
                part.writer.unrolled(part.mapping.vector, "lane") as lane,
                part.writer.when(all_of(exists, part.position.exists(step, steps.guard))),
            ):
                value = part.load(address, part.at_column(part.position.column(step, lane)))
                part.writer.store(tile, part.own_slot(step, lane), value)
        part.vectors[address.key] = (tile, part.own_slot)


def column_bytes(program: Program) -> int:
    """Bytes that a thread holds of them, for each of its columns."""
    return sum(element_bytes(address.buffer) for address in columns_of(program))


@memoized
def columns_of(program: Program) -> tuple[Address, ...]:
    """The places that depend on the column and the segment alone."""
    frame = Frame(program)
    found = [
        frame.address(stage, read)
        for stage, read in program.reads_at(Where.OTHER)
        if (stage.is_reduction or stage.output not in program.columnwise)
        and read.buffer in program.inputs
        and not (read.guarded or read.nested)
    ]
    own = {a.key: a for a in found if a.stride is not Stride.UNIFORM and _is_of_segment(frame, a)}
    return tuple(own.values())


def _is_of_segment(frame: Frame, address: Address) -> bool:
    """Whether an address is the same for all rows of a segment."""
    if address.from_memory:
        return False
    space = frame.program.space
    if space.uneven is not None:
        return _is_of_uneven(space.uneven, address.index, frame)
    analyzer = frame.analyzer.clone()
    row_segment, inside = tirx.Var("segment", "int64"), tirx.Var("inside", "int64")
    analyzer.bind(row_segment, tvm.ir.Range(int64(0), space.row_segments))
    analyzer.bind(inside, tvm.ir.Range(int64(0), space.segment_rows))
    index = substitute(address.index, {ROW: row_segment * space.segment_rows + inside})
    left = tirx.analysis.undefined_vars(analyzer.simplify(index))
    return all(var != inside for var in left)


def _is_of_uneven(uneven: Uneven, index: Expr, frame: Frame) -> bool:
    """The same where a segment may end before others do: a row's number says which it is of."""
    group, row, segment = (tirx.Var(name, "int64") for name in ("group", "row", "segment"))
    analyzer = frame.analyzer.clone()
    groups = quotient(frame.program.space.rows, uneven.rows)
    analyzer.bind(group, tvm.ir.Range(int64(0), groups))
    analyzer.bind(row, tvm.ir.Range(int64(0), uneven.rows))
    place = row if constant(groups) == 1 else group * uneven.rows + row
    own = analyzer.simplify(tirx.floordiv(row, uneven.length))

    def of_segment(division: Expr) -> Expr:
        return segment if analyzer.can_prove_equal(division, own) else division

    found = analyzer.simplify(substitute(index, {ROW: place}))
    found = mapped(found, (tirx.FloorDiv, of_segment))
    return all(var != row for var in tirx.analysis.undefined_vars(found))
