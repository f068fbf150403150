"""The kernels of a module as translation units, which are compiled at the same time.

A compiler takes half a second to start and to read CUDA's headers, so there is one unit for each
core at most, and all are about as long: short kernels share one. Which ones do depends on them and
on the number of cores alone: the next build finds the same units in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from tvm_stitch.executable import cuda

# Characters of CUDA that a unit has at least, if there are as many. nvcc 13 takes 0.45 CPU seconds
# for a kernel of none, for sm_90a, and 0.03 more for each thousand.
LEAST = 16_000


def units(
    mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any], cores: int
) -> list[tvm.IRModule]:
    """The module in parts; `build` generates the code of one."""
    kernels = mod.functions_items()
    lengths = [_length(tvm.IRModule({var: f}, attrs=mod.attrs), build) for var, f in kernels]
    count = max(1, min(cores, sum(lengths) // LEAST))
    found: list[dict[Any, Any]] = [{} for _ in range(count)]
    filled = [0] * count
    for place in sorted(range(len(kernels)), key=lambda place: -lengths[place]):  # longest first
        unit = min(range(count), key=filled.__getitem__)
        filled[unit] += lengths[place]
        var, kernel = kernels[place]
        found[unit][var] = kernel
    return [tvm.IRModule(functions, attrs=mod.attrs) for functions in found if functions]


def _length(mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any]) -> int:
    with cuda.writing() as sources:
        build(mod)
    return sum(map(len, sources))
