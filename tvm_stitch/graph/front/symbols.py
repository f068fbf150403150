"""Symbolic dimensions of calls and types: which there are, and what they are to the caller.

In: types and call_tirs. Out: symbols, or expressions of them. Must not know stages.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.stages.stage import Expr, Var


def symbols_of(ty: Any) -> tuple[Var, ...]:
    """The symbols in the shapes of a type, in order."""
    return tuple(relax.analysis.tir_vars_in_type(ty))


def is_symbol(value: Expr) -> bool:
    """Whether an argument of a call is a symbolic dimension, or made of some, and no tensor."""
    return isinstance(value.ty, tvm.ir.PrimType)


def symbols_given(call: tvm.ir.Call) -> tuple[Expr, ...]:
    """The symbolic dimensions that a call_tir passes, in the order of its function's scalars."""
    behind = call.args[2].values if len(call.args) > 2 else ()
    return (*filter(is_symbol, call.args[1].fields[:]), *behind)


def match_shape(
    declared: tuple[Expr, ...], given: tuple[Expr, ...], mapping: dict[Var, Expr]
) -> None:
    """Bind a PrimFunc's shape variables to the caller's shapes."""
    for symbol, extent in zip(declared, given, strict=True):
        if isinstance(symbol, tirx.Var):
            mapping.setdefault(symbol, extent)
