"""PyTorch's element types and TVM's."""

from __future__ import annotations

import torch

from tvm_stitch.errors import TorchError

NAMES = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
HALVES = ("float16", "bfloat16")


def name_of(dtype: torch.dtype) -> str:
    """TVM's name of an element type."""
    if dtype not in NAMES:
        raise TorchError(f"{str(dtype).removeprefix('torch.')} tensors")
    return NAMES[dtype]


def is_float(name: str) -> bool:
    """Whether a dtype is a floating-point one."""
    return name.startswith(("float", "bfloat"))


def wide(name: str) -> str:
    """The dtype to compute in: halves are rounded once, at the end."""
    return "float32" if name in HALVES else name
