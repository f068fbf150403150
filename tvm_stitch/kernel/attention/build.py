"""Attention as a kernel: an Attention in, a scheduled PrimFunc out, or why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

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
    tiles_from_json,
    tiles_to_json,
    why_not,
)
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads, signature
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.library.attention import Attention, decoded
from tvm_stitch.stages.stage import Refused, Var, buffer_size
from tvm_stitch.stages.symbolic_analyzer import int64

ATTENTION_ATTRIBUTE = "tvm_stitch.attention"
NAMES, OUTPUT = ("query", "key", "value", "bias"), "output"  # of parameters
ATTENTION_SCHEMES = frozenset({"regional", "cluster"})


@dataclass(frozen=True)
class AttentionKernels:
    """Who makes such kernels for a GPU."""

    device: Device

    def us(self, attention: Attention) -> float | Refused:
        """What the kernel should take, its launch included, or why there is none."""
        tiles = choose_tiles(attention, self.device)
        return why_not(attention, self.device) or predicted_us(attention, tiles, self.device)

    def kernel(self, attention: Attention, params: Sequence[Var]) -> tirx.PrimFunc | Refused:
        """The kernel; `params` are query, key, value, perhaps a bias, and the result."""
        refused = why_not(attention, self.device)
        if refused is not None:
            return refused
        kernel = emit_attention(attention, params, choose_tiles(attention, self.device))
        return check_kernel(kernel, self.device) or kernel


def emit_attention(
    attention: Attention, params: Sequence[Var], tiles: AttentionTiles
) -> tirx.PrimFunc:
    """The kernel by tiles, not yet checked."""
    writer = Writer()
    views = {
        name: writer.view(param, buffer_size(param))
        for name, param in zip((*NAMES[: len(params) - 1], OUTPUT), params, strict=True)
    }
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread = block_var.astype("int64"), thread_var.astype("int64")
    part = Part(attention, tiles, views, block, thread, writer)
    merge = Merge(part)
    merge.finish(Attend(part).emit())
    body = on_threads(writer.done(), thread_var, tiles.threads)
    if tiles.splits > 1:
        body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(tiles.splits), body)
    body = bound(block_var, "blockIdx.x", int64(blocks_of(attention, tiles)), body)
    kernel = kernel_function(signature(params), body)
    said = json.dumps({"attention": attention.encoded(), "tiles": json.loads(tiles_to_json(tiles))})
    return kernel.with_attr(ATTENTION_ATTRIBUTE, said)


def read_attention(emitted: tirx.PrimFunc) -> tuple[Attention, AttentionTiles]:
    """What such a kernel computes, and how."""
    said = json.loads(str(emitted.attrs[ATTENTION_ATTRIBUTE]))
    return decoded(said["attention"]), tiles_from_json(json.dumps(said["tiles"]))
