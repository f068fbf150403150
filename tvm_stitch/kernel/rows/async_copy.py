"""Rows that are copied into shared memory while their threads do something else.

In: a Program, a Mapping. Out: why its rows cannot be copied that way (cp.async), if so. Which
inputs are, Phases say; emit_async_copy writes it.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import element_bytes

CAPABILITY = 80  # the first with cp.async
LEAST_BYTES = 4  # of such a copy


def why_not(program: Program, mapping: Mapping) -> str | None:
    """Why a mapping cannot have its rows copied that way, if so."""
    if mapping.residence != "shared" or mapping.peeled:
        return "asynchronous copies of what does not wait in shared memory in aligned vectors"
    phases = phases_of(program, mapping)
    copied = phases.kept_inputs
    if not copied:
        return "asynchronous copies, where nothing waits as it was read"
    if len(copied) < len(phases.kept):
        # These are written group by group and read step by step: TVM would put barriers between.
        return "asynchronous copies beside values that wait after they were computed"
    narrowest = min(element_bytes(buffer) for buffer in copied)
    if narrowest * mapping.vector < LEAST_BYTES:
        return f"asynchronous copies of less than {LEAST_BYTES} bytes"
    return None
