"""What a kernel with small matrix products asks of a device.

In: a ProductProgram and its Mapping. Out: its Phases, of which there is one, and the Profile of
that, its figures those of an element of the widest value. Must not know any device.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.profile import PhaseProfile, Profile
from tvm_stitch.kernel.ir.instructions import instructions
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.ir.phases import Phase, Phases
from tvm_stitch.kernel.small_matmul.footprint import product_footprint, waiting_bytes
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import CHUNK
from tvm_stitch.kernel.small_matmul.smem_layout import slices_of, steps_of, table_of
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.stage import Stage, Var, constant

ACCESS = 4  # multiply-adds in the time of an access to shared memory


def product_phases(program: ProductProgram) -> Phases:
    """One phase: whatever crosses threads, nobody goes through a row again."""
    stages = program.stages
    reductions = tuple(stage for stage in stages if stage.is_reduction)
    inputs, outputs = program.inputs, program.outputs
    phase = Phase(0, (), stages, (), reductions, inputs, (), frozenset(), (), outputs)
    return Phases(program, (phase,), (), {})


def product_profile(
    program: ProductProgram, mapping: SmallMatmul, extents: Extents = NOMINAL
) -> Profile:
    """One phase, its figures those of an element of the widest value."""
    rows, columns = extents.size(program.space.rows), columns_of(program, mapping)
    operations = specials = 0.0
    for stage in program.stages:
        share = program.walked(stage) / columns
        contraction = program.contractions.get(stage.output)
        taken = instructions(stage)
        plain, special = taken.plain, taken.special
        if contraction is not None:
            each = accesses(program, stage, mapping)
            plain, special = contraction.contracted * (1 + ACCESS * each), 0.0
        operations, specials = operations + share * plain, specials + share * special
    elements = rows * columns
    block = mapping.block_rows * mapping.reach
    read = _bytes(program.inputs, extents) // elements
    return Profile(
        rows,
        columns,
        True,
        (
            PhaseProfile(
                reads=(read,),
                along=(-(-shared_by_rows(program, mapping) // block),),
                operations=operations,
                specials=specials,
                reductions=len(program.row_reductions) - len(program.contractions),
            ),
        ),
        _bytes((*program.inputs, *program.outputs), extents) - read * elements,
        0,
        -(-product_footprint(program, mapping).shared // (block * mapping.depth_split)),
    )


def _bytes(buffers: tuple[Var, ...], extents: Extents) -> int:
    """All of them once."""
    return sum(map(extents.bytes, buffers))


def accesses(program: ProductProgram, stage: Stage, mapping: SmallMatmul) -> float:
    """Accesses to shared memory for each multiply-add of a product."""
    contraction = program.contractions[stage.output]
    steps = steps_of(program, mapping, stage)
    group = table_of(program, mapping, contraction.panel).group
    shared = steps if contraction.by_depth else steps * CHUNK / group
    return (mapping.batch + shared) / (CHUNK * mapping.batch * steps)


def columns_of(program: ProductProgram, mapping: SmallMatmul) -> int:
    """The widest value, or the widest of those that blocks have slices of."""
    slices = slices_of(program, mapping)
    if slices is None:
        return constant(program.space.columns) or 1
    return slices.period * slices.steps


def shared_by_rows(program: ProductProgram, mapping: SmallMatmul) -> int:
    """Bytes that a block reads of what others read as well: tables, and rows in slices."""
    tables = sum(table_of(program, mapping, panel).bytes for panel in program.panels)
    return tables + (waiting_bytes(program, mapping) if mapping.split else 0)
