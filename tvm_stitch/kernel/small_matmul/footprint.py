"""What a block of a kernel with small products takes: its shared memory, and what is staged there.

In: a ProductProgram, its Mapping. Out: figures, and the Tables of the panels that have room. Of
registers the compiler makes do with what there is.
"""

from __future__ import annotations

from tvm_stitch.kernel.codegen.footprint import Footprint
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.small_matmul.column_slices import waiting
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import Panel
from tvm_stitch.kernel.small_matmul.smem_layout import (
    ITEM,
    Table,
    pitch,
    slices_of,
    steps_of,
    table_of,
)
from tvm_stitch.stages.stage import element_bytes

# A panel that fewer rows share is read through the caches where neighbours lie side by side.
STAGED_ROWS = 4
SHARED_BYTES = 64 * 1024  # of a block: every GPU has that much
# Where threads share the depth: that of few rows, and of the columns that a block has.
DEEP_SHARED_BYTES = 160 * 1024


def product_footprint(program: ProductProgram, mapping: SmallMatmul) -> Footprint:
    """What a block takes."""
    tables = sum(table.bytes for table in staged_tables(program, mapping))
    shared = tables + waiting_bytes(program, mapping) + _partials_bytes(program, mapping)
    return Footprint(mapping.block_threads, 0, shared)


def waiting_bytes(program: ProductProgram, mapping: SmallMatmul) -> int:
    """Shared memory of the values that wait for the threads of their rows."""
    waits = waiting(program, slices_of(program, mapping))
    row = (pitch(columns) * element_bytes(buffer) for buffer, columns in waits.items())
    return mapping.block_rows * sum(row)


def _partials_bytes(program: ProductProgram, mapping: SmallMatmul) -> int:
    """Shared memory of the sums that threads have of their shares of the depth."""
    if mapping.depth_split == 1:
        return 0
    steps = sum(steps_of(program, mapping, program.producer[each]) for each in program.contractions)
    return mapping.block_threads * mapping.batch * steps * ITEM


def room_for_factors(program: ProductProgram, mapping: SmallMatmul) -> int:
    """Shared memory that a block may take for factors."""
    most = DEEP_SHARED_BYTES if mapping.depth_split > 1 else SHARED_BYTES
    return most - waiting_bytes(program, mapping) - _partials_bytes(program, mapping)


def staged_tables(program: ProductProgram, mapping: SmallMatmul) -> tuple[Table, ...]:
    """The panels that have room in shared memory; the others are read through the caches."""
    left = room_for_factors(program, mapping)
    found = []
    for panel in sorted(program.panels, key=lambda panel: not must_be_staged(program, panel)):
        if mapping.block_rows < STAGED_ROWS and not must_be_staged(program, panel):
            continue
        table = table_of(program, mapping, panel)
        if table.bytes <= left:
            left -= table.bytes
            found.append(table)
    return tuple(found)


def must_be_staged(program: ProductProgram, panel: Panel) -> bool:
    """Whether neighbouring threads would read elements that lie far apart."""
    return any(c.by_depth for c in program.contractions.values() if c.panel.key == panel.key)
