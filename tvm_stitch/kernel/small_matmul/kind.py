"""Rows with small matrix products as a kind of kernel: see analysis/kind."""

from __future__ import annotations

from tvm_stitch.kernel.analysis.kind import Kind, Made, unsupported
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.small_matmul.choose import product_mappings, product_reasons
from tvm_stitch.kernel.small_matmul.emit import ProductPart
from tvm_stitch.kernel.small_matmul.footprint import product_footprint
from tvm_stitch.kernel.small_matmul.profile import product_phases, product_profile
from tvm_stitch.kernel.small_matmul.program import ProductProgram, make_product_program
from tvm_stitch.kernel.small_matmul.space import SEARCH
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.patterns.matmul_pattern import Factors, small_product
from tvm_stitch.stages.stage import Stage, shown


def _why(program: ProductProgram, mapping: SmallMatmul) -> str:
    count, shared = len(program.contractions), shown(program.inner)
    products = f"{count} small matrix products" if count > 1 else "a small matrix product"
    rows = f"{shared} rows share" if shared != "1" else "each row has"
    text = f"{products}: {rows} a factor in shared memory, where rows stay for later stages"
    if mapping.split:
        text += "; each block holds a range of a row's columns, and of the shared factor"
    if not program.reduces_rows:
        return text
    reductions = len(program.row_reductions) - count
    times = "once" if reductions == 1 else f"{reductions} times"
    return f"{text}; a row is reduced {times} by shuffles within a warp"


def _claims(stage: Stage) -> bool:
    return stage.is_reduction and is_product(stage)


def _is_wanted(made: Made) -> bool:
    """Where there is no other: products one of whose factors spans the results, as a vector's."""
    if isinstance(made.program, Program):
        return False
    return any(isinstance(small_product(stage), Factors) for stage in made.stages)


SMALL_MATMUL = Kind(
    mappings=(SmallMatmul,),
    program=make_product_program,
    claims=_claims,
    is_wanted=_is_wanted,
    holds=lambda program: isinstance(program, ProductProgram),
    unsupported=unsupported,
    candidates=product_mappings,
    illegal=product_reasons,
    search=SEARCH,
    footprint=product_footprint,
    phases=lambda program, _mapping: product_phases(program),
    profile=product_profile,
    emit=lambda program, mapping, place: ProductPart(program, mapping, place).emit(),
    why=_why,
)
