"""Relax modules as text, for other processes.

In: a module. Out: TVM's JSON of it, or None where it holds weights, which are not sent; and back.
And how much there is of it, which says whether sending is worth it.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm_ffi.serialization import from_json_graph_str

# Bytes of constants beyond which a module is not sent: weights that somebody has bound.
MOST_CONSTANTS = 8 << 20


def text_of(mod: tvm.IRModule) -> str | None:
    """A module as text; None if its constants are large."""
    held = 0

    def count(each: relax.Expr) -> None:
        nonlocal held
        if isinstance(each, tvm.ir.GenericConst) and isinstance(each.value, tvm_ffi.Tensor):
            held += math.prod(each.value.shape) * each.value.dtype.itemsize

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, count)
    return tvm.ir.save_json(mod) if held <= MOST_CONSTANTS else None


def module_of(text: str) -> Any:
    """What a text is of; tvm.ir.load_json looks for older releases' first, in Python."""
    return from_json_graph_str(text)


def operators(mod: tvm.IRModule) -> int:
    """How many operators a module has, about."""
    functions = (f for f in mod.functions.values() if isinstance(f, relax.Function))
    bodies = (f.body for f in functions if isinstance(f.body, relax.SeqExpr))
    return sum(len(block.bindings) for body in bodies for block in body.blocks)
