"""Extents that are the same have one spelling wherever functions of TIR are to be merged.

OneSpelling, after LegalizeOps: two equal sizes added up are twice that size to topi's
concatenation, but not to the operator's type, with which passes before it wrote functions of TIR.
FuseTIR merges what is spelled alike and fails on anything else. So where a function and a call of
it differ, all extents of the module are simplified. Knows no operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import BufferType

from tvm_stitch.graph.front.decompose.stages import same_extents
from tvm_stitch.graph.front.symbols import is_symbol, match_shape
from tvm_stitch.stages.stage import Expr, Var, substitute

_SUMS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod)


def OneSpelling() -> tvm.transform.Pass:
    """The pass; it leaves modules alone whose calls are spelled as what they call."""

    @tvm.transform.module_pass(opt_level=0, name="OneSpelling")
    def one_spelling(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        if all(_is_spelled_alike(call, function) for call, function in _calls(mod)):
            return mod
        simplify = tvm.sym.Analyzer().simplify
        return tvm_ffi.structural_map(
            mod,
            (
                (relax.ShapeExpr, lambda shape: relax.ShapeExpr(list(map(simplify, shape.values)))),
                (BufferType, lambda ty: tvm_ffi.structural_map(ty, (_SUMS, simplify))),
            ),
        )

    return one_spelling


def _calls(mod: tvm.IRModule) -> Iterator[tuple[tvm.ir.Call, tirx.PrimFunc]]:
    """The calls of functions of TIR, with these."""
    for function in mod.functions.values():
        for block in function.body.blocks if isinstance(function, relax.Function) else ():
            for binding in block.bindings:
                call: Any = getattr(binding, "value", None)
                if getattr(getattr(call, "op", None), "name", "") == "relax.call_tir":
                    yield call, mod[call.args[0]]


def _is_spelled_alike(call: tvm.ir.Call, function: tirx.PrimFunc) -> bool:
    """Whether the extents of arguments and results are what the function's parameters say."""
    given = call.args[1].fields[:]
    results = call.ty_args[0]
    types = [
        *(argument.ty for argument in given),
        *(results.fields if isinstance(results, relax.TupleType) else [results]),
    ]
    # What follows the results are symbols.
    params = function.params[: len(types)]
    mapping: dict[Var, Expr] = {
        param: argument
        for param, argument in zip(params, given, strict=False)
        if is_symbol(argument)
    }
    shapes = [
        (tuple(param.ty.shape), tuple(ty.shape.values))
        for param, ty in zip(params, types, strict=True)
        if isinstance(getattr(ty, "shape", None), relax.ShapeExpr)
    ]
    for declared, extents in shapes:
        match_shape(declared, extents, mapping)
    return all(
        same_extents([substitute(extent, mapping) for extent in declared], extents)
        for declared, extents in shapes
    )
