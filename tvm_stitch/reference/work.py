"""How much there is to compute: the statements that a function executes, before it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx


def steps(function: tirx.PrimFunc, sizes: Mapping[str, int] | None = None) -> int:
    """How many stores it makes; `sizes` are those of symbolic dimensions, 1 where not known."""
    return _steps(function.body, sizes or {}, 1)


def _steps(stmt: Any, sizes: Mapping[str, int], each: int) -> int:
    """How often the statements within are executed."""
    if isinstance(stmt, tirx.SeqStmt):
        return sum(_steps(inner, sizes, each) for inner in stmt.seq)
    if isinstance(stmt, tirx.For):
        return _steps(stmt.body, sizes, each * _number(stmt.extent, sizes))
    if isinstance(stmt, s_tir.SBlockRealize):
        return _steps(stmt.block.body, sizes, each)
    body = getattr(stmt, "body", None)
    return each if body is None else _steps(body, sizes, each)


def _number(extent: Any, sizes: Mapping[str, int]) -> int:
    """An extent; 1 where it is not known."""

    def known(var: tirx.Var) -> Any:
        return tirx.IntImm(str(var.ty.dtype), sizes[var.name]) if var.name in sizes else var

    number = tvm.sym.Analyzer().simplify(tvm_ffi.structural_map(extent, (tirx.Var, known)))
    return int(number.value) if isinstance(number, tirx.IntImm) else 1
