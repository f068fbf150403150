"""What symbolic dimensions leave open in a report: bytes as a formula, the sizes assumed, and what
is launched at sizes that are stated.

In: the tensors of a kernel, sizes of symbols, an emitted kernel. Out: text for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import tvm
from tvm import tirx

from tvm_stitch.kernel.stated_sizes import STATED_SIZES_ATTRIBUTE
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


def of_stated_sizes(emitted: tirx.PrimFunc, mapping_of: Callable[[str], str]) -> str:
    """The mappings of a kernel's variants for sizes that are stated, from their layouts as JSON."""
    variants = json.loads(str(emitted.attrs.get(STATED_SIZES_ATTRIBUTE, "[]")))
    return "".join(
        f"; for {_shown(each['sizes'])} exactly {mapping_of(json.dumps(each['layout']))}"
        for each in variants
    )


def of_limits(limits: Mapping[str, int]) -> str:
    """What symbols may be at most in a kernel that has room for so much."""
    return "".join(f", for {name} of at most {most}" for name, most in limits.items())


def _shown(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def _bytes(buffers: Iterable[Var]) -> Expr:
    total: Expr = tirx.IntImm("int64", 0)
    for buffer in buffers:
        total = total + buffer_size(buffer) * element_bytes(buffer)
    return tvm.sym.Analyzer().simplify(total)
