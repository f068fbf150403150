"""Emits copies of rows into shared memory (cp.async), and the waits for them.

In: the state of a row whose mapping is asynchronous. Writes the copies, all of them before anything
waits. A thread copies exactly what it reads itself, so that no other thread has to know when a copy
has arrived. Must not know what is computed.
"""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.thread_indexing import Steps
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.rows.row_state import RowState
from tvm_stitch.stages.stage import Expr, Var, element_bytes
from tvm_stitch.stages.symbolic_analyzer import int64

# A thread waits for its copies in so many groups: work on the first begins before the last is here.
GROUPS = 4


def groups_of(row: RowState) -> list[list[Steps]]:
    """A thread's steps in groups that arrive one after the other."""
    each = -(-row.mapping.steps // GROUPS)
    groups: list[list[Steps]] = []
    for start in range(0, row.mapping.steps, each):
        end = min(start + each, row.mapping.steps)
        own = []
        for steps in row.position.steps():
            assert isinstance(steps.count, int), "rows that wait have steps"
            first, last = max(start, steps.start), min(end, steps.start + steps.count)
            if first < last:
                own.append(Steps(first, last - first, steps.guard))
        groups.append(own)
    return groups


def start_copies(row: RowState) -> None:
    """Issue the copies of everything, group by group."""
    for group in groups_of(row):
        for steps in group:
            with (
                row.writer.when(row.position.works),
                row.writer.unrolled(int(steps.count), "copy", steps.start) as step,
                row.writer.when(row.position.exists(step, steps.guard)),
            ):
                for buffer in row.phases.copies:
                    _copy(row, buffer, step)
        row.writer.add(tirx.Evaluate(T.ptx.cp.async_.commit_group()))


def wait(row: RowState, pending: int) -> None:
    """Until no more than so many groups are on their way."""
    row.writer.add(tirx.Evaluate(T.ptx.cp.async_.wait_group(pending)))


def _copy(row: RowState, buffer: Var, step: Expr) -> None:
    """A thread's vector of one step."""
    vector, size = row.mapping.vector, element_bytes(buffer)
    width = min(vector, ACCESS_BYTES // size)
    for first in range(0, vector, width):
        lane = int64(first)
        to = row.kept[buffer].ptr_to([row.slot(step, lane)])
        source = row.views[buffer].ptr_to([row.position.address(step, lane)])
        row.writer.cp_async(to, source, width * size)
