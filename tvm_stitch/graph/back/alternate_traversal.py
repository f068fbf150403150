"""Kernels that follow each other over one large tensor alternate their traversal.

In: a module whose PrimFuncs are kernels, the size of the L2, and sizes that somebody states of
symbols. Out: the module in which a kernel is reversed where the one before it touched the same
large tensor in the usual order: what that one touched last is still in the L2. Knows nothing of
what a kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.back.launches import tensor_type_bytes
from tvm_stitch.graph.back.reverse_blocks import reverse_blocks
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.stages.extents import NOMINAL

Tensor = tuple[relax.Var, int]  # a field of a variable, or the variable


def with_alternate_traversal(
    mod: tvm.IRModule, l2_size: int, points: Sequence[Mapping[str, int]] = ()
) -> tvm.IRModule:
    """The module with every other kernel of a chain reversed; one of many calls by its first."""
    reversed_kernels: dict[tvm.ir.GlobalVar, tirx.PrimFunc | None] = {}
    stated = [NOMINAL.at(sizes) for sizes in points]

    def is_large(ty: tvm.ir.Type) -> bool:
        known = (tensor_type_bytes(ty, sizes) or 0 for sizes in stated or (None,))
        return max(known) > l2_size // 2

    for _, function in mod.functions_items():
        if isinstance(function, relax.Function) and isinstance(function.body, relax.SeqExpr):
            _alternate_in(mod, function, is_large, reversed_kernels)
    if any(reversed_kernels.values()):
        mod = mod.clone()
        for var, kernel in reversed_kernels.items():
            if kernel is not None:
                mod.update_func(var, kernel)
    return mod


def _alternate_in(
    mod: tvm.IRModule,
    function: relax.Function,
    is_large: Callable[[tvm.ir.Type], bool],
    reversed_kernels: dict[tvm.ir.GlobalVar, tirx.PrimFunc | None],
) -> None:
    """Decide on the kernels that a function is the first to call."""
    names: dict[relax.Var, Tensor] = {}
    before: set[Tensor] = set()
    is_reversed = False
    for binding in (b for block in function.body.blocks for b in block.bindings):
        value = binding.value
        if isinstance(value, relax.TupleGetItem) and isinstance(value.tuple_value, relax.Var):
            names[binding.var] = value.tuple_value, value.index
            continue
        if getattr(getattr(value, "op", None), "name", "") != "relax.call_tir":
            continue
        var, arguments = value.args[0], value.args[1]
        touched = {names.get(a, (a, 0)) for a in arguments if is_large(a.ty)}
        again = touched & before
        if var not in reversed_kernels:
            reverses = again and not is_reversed and SCHEDULE_ATTRIBUTE in (mod[var].attrs or {})
            reversed_kernels[var] = reverse_blocks(mod[var]) if reverses else None
        is_reversed = reversed_kernels[var] is not None
        own = binding.var.ty
        fields = own.fields if isinstance(own, relax.TupleType) else [own]
        written = {(binding.var, n) for n, ty in enumerate(fields) if is_large(ty)}
        before = touched | written
