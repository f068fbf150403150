"""Vectors of bool, which TVM has none of: copied by their bytes.

In: a loop that becomes vector accesses. Out: the same, with copies of bools as copies of bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import ir, tirx

from tvm_stitch.stages.stage import Var, dtype_of

BYTE = "int8"


def copied_by_bytes(loop: tirx.For, view: Callable[[Var], Var]) -> tirx.For:
    """The loop; `view` declares a tensor of bool as one of bytes."""
    views: dict[Var, Var] = {}

    def by_bytes(buffer: Var) -> Var:
        if buffer not in views:
            views[buffer] = view(buffer)
        return views[buffer]

    def copied(store: tirx.BufferStore) -> tirx.BufferStore:
        load = store.value
        if dtype_of(store.buffer) != "bool":
            return store
        if not isinstance(load, ir.TensorLoad):
            raise TypeError(f"a vector of bool is computed, not copied: {load}")
        value = by_bytes(load.source)[tuple(load.indices)]
        return tirx.BufferStore(by_bytes(store.buffer), value, store.indices)

    return tvm_ffi.structural_map(loop, (tirx.BufferStore, copied))
