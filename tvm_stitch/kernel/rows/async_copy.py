"""Rows that are copied into shared memory while their threads do something else.

In: a Part whose mapping is asynchronous. Writes the copies, all of them before anything waits, and
the waits for them. A thread copies exactly what it reads itself, so that no other thread has to
know when a copy has arrived. Must not know what is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.keep_or_recompute import Residency
from tvm_stitch.kernel.codegen.thread_indexing import Steps
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES, int64
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Mapping
from tvm_stitch.kernel.ir.stage import Expr, Var, dtype_of, item_bytes

if TYPE_CHECKING:
    from tvm_stitch.kernel.rows.emit import Part

CAPABILITY = 80  # the first with copies that go past the registers
LEAST_BYTES = 4  # of such a copy
# A thread waits for its copies in so many groups: work on the first begins before the last is here.
GROUPS = 4


def arriving(program: Program, residency: Residency, mapping: Mapping) -> tuple[Var, ...]:
    """The inputs that a mapping has copied into shared memory."""
    if not mapping.asynchronous:
        return ()
    return tuple(buffer for buffer in program.inputs if buffer in residency.kept)


def why_not(program: Program, residency: Residency, mapping: Mapping) -> str | None:
    """Why a mapping cannot have its rows copied that way, if so."""
    if mapping.residence != "shared" or mapping.peeled:
        return "asynchronous copies of what does not wait in shared memory in aligned vectors"
    copied = arriving(program, residency, replace(mapping, asynchronous=True))
    if not copied:
        return "asynchronous copies, where nothing waits as it was read"
    if len(copied) < len(residency.kept):
        # These are written group by group and read step by step: TVM would put barriers between.
        return "asynchronous copies beside values that wait after they were computed"
    narrowest = min(item_bytes(dtype_of(buffer)) for buffer in copied)
    if narrowest * mapping.vector < LEAST_BYTES:
        return f"asynchronous copies of less than {LEAST_BYTES} bytes"
    return None


def groups_of(part: Part) -> list[list[Steps]]:
    """A thread's steps in groups that arrive one after the other."""
    each = -(-part.mapping.steps // GROUPS)
    groups: list[list[Steps]] = []
    for start in range(0, part.mapping.steps, each):
        end = min(start + each, part.mapping.steps)
        own = []
        for steps in part.position.steps():
            assert isinstance(steps.count, int), "rows that wait have steps"
            first, last = max(start, steps.start), min(end, steps.start + steps.count)
            if first < last:
                own.append(Steps(first, last - first, steps.care))
        groups.append(own)
    return groups


def start_copies(part: Part) -> None:
    """Issue the copies of everything, group by group."""
    for group in groups_of(part):
        for steps in group:
            with (
                part.writer.when(part.position.works),
                part.writer.unrolled(int(steps.count), "copy", steps.start) as step,
            ):
                exists = part.position.inside(step, int64(0)) if steps.care != "none" else None
                with part.writer.when(exists):
                    for buffer in part.arriving:
                        _copy(part, buffer, step)
        part.writer.add(tirx.Evaluate(T.ptx.cp.async_.commit_group()))


def wait(part: Part, pending: int) -> None:
    """Until no more than so many groups are on their way."""
    part.writer.add(tirx.Evaluate(T.ptx.cp.async_.wait_group(pending)))


def _copy(part: Part, buffer: Var, step: Expr) -> None:
    """A thread's vector of one step."""
    vector, size = part.mapping.vector, item_bytes(dtype_of(buffer))
    width = min(vector, ACCESS_BYTES // size)
    for first in range(0, vector, width):
        lane = int64(first)
        to = part.kept[buffer].ptr_to([part.slot(step, lane)])
        source = part.views[buffer].ptr_to([part.position.address(step, lane)])
        part.writer.copy_past(to, source, width * size)
