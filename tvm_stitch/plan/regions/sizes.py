"""Bytes of tensors, those of symbolic dimensions too."""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_stitch.stages.stage import (
    Var,
    buffer_size,
    constant,
    dtype_of,
    element_bytes,
    substitute,
)

NOMINAL_EXTENT = 256  # of a symbolic dimension


def nominal_bytes(buffer: Var) -> int:
    """Bytes of a tensor, with nominal extents for symbolic dimensions."""
    elements = buffer_size(buffer)
    if constant(elements) is None:
        nominal = {
            var: tirx.IntImm(dtype_of(var), NOMINAL_EXTENT)
            for var in tirx.analysis.undefined_vars(elements)
        }
        elements = tvm.sym.Analyzer().simplify(substitute(elements, nominal))
    return (constant(elements) or NOMINAL_EXTENT) * element_bytes(buffer)
