"""TVM's LegalizeOps, which finds the TIR of equal calls of operators once.

In: what legalises operators, by their names, where it is not TVM's. Out: the pass. Layers of a
model repeat its operators: of 3,800 calls in a ResNet's training, two thirds are as others but for
what they read. Knows no operator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Call, Expr, GenericConst

from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.stages.stage import constant

Legalize = Callable[[relax.BlockBuilder, Call], Expr]
# The function that a call becomes one of, and which of the operands it takes.
_Found = tuple[tvm.ir.GlobalVar, tuple[int, ...]]


def LegalizeOnce(own: Mapping[str, Legalize]) -> tvm.transform.Pass:
    """The pass that stands for relax.transform.LegalizeOps(own)."""

    @tvm.transform.module_pass(opt_level=0, name="LegalizeOnce")
    def legalize_once(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        # Functions are of this module.
        known: dict[Hashable, _Found | None] = {}
        rules = {**_of_tvm(), **own}
        once = {name: partial(_legalized, known, rule) for name, rule in rules.items()}
        return relax.transform.LegalizeOps(once)(mod)

    return legalize_once


@cache
def _of_tvm() -> dict[str, Legalize]:
    """TVM's own legalisations."""
    names = (str(name) for name in tvm.ir.Op.list_op_names())
    rules = ((name, tvm.ir.Op.get(name).get_attr("FLegalize")) for name in names)
    return {name: rule for name, rule in rules if rule is not None}


def _legalized(
    known: dict[Hashable, _Found | None],
    rule: Legalize,
    builder: relax.BlockBuilder,
    call: Call,
) -> Expr:
    key = _key(call)
    found = None if key is None else known.get(key)
    if found is not None:
        function, places = found
        operands = call.args
        return relax.call_tir(function, [operands[place] for place in places], call.ty)
    made = rule(builder, call)
    if key is not None and key not in known:
        known[key] = _found(made, call)
    return made


def _key(call: Call) -> Hashable | None:
    """What the TIR of a call follows from; None where sizes are not known, or values are many."""
    described = [_described(each) for each in call.args]
    result = _type(call.ty)
    if result is None or None in described or call.ty_args:
        return None
    # A tensor that is read twice may be one parameter.
    handles = [each.__chandle__() for each in call.args]
    same = tuple(map(handles.index, handles))
    attributes = None if call.attrs is None else tvm_ffi.StructuralKey(call.attrs)
    return call.op.name, attributes, result, same, tuple(described)


def _described(operand: Expr) -> Hashable | None:
    """A tensor by its type; a number, a shape or others by what they are."""
    if isinstance(operand, relax.Var):
        return _type(operand.ty)
    if isinstance(operand, GenericConst) and operand.ty.ndim:
        return None
    return tvm_ffi.StructuralKey(operand)


def _type(of: Any) -> Hashable | None:
    """The element type and the sizes of a tensor, if they are known."""
    if not isinstance(of, relax.TensorType) or of.vdevice is not None:
        return None
    if not isinstance(of.shape, relax.ShapeExpr):
        return None
    sizes = tuple(map(constant, of.shape.values))
    return None if None in sizes else (str(of.dtype), sizes)


def _found(made: Expr, call: Call) -> _Found | None:
    """What a call has become, if that is one call of TIR with operands of the call."""
    if not isinstance(made, Call) or name_of(made) != "call_tir" or len(made.args) != 2:
        return None
    function, operands = made.args
    places = [_place(each, call) for each in operands.fields]
    (result,) = made.ty_args
    if None in places or not tvm_ffi.structural_equal(result, call.ty):
        return None
    return function, tuple(place for place in places if place is not None)


def _place(operand: Expr, call: Call) -> int | None:
    """The first place among the operands of a call at which an operand is."""
    same = (place for place, each in enumerate(call.args) if each.same_as(operand))
    return next(same, None)
