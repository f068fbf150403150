"""Which operators a fused function holds, by the names that users know.

In: Primitive functions after FuseOps. Out: for each its operators in order, and of which operator
every stage of the fused PrimFunc is part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

from tvm_stitch.graph.front.functions.operator_names import operator_name
from tvm_stitch.report.findings.types import shown_type

PRODUCT = "matmul"  # as decomposition and LegalizeOps call it


@dataclass(frozen=True)
class Operator:
    """An operator of a fused function, and how many blocks its TIR has."""

    name: str
    blocks: int
    type: str = ""  # of its result
    reads: tuple[int, ...] = ()  # the operators before it whose results it takes
    parameters: tuple[int, ...] = ()  # of the function, which it takes as they are


def operators(mod: tvm.IRModule, fused: relax.Function) -> Iterable[Operator]:
    """The operators of a Primitive function, in order."""
    made: dict[relax.Var, tuple[int, ...]] = {}  # by which operators
    parameters = {param: place for place, param in enumerate(fused.params)}
    count = 0
    for block in fused.body.blocks:
        for binding in block.bindings:
            value = binding.value
            free = relax.analysis.free_vars(value)
            reads = tuple(sorted({at for var in free for at in made.get(var, ())}))
            taken = tuple(sorted(parameters[var] for var in free if var in parameters))
            made[binding.var] = reads
            if getattr(getattr(value, "op", None), "name", "") == "relax.call_tir":
                callee = value.args[0]
                blocks = _count_blocks(mod[callee])
                shown = shown_type(binding.var.ty)
                yield Operator(operator_name(callee.name_hint), blocks, shown, reads, taken)
                made[binding.var] = (count,)
                count += 1


def _count_blocks(func: object) -> int:
    """Blocks of a PrimFunc without the root; 0 for what is not one."""
    if not isinstance(func, tirx.PrimFunc):
        return 0
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, found.append))
    return max(0, len(found) - 1)
