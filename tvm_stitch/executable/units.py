"""The kernels of a module as translation units, which are compiled at the same time.

A compiler takes half a second to start and to read CUDA's headers, so there is one unit for each
core at most, and all are about as long: short kernels share one. Which ones do depends on them and
on the number of cores alone: the next build finds the same units in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    found = balanced(lengths, min(cores, sum(lengths) // LEAST))
    return [tvm.IRModule(dict(kernels[place] for place in unit), attrs=mod.attrs) for unit in found]


def balanced(lengths: Sequence[int], count: int) -> list[list[int]]:
    """The places of lengths in so many groups, or fewer, that are about as long."""
    groups: list[list[int]] = [[] for _ in range(max(1, count))]
    filled = [0] * len(groups)
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):  # longest first
        group = min(range(len(groups)), key=filled.__getitem__)
        filled[group] += lengths[place]
        groups[group].append(place)
    return [group for group in groups if group]


def _length(mod: tvm.IRModule, build: Callable[[tvm.IRModule], Any]) -> int:
    with cuda.writing() as sources:
        build(mod)
    return sum(map(len, sources))
