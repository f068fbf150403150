"""Which loads of a kernel with small products are issued before anything waits.

In: a ProductProgram, its Mapping. Out: reads, each with its Stage.
"""

from __future__ import annotations

from tvm_stitch.kernel.codegen.placed_loads import can_load_now
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.smem_layout import steps_of
from tvm_stitch.stages.stage import Read, Stage, dtype_of

MOST_EARLY = 16  # elements that a thread loads before it works on the first


def early_loads(program: ProductProgram, mapping: SmallMatmul) -> list[tuple[Stage, Read]]:
    """Loads that need nothing computed, as far as a thread has registers for them."""
    found: list[tuple[Stage, Read]] = []
    left = MOST_EARLY if mapping.prefetch_weights else 0
    own = {contraction.own for contraction in program.contractions.values()}
    for stage in program.stages:
        if stage.output in program.contractions or stage.output in own:
            continue
        steps = steps_of(program, mapping, stage)
        nested = any(read.nested for read in stage.reads)
        for read in stage.reads:
            possible = can_load_now(dtype_of(read.buffer)) and not (read.guarded or nested)
            if read.buffer in program.producer or not possible or steps > left:
                continue
            each = steps if program.is_common(stage, read) else mapping.batch * steps
            if each <= left:
                found.append((stage, read))
                left -= each
    return found
