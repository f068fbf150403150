"""The kernels of a module as translation units, which are compiled at the same time.

A compiler takes half a second to start and to read CUDA's headers, so there are no more units than
keep all cores busy, and small kernels share one. Which ones do depends on the kernels and on the
number of cores alone: the next build finds the same units in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from tvm_stitch.executable import cuda

# Characters of CUDA that a unit has at least, if there are as many. nvcc 13 takes 0.45 CPU seconds
# for a kernel of none, for sm_90a, and 0.03 more for each thousand.
LEAST = 16_000
# Units for each core: some take longer than others.
UNITS_A_CORE = 2


def units(
    mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any], cores: int
) -> list[tvm.IRModule]:
    """The module in parts; `build` generates the code of one."""
    kernels = mod.functions_items()
    lengths = [_length(tvm.IRModule({var: f}, attrs=mod.attrs), build) for var, f in kernels]
    size = max(LEAST, sum(lengths) // (UNITS_A_CORE * cores))
    found: list[dict[Any, Any]] = []
    room = 0
    for (var, kernel), length in zip(kernels, lengths, strict=True):
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
