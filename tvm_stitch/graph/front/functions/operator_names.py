"""The names of operators that users know, from those of the functions that TVM makes of them."""

from __future__ import annotations

import re
from functools import cache

import tvm

# What LegalizeOps and DispatchSortScan put before an operator's name.
_PREFIXES = ("tir_", "gpu_2d_continuous_")


def operator_name(function: str) -> str:
    """The operator that a function name of TVM's stands for: tir_exp1 is exp, log10 is log10."""
    for prefix in _PREFIXES:
        function = function.removeprefix(prefix)
    if function in _known_operators():
        return function
    return re.sub(r"\d+$", "", function) or function


@cache
def _known_operators() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in tvm.ir.Op.list_op_names())
