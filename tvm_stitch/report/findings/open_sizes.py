"""What symbolic dimensions leave open in a report: bytes as a formula, and the sizes assumed.

In: the tensors of a kernel, sizes of symbols. Out: text for people. Must not know kernels.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm import tirx

from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import Expr, Var, buffer_size, constant, element_bytes, shown


def bytes_formula(buffers: Iterable[Var]) -> str:
    """The bytes of tensors together; empty where they are a number."""
    total = _bytes(buffers)
    return shown(total) if constant(total) is None else ""


def sizes_assumed(buffers: Iterable[Var], extents: Extents) -> str:
    """The symbols of these bytes, with the sizes that figures are for."""
    names = {var.name: var for var in tirx.analysis.undefined_vars(_bytes(buffers))}
    return ", ".join(f"{name} = {extents.size(names[name])}" for name in sorted(names))


def _bytes(buffers: Iterable[Var]) -> Expr:
    total: Expr = tirx.IntImm("int64", 0)
    for buffer in buffers:
        total = total + buffer_size(buffer) * element_bytes(buffer)
    return tvm.sym.Analyzer().simplify(total)
