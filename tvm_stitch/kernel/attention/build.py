"""Attention as a kernel: an Attention in, a scheduled PrimFunc out, or why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.attention.attend import Attend
from tvm_stitch.kernel.attention.cost import predicted_us
from tvm_stitch.kernel.attention.merge import Merge
from tvm_stitch.kernel.attention.part import Part
from tvm_stitch.kernel.attention.tiles import (
    AttentionTiles,
    blocks_of,
    choose_tiles,
    why_not,
)
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads, signature
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.library.attention import (
    EXPECTED_BATCH,
    EXPECTED_KEYS,
    Attention,
    Size,
    decoded,
    size_at,
)
from tvm_stitch.library.of_counts import BATCH, KEYS
from tvm_stitch.stages.stage import Refused, as_int64, buffer_size
from tvm_stitch.stages.symbolic_analyzer import int64

ATTENTION_ATTRIBUTE = "tvm_stitch.attention"
NAMES, OUTPUT = ("query", "key", "value", "bias"), "output"  # of parameters
# The symbols of what is counted at run time only, and what is planned with.
COUNTED = {"keys": EXPECTED_KEYS, "batch": EXPECTED_BATCH}
ATTENTION_SCHEMES = frozenset({"regional", "cluster"})

Tensor: TypeAlias = tuple[Sequence[Size], str]
"""A shape and a type."""


@dataclass(frozen=True)
class AttentionKernels:
    """Who makes such kernels for a GPU."""

    device: Device

    @staticmethod
    def of(device: Device, schemes: Sequence[str]) -> AttentionKernels | None:
        """None where the schemes leave such kernels out."""
        return AttentionKernels(device) if ATTENTION_SCHEMES.issubset(schemes) else None

    def us(self, attention: Attention) -> float | Refused:
        """What the kernel should take, its launch included, or why there is none."""
        refused = why_not(attention, self.device)
        if refused is not None:
            return refused
        tiles = choose_tiles(attention, self.device)
        return predicted_us(attention.expected, tiles, self.device)

    def kernel(self, attention: Attention, tensors: Sequence[Tensor]) -> tirx.PrimFunc | Refused:
        """The kernel of query, keys, values, perhaps a bias, and the result."""
        refused = why_not(attention, self.device)
        if refused is not None:
            return refused
        extents = {each for shape, _ in tensors for each in shape}
        for size, count, name in (
            (attention.keys, KEYS, "keys"),
            (attention.batch, BATCH, "entries"),
        ):
            if not isinstance(size, int) and count not in extents:
                return Refused(f"no extent of a tensor is the number of {name}")
        kernel = emit_attention(attention, tensors, choose_tiles(attention, self.device))
        return check_kernel(kernel, self.device) or kernel


def emit_attention(
    attention: Attention, tensors: Sequence[Tensor], tiles: AttentionTiles
) -> tirx.PrimFunc:
    """The kernel by tiles, not yet checked.

    What is counted at run time only is an extent of a tensor.
    """
    writer = Writer()
    counted = [tirx.Var(name, "int64") for name in COUNTED]
    params = {
        name: tirx.decl_buffer([size_at(each, *counted) for each in shape], dtype, name)
        for name, (shape, dtype) in zip((*NAMES[: len(tensors) - 1], OUTPUT), tensors, strict=True)
    }
    views = {name: writer.view(param, buffer_size(param)) for name, param in params.items()}
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread = block_var.astype("int64"), thread_var.astype("int64")
    sized = attention.at(*counted)
    part = Part(sized, tiles, views, block, thread, writer)
    merge = Merge(part)
    merge.finish(Attend(part).emit())
    body = on_threads(writer.done(), thread_var, tiles.threads)
    if tiles.splits > 1:
        body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(tiles.splits), body)
    body = bound(block_var, "blockIdx.x", as_int64(blocks_of(sized, tiles)), body)
    kernel = kernel_function(signature(params.values()), body)
    said = json.dumps({"attention": attention.encoded(), "tiles": asdict(tiles)})
    return kernel.with_attr(ATTENTION_ATTRIBUTE, said)


def read_attention(emitted: tirx.PrimFunc) -> tuple[Attention, AttentionTiles]:
    """What such a kernel computes, and how."""
    said = json.loads(str(emitted.attrs[ATTENTION_ATTRIBUTE]))
    return decoded(said["attention"]), AttentionTiles(**said["tiles"])
