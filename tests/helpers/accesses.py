"""How wide the accesses of a kernel's CUDA are."""

from __future__ import annotations

import re

import tvm
from check import cuda_of, the_kernel

_BYTES = {
    "half2": 4, "nv_bfloat162": 4, "half4": 8, "nv_bfloat164": 8, "uint2": 8, "float2": 8,
    "uint4": 16, "float4": 16,
}  # fmt: skip


def reads(module: tvm.IRModule) -> dict[str, set[int]]:
    """By input, the bytes of the accesses that read it in a module's only kernel; 0: an element."""
    return {name: set(widths) for name, widths in all_reads(module).items()}


def all_reads(module: tvm.IRModule) -> dict[str, list[int]]:
    """The same for all accesses that are written there."""
    source = cuda_of(the_kernel(module))
    body = source[source.rindex('extern "C" __global__') :].partition("{")[2]
    found: dict[str, list[int]] = {}
    predicated = re.compile(
        r"tvm_stitch_load_vector_(\d+)_\w+\(\(&\(\w+\[.*?\]\)\), \(&\((p\d+)_ptr\["
    )
    for size, name in predicated.findall(body):
        found.setdefault(name, []).append(int(size))
    body = predicated.sub("", body)
    for kind, name in re.findall(r"(?:\*\((\w+)\*\)\()?\b(p\d+)_ptr (?=\+)", body):
        found.setdefault(name, []).append(_BYTES[kind])
    for name in re.findall(r"\b(p\d+)_ptr\[", body):
        found.setdefault(name, []).append(0)
    return found
