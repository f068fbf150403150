"""The kernels of a module as translation units, which are compiled at the same time.

A kernel of many lines is a unit by itself; small ones share one, for a compiler takes half a second
to start and to read CUDA's headers. Which ones share depends on nothing but the kernels, so a unit
is found again in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from tvm_stitch.executable import cuda

# Characters of CUDA of a unit. Of kernels that nvcc 13 compiles for sm_90a on two shared cores,
# 32,000 take about three times as long as none.
UNIT = 32_000


def units(
    mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any], size: int = UNIT
) -> list[tvm.IRModule]:
    """The module in parts; `build` generates the code of one."""
    found: list[dict[Any, Any]] = []
    room = 0
    for var, kernel in mod.functions_items():
        length = _length(tvm.IRModule({var: kernel}, attrs=mod.attrs), build)
        if not found or length > room:
            found.append({})
            room = size
        found[-1][var] = kernel
        room -= length
    return [tvm.IRModule(functions, attrs=mod.attrs) for functions in found]


def _length(mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any]) -> int:
    with cuda.writing() as sources:
        build(mod)
    return sum(map(len, sources))
