"""Every kind of Program that stages may become, and how many.

In: Stages in order and the buffers that must be written. Out: Programs, one for each unrelated
part, or the reason why there are none. Must not know threads.
"""

from __future__ import annotations

from tvm_stitch.kernel.classify import is_product
from tvm_stitch.kernel.product import small_product
from tvm_stitch.kernel.product_program import make_product_program
from tvm_stitch.kernel.program import Program, make_program, unrelated
from tvm_stitch.kernel.stage import Refused, Stage, Var


def make_programs(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Program, ...] | Refused:
    """One program if the stages share a space and data, else one for each unrelated part."""
    parts = unrelated(stages, outputs)
    if len(parts) == 1:
        parts = [(stages, outputs)]
    programs = []
    for own_stages, own_outputs in parts:
        program = _one_program(own_stages, own_outputs)
        if isinstance(program, Refused):
            return program
        programs.append(program)
    return tuple(programs)


def _one_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """Rows of one length where that is possible; products give them several."""
    products = any(stage.is_reduction and is_product(stage) for stage in stages)
    if products:
        return make_product_program(stages, outputs)
    program = make_program(stages, outputs)
    if isinstance(program, Refused) and any(map(small_product, stages)):
        with_products = make_product_program(stages, outputs)
        return program if isinstance(with_products, Refused) else with_products
    return program
