"""The operators of a module as it came, as lines that its author recognises.

In: a Relax module before decomposition. Out: a Source for each operator, by its number
(graph/front/origins). Must not know kernels.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.frontend.placing import line_of
from tvm_stitch.graph.back.launches import shown
from tvm_stitch.graph.front.dataflow import AND_WORKSPACE
from tvm_stitch.graph.front.origins import numbered
from tvm_stitch.report.data import Source
from tvm_stitch.report.findings.library_calls import library_call

LONGEST = 160  # characters


def sources_of(mod: tvm.IRModule) -> tuple[Source, ...]:
    """A line for each operator, in the order of their numbers."""
    normal = relax.transform.Normalize()(mod)
    found: dict[int, Source] = {}
    numbers = numbered(normal)
    for function in normal.functions.values():
        if isinstance(function, relax.Function):
            for block in function.body.blocks:
                for binding in block.bindings:
                    number = numbers.get(binding.var)
                    if number is not None and number not in found:
                        found[number] = _source(binding)
    return tuple(found[number] for number in sorted(found))


def _source(binding: Any) -> Source:
    value, variable = binding.value, binding.var.name
    library = library_call(value, binding.var.ty)
    if library is None:
        text = f"{variable} = {_shown(value)}"
    else:  # which a pass put there: as if the model had an operator of that name
        operands = ", ".join(map(_shown, value.args[1].fields[:-1]))
        text = f"{variable.removesuffix(AND_WORKSPACE)} = {library.name}({operands})"
    short = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    if value.span is None:
        return Source(short)
    line = line_of(value.span)
    # The name of a node, which has no line.
    place = f"{line.file}:{line.number}" if line.number else line.file
    return Source(short, place, line.text, line.module)


def _shown(value: Any) -> str:
    """A call by its operator and its operands; attributes are left out."""
    if isinstance(value, tvm.ir.Call):
        name = str(getattr(value.op, "name", "") or getattr(value.op, "name_hint", "call"))
        return f"{name.removeprefix('relax.')}({', '.join(map(_shown, value.args))})"
    if isinstance(value, relax.Tuple):
        return f"({', '.join(map(_shown, value.fields))})"
    if isinstance(value, (relax.Var, tvm.ir.GlobalVar)):
        return str(value.name if isinstance(value, relax.Var) else value.name_hint)
    if isinstance(value, relax.ShapeExpr):
        return f"({', '.join(map(shown, value.values))})"
    if isinstance(value, relax.ExternFunc):
        return str(value.global_symbol)
    if isinstance(value, (tirx.IntImm, tirx.FloatImm, tvm.ir.StringImm)):
        return str(value.value)
    if isinstance(getattr(value, "ty", None), tvm.ir.PrimType):  # a formula of symbols
        return shown(value)
    return "constant" if isinstance(value, tvm.ir.GenericConst) else str(type(value).__name__)
