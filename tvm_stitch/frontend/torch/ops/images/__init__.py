"""Operators of images; those here but columns and sampling can be told that channels lie last."""

from __future__ import annotations

from tvm_stitch.frontend.torch.call import Converter
from tvm_stitch.frontend.torch.ops.images import (
    columns,
    convolution,
    interpolation,
    padding,
    sampling,
    windows,
)

OPERATORS: dict[str, Converter] = {
    **convolution.OPERATORS,
    **interpolation.OPERATORS,
    **padding.OPERATORS,
    **windows.OPERATORS,
}

__all__ = ["OPERATORS", "columns", "interpolation", "padding", "sampling"]
