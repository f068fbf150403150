"""The symbolic twins of workloads: the same with extents that only run time tells.

In: the arrays of a workload, and which of their extents are symbolic. Out: the same as
torch.export has it, and the sizes that the symbols of a Relax module have in the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bench.case import Array

BATCH, LENGTH, BOTH = "batch", "length", "both"
KINDS = (BATCH, LENGTH, BOTH)

Dims = tuple[dict[int, Any], ...]


def dims_of(arrays: Sequence[Array], kind: str) -> Dims:
    """For each array the dimensions that are symbolic, as far as the function lets them be.

    The batch is the first dimension of all arrays that have as much of it as the first one, but for
    vectors that are as likely to be along its columns, unless of indices; the length is whatever
    lies between the first and the last. The batch is one symbol; lengths are as many as the
    function allows.
    """
    named = torch.export.Dim("batch", min=2)
    batch = arrays[0].shape[0] if arrays and arrays[0].shape else 1
    columns = {array.shape[-1] for array in arrays if len(array.shape) > 1}
    found = []
    for array in arrays:
        own: dict[int, Any] = {}
        is_vector = len(array.shape) == 1 and array.shape[0] in columns and array.fill != "index"
        if kind in (BATCH, BOTH) and array.shape[:1] == (batch,) and not is_vector:
            own[0] = named
        if kind in (LENGTH, BOTH):
            own |= dict.fromkeys(range(1, len(array.shape) - 1), torch.export.Dim.AUTO)
        # PyTorch takes an extent of 1 for a constant.
        found.append({dim: of for dim, of in own.items() if array.shape[dim] > 1})
    return tuple(found)


def as_far_as_allowed(dims: Dims) -> Dims:
    """The same where a function may take some of the batch for a number after all."""
    return tuple(dict.fromkeys(each, torch.export.Dim.AUTO) for each in dims)


def sizes_of(module: Any, arrays: Sequence[Array]) -> Mapping[str, tuple[int, ...]]:
    """The sizes of a module's symbols in a workload, as Options(extents=...) takes them."""
    from tvm import tirx

    found: dict[str, tuple[int, ...]] = {}
    for param, array in zip(module["main"].params, arrays, strict=True):
        for extent, size in zip(param.ty.shape, array.shape, strict=True):
            if isinstance(extent, tirx.Var):
                found[extent.name] = (size,)
    return found
