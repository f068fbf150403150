"""Variants of a kernel for exactly the sizes that a user states, in which every extent is a number.

In: a fused PrimFunc with symbols, its kernel, sizes of the symbols, and what makes kernels. Out: a
kernel that holds both: the host launches what is made for the sizes at hand, where there is such a
variant, else the kernel for any size. Must not know how kernels are computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.at_sizes import Sizes, at_sizes, symbols_of
from tvm_stitch.kernel.codegen.prim_func import (
    IN_PLACE_ATTRIBUTE,
    LAUNCH_ATTRIBUTE,
    MULTIPROCESSORS_ATTRIBUTE,
    WORKSPACE_ATTRIBUTE,
    kernel_function,
)
from tvm_stitch.kernel.codegen.tir_builder import block_uniform
from tvm_stitch.kernel.implementations import IMPLEMENTATIONS
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Var,
    buffer_shape,
    buffer_size,
    constant,
    dtype_of,
    is_buffer,
    substitute,
)
from tvm_stitch.stages.visit import walked

Kernels = Callable[[tirx.PrimFunc, Set[str]], tirx.PrimFunc | Refused]
LIBRARIES, BARRIERS = frozenset({LIBRARY}), frozenset({LIBRARY, "global"})
WRITTEN = tuple(each for each in IMPLEMENTATIONS if not each.on_host)
# Of a kernel with such variants: the sizes and the layout of each, as JSON.
STATED_SIZES_ATTRIBUTE = "tvm_stitch.stated_sizes"
# More than so many would cost more to compile than they are likely to save.
MOST_VARIANTS = 8


@dataclass(frozen=True)
class Variant:
    """A kernel for some sizes, and when the host launches it."""

    sizes: Sizes
    conditions: tuple[Expr, ...]
    kernel: tirx.PrimFunc


def with_stated_sizes(
    func: tirx.PrimFunc,
    kernel: tirx.PrimFunc,
    points: Sequence[Sizes],
    device: Device,
    kernel_of: Kernels,
) -> tirx.PrimFunc:
    """The kernel with a variant for each of the points that says the sizes of all its symbols.

    `kernel_of` makes a kernel, of any scheme but those that are left out. TVM launches all kernels
    of a function alike: beside one without barriers of the grid there is none with them, and the
    other way round one of few blocks. Where those of known sizes have none, none has.
    """
    attribute = next((e.attribute for e in WRITTEN if e.attribute in kernel.attrs), None)
    sizes_of_symbols = _distinct(points, [var.name for var in symbols_of(func)])[:MOST_VARIANTS]
    if attribute is None or not sizes_of_symbols:
        return kernel
    functions = [at_sizes(func, sizes) for sizes in sizes_of_symbols]
    if LAUNCH_ATTRIBUTE in kernel.attrs:
        likely = kernel_of(functions[len(functions) // 2], LIBRARIES)
        other = kernel if _can_share(kernel, likely, device) else kernel_of(func, BARRIERS)
        if not isinstance(other, Refused) and attribute in other.attrs:
            kernel = other
    without = LIBRARIES if LAUNCH_ATTRIBUTE in kernel.attrs else BARRIERS
    symbols = _symbols_known(func, kernel)
    variants: list[Variant] = []
    for sizes, function in zip(sizes_of_symbols, functions, strict=True):
        variant = kernel_of(function, without)
        if isinstance(variant, Refused) or attribute not in variant.attrs:
            continue
        if _can_share(kernel, variant, device):
            conditions = tuple(_is(symbols[name], size) for name, size in sizes.items())
            variants.append(Variant(sizes, conditions, variant))
    return _joined(kernel, variants, attribute) if variants else kernel


def _is(symbol: Var, size: int) -> Expr:
    return tirx.EQ(symbol, tirx.IntImm(dtype_of(symbol), size))


def _distinct(points: Sequence[Sizes], names: Sequence[str]) -> list[Sizes]:
    """What the points say of these symbols, where they say it of all of them, each once."""
    known = [point for point in points if names and point.keys() >= set(names)]
    own = dict.fromkeys(tuple(point[name] for name in names) for point in known)
    return [dict(zip(names, sizes, strict=True)) for sizes in own]


def _can_share(kernel: tirx.PrimFunc, variant: tirx.PrimFunc | Refused, device: Device) -> bool:
    """Whether a function may launch either: with the same arguments, and alike."""
    if isinstance(variant, Refused):
        return False
    if WORKSPACE_ATTRIBUTE not in variant.attrs:
        # Of blocks that must be there at once, each is where there is a multiprocessor for it.
        return LAUNCH_ATTRIBUTE not in kernel.attrs or _has_few_blocks(variant, device)
    has_room = WORKSPACE_ATTRIBUTE in kernel.attrs
    return has_room and dtype_of(kernel.params[-1]) == dtype_of(variant.params[-1])


def _has_few_blocks(kernel: tirx.PrimFunc, device: Device) -> bool:
    """Whether there is a multiprocessor for every block, and none is of a cluster."""
    extents: dict[str, list[Expr]] = {}

    def find(stmt: tirx.AttrStmt) -> None:
        if stmt.attr_key == "thread_extent":
            extents.setdefault(stmt.node.thread_tag, []).append(stmt.value)

    walked(kernel.body, (tirx.AttrStmt, find))
    blocks = [constant(each) or device.multiprocessors + 1 for each in extents["blockIdx.x"]]
    return "clusterCtaIdx.x" not in extents and max(blocks) <= device.multiprocessors


# Kernels for some sizes and one for all


def _symbols_known(func: tirx.PrimFunc, kernel: tirx.PrimFunc) -> dict[str, Var]:
    """The symbols of a kernel that its host knows, by the names that they have in its function."""
    found: dict[str, Var] = {}
    for own, param in zip(func.params, kernel.params, strict=False):
        if not is_buffer(own):
            found.setdefault(own.name, param)
            continue
        for symbol, extent in zip(buffer_shape(own), buffer_shape(param), strict=True):
            if isinstance(symbol, tirx.Var):
                found.setdefault(symbol.name, extent)
    return found


def _joined(kernel: tirx.PrimFunc, variants: Sequence[Variant], attribute: str) -> tirx.PrimFunc:
    """One function of all of them."""
    params = list(kernel.params)
    if WORKSPACE_ATTRIBUTE in kernel.attrs:
        params[-1] = _roomy(params[-1], variants)
    body = _body_for(kernel, params)
    for variant in reversed(variants):
        own = _body_for(variant.kernel, params)
        body = tirx.IfThenElse(block_uniform(tirx.all(*variant.conditions)), own, body)
    functions = [kernel, *(variant.kernel for variant in variants)]
    attributes = {**kernel.attrs, **_common(functions)}
    layouts = [
        {"sizes": variant.sizes, "layout": json.loads(str(variant.kernel.attrs[attribute]))}
        for variant in variants
    ]
    attributes[STATED_SIZES_ATTRIBUTE] = json.dumps(layouts, sort_keys=True)
    empty = tirx.PrimFunc(params, tirx.Evaluate(0), kernel.ret_type)
    return kernel_function(empty.with_attrs(attributes), body)


def _body_for(kernel: tirx.PrimFunc, params: Sequence[Var]) -> tirx.Stmt:
    """What the host does to launch a kernel with these parameters."""
    renamed = dict(zip(kernel.params, params, strict=False))  # a workspace may be of others alone
    return substitute(kernel.body.block.body, renamed)


def _roomy(workspace: Var, variants: Sequence[Variant]) -> Var:
    """A workspace with room for a variant where that is launched."""
    size = buffer_size(workspace)
    for variant in variants:
        if WORKSPACE_ATTRIBUTE not in variant.kernel.attrs:
            continue
        own = buffer_size(variant.kernel.params[-1])
        for condition in variant.conditions:  # one by one: PyTorch's part computes with no "and"
            own = tirx.Select(condition, own, tirx.IntImm("int64", 0))
        size = tirx.max(size, own)
    return tirx.decl_buffer((size,), dtype_of(workspace), workspace.name)


def _common(functions: Sequence[tirx.PrimFunc]) -> dict[str, Any]:
    """What callers must know of all these kernels."""
    needed = (int(each.attrs.get(MULTIPROCESSORS_ATTRIBUTE, 0)) for each in functions)
    pairs = [json.loads(str(each.attrs.get(IN_PLACE_ATTRIBUTE, "[]"))) for each in functions]
    both = [pair for pair in pairs[0] if all(pair in own for own in pairs)]
    return {MULTIPROCESSORS_ATTRIBUTE: max(needed), IN_PLACE_ATTRIBUTE: json.dumps(both)}
