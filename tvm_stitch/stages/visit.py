"""TVM's structural walk and map, for expressions of a few nodes.

In: an expression and visitors by the class of node. Out: what tvm_ffi.structural_walk and
structural_map give. These check and translate their visitors at every call, which takes four times
as long as a small expression does; here a class is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm_ffi import core

Visitor = tuple[type, Callable[[Any], Any]]

_WALK = tvm_ffi.get_global_func("ffi.StructuralWalk")
_MAP = tvm_ffi.get_global_func("ffi.StructuralMap")
_PRE, _POST = int(tvm_ffi.WalkOrder.PREORDER), int(tvm_ffi.WalkOrder.POSTORDER)
_indices: dict[type, int] = {}


def walked(root: Any, *visitors: Visitor, pre: bool = False) -> None:
    """Show visitors the nodes of their class; what contains a node comes before it with `pre`."""
    _WALK(root, _entries(visitors), (), _PRE if pre else _POST)


def mapped(root: Any, *visitors: Visitor, pre: bool = False) -> Any:
    """What a node becomes where visitors replace nodes of their class."""
    return _MAP(root, _entries(visitors), (), _PRE if pre else _POST)


def _entries(visitors: tuple[Visitor, ...]) -> tuple[tuple[int, Callable[[Any], Any]], ...]:
    return tuple((_index(kind), visit) for kind, visit in visitors)


def _index(kind: type) -> int:
    if kind not in _indices:
        _indices[kind] = core.TypeSchema.from_annotation(kind).origin_type_index
    return _indices[kind]
