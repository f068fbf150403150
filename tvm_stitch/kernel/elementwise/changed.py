"""Elements that stay as they are where a kernel's results take the memory of what they are made of.

In: a Part whose results are tensors with a few elements replaced, as a cache with the keys of a
step. Out: a branch around all that it does, for threads that have nothing to write. Whether a
result takes the memory of what it replaces elements of is known when the kernel runs (see
in_place), from their addresses.

Without, a step of a Llama 3 behind a cache of 1024 positions, of 16 sequences, copies 67 MB in each
layer to replace 64 KB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.codegen.thread_indexing import Guard
from tvm_stitch.kernel.codegen.tir_builder import flat_loads
from tvm_stitch.kernel.ir.inlining import all_reads, with_inlined
from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.stages.guards import is_branch
from tvm_stitch.stages.stage import Expr, Stage, Var, constant, handle, substitute
from tvm_stitch.stages.symbolic_analyzer import int64

# A block takes so many pieces at most, one after the other, as leave so many blocks: those of which
# nothing changes are done as soon as they are there, which a multiprocessor is told of one by one.
MOST_TURNS, FEWEST_BLOCKS = 16, 1024
MOST_INLINED = 8  # stages that a condition is made of, one behind the other
_NAME = "tvm_stitch_lies_elsewhere"
_SOURCE = f"""
__device__ __forceinline__ bool {_NAME}(const void* one, const void* other) {{
  return one != other;
}}
"""


def turns_of(program: Program, mapping: Flat) -> int:
    """Pieces that each block goes through, where few elements may change of many."""
    total, turns = constant(program.space.columns), 1
    if total is None or not all(_keeps(program, output) for output in program.outputs):
        return turns
    blocks, rest = divmod(total, mapping.reach)
    while not rest and turns < MOST_TURNS and blocks % 2 == 0 and blocks > FEWEST_BLOCKS:
        blocks, turns = blocks // 2, turns * 2
    return turns


@contextmanager
def where_changed(part: Part) -> Iterator[None]:
    """Threads that may have to write any of their elements; all, where nothing else is known."""
    (steps, *others) = part.position.steps()
    changes = None if others or steps.count != 1 or steps.guard is Guard.EDGE else _changes(part)
    if changes is None:
        yield
        return
    with part.writer.when(part.position.exists(int64(0), steps.guard)), part.writer.when(changes):
        yield


def _changes(part: Part) -> Expr | None:
    """What holds if any element of a thread that exists has to be written; None: it always does."""
    found: list[Expr] = []
    for output in part.program.outputs:
        kept = _keeps(part.program, output)
        if kept is None:
            return None
        first = (part.views[buffer].ptr_to([int64(0)]) for buffer in (kept.source, output))
        found.append(T.cuda.func_call(_NAME, *first, source_code=_SOURCE, return_type="bool"))
        found += _at_lanes(part, kept.asked)
    return tirx.any(*found)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A tensor whose elements a stage keeps, each where it was."""

    source: Var
    asked: Stage  # whether an element is another one, by what the kernel reads


def _keeps(program: Program, output: Var) -> _Kept | None:
    """What an output keeps elements of, if that is an input and as large."""
    stage = program.producer.get(output)
    if stage is None:
        return None
    value, conditions = stage.value, list[Expr]()
    while isinstance(value, tvm.ir.Call) and is_branch(value):
        condition, _, value = value.args
        conditions.append(condition)
    for read in stage.reads if conditions else ():
        if read.key == handle(value) and read.buffer in program.inputs:
            same = tvm_ffi.structural_equal(read.buffer.ty, stage.output.ty)
            if same and program.place(stage, read) is Where.SAME:
                asked = _of_inputs(program, replace(stage, value=tirx.any(*conditions)))
                return None if asked is None else _Kept(read.buffer, asked)
    return None


def _of_inputs(program: Program, asked: Stage) -> Stage | None:
    """The same by what the kernel reads; None: what it is made of is not of an element alone."""
    for _ in range(MOST_INLINED):
        own = {b: reads for b, reads in all_reads(asked).items() if b in program.producer}
        if not own:
            return asked
        if any(program.producer[buffer].is_reduction for buffer in own):
            return None
        asked = with_inlined(asked, own, program.producer)
    return None


def _at_lanes(part: Part, asked: Stage) -> list[Expr]:
    """A condition for each element of a thread; of those that are alike one."""
    frame, position = part.frame, part.position
    condition = flat_loads(part.views, substitute(asked.value, frame.axes(asked)))
    found: dict[tvm_ffi.StructuralKey, Expr] = {}
    for lane in range(part.mapping.vector):
        here = {ROW: position.row, COLUMN: position.column(int64(0), int64(lane))}
        own = frame.analyzer.simplify(substitute(condition, here))
        found.setdefault(tvm_ffi.StructuralKey(own), own)
    return list(found.values())
