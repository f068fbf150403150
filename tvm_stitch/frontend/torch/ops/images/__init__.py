"""Operators of images; but for columns, they can be told that channels lie innermost."""

from __future__ import annotations

from tvm_stitch.frontend.torch.call import Converter
from tvm_stitch.frontend.torch.ops.images import (
    columns,
    convolution,
    interpolation,
    padding,
    windows,
)

OPERATORS: dict[str, Converter] = {
    **convolution.OPERATORS,
    **interpolation.OPERATORS,
    **padding.OPERATORS,
    **windows.OPERATORS,
}

__all__ = ["OPERATORS", "columns", "interpolation", "padding"]
