"""Operators of indices: what is read, written, added or put in order where they say."""

from __future__ import annotations

from tvm_stitch.frontend.torch.call import Converter
from tvm_stitch.frontend.torch.ops.indices import index, scatter, sorting

OPERATORS: dict[str, Converter] = {**index.OPERATORS, **scatter.OPERATORS}

__all__ = ["OPERATORS", "scatter", "sorting"]
