"""Products of few rows as kernels: a fused PrimFunc in, a scheduled one out, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.codegen.block_order import by_ranges, own_block
from tvm_stitch.kernel.codegen.footprint import SUM_BYTES
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.kernel import Implementation
from tvm_stitch.kernel.skinny_matmul.cost import predicted_us
from tvm_stitch.kernel.skinny_matmul.emit import SkinnyPart
from tvm_stitch.kernel.skinny_matmul.program import sizes_of, skinny_products
from tvm_stitch.kernel.skinny_matmul.tiles import (
    SkinnyTiles,
    blocks_of,
    choose_tiles,
    footprint,
    tiles_to_json,
)
from tvm_stitch.kernel.tensor_core.emitted import EmittedProducts, by_schemes, products_of
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import CAPABILITY
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Refused, Stage, Var, buffer_size
from tvm_stitch.stages.symbolic_analyzer import int64

SKINNY_ATTRIBUTE = "tvm_stitch.skinny_tiles"


@dataclass(frozen=True, eq=False)
class SkinnyKernel(EmittedProducts):
    """Products of few rows whose blocks are one grid, and the tiles of each."""

    attribute: ClassVar[str] = SKINNY_ATTRIBUTE
    # Of columns that are read in parts it takes all readers, behind what is computed of all.
    most_at_once: ClassVar[int] = 8
    tiles: tuple[SkinnyTiles, ...]

    @cached_property
    def cost_us(self) -> float:
        """What it should take."""
        return predicted_us(self.products, self.tiles, self.device)

    @property
    def is_product(self) -> bool:
        """Not of a single row, which is reduced with whatever there is, for planners."""
        return all(sizes_of(p)[0] > 1 or p.ragged is not None for p in self.products)

    @property
    def shares_launch(self) -> bool:
        """Whether others that are no products can be put into it, or it into them."""
        return not self.is_product

    @property
    def tiles_text(self) -> str:
        """The tiles of all parts as JSON."""
        return tiles_to_json(self.tiles)

    def emitted(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """The kernel in place of a function, not yet checked."""
        return emit_skinny(func, self.products, self.tiles)


def skinny_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: Sequence[str],
) -> SkinnyKernel | Refused:
    """The products of few rows that stages are; or why they are none."""
    if device.capability < CAPABILITY:
        return Refused(f"{device.name} has no tensor cores for such a product")
    found = by_schemes(skinny_products, stages, outputs, schemes)
    if isinstance(found, Refused):
        return found
    return SkinnyKernel(device, bounds, found, choose_tiles(found, device))


SKINNY_MATMUL = Implementation(SKINNY_ATTRIBUTE, skinny_kernel, of_products=True)


def read_skinny(func: tirx.PrimFunc) -> tuple[TensorProduct, ...] | Refused:
    """The products of few rows that a fused PrimFunc computes."""
    return products_of(skinny_products, func)


def emit_skinny(
    func: tirx.PrimFunc, products: Sequence[TensorProduct], tiles: Sequence[SkinnyTiles]
) -> tirx.PrimFunc:
    """The kernel of products by their tiles, the blocks of which come one after the other."""
    writer = Writer()
    buffers = dict.fromkeys(buffer for product in products for buffer in product.buffers)
    views = {buffer: writer.view(buffer, buffer_size(buffer)) for buffer in buffers}
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread = block_var.astype("int64"), thread_var.astype("int64")
    pairs = list(zip(products, tiles, strict=True))
    sums = max(footprint(*each).shared for each in pairs) // SUM_BYTES
    shared = writer.allocate("sums", sums, ACCUMULATED, "shared")
    blocks, bodies = 0, list[tuple[Expr, tirx.Stmt]]()
    for product, own in pairs:
        inner = Writer()
        place = own_block(block, int64(blocks), inner) if len(pairs) > 1 else block
        SkinnyPart(product, own, views, place, thread, shared, inner).emit()
        blocks += blocks_of(product, own.columns)
        bodies.append((int64(blocks), inner.done()))
    writer.add(by_ranges(block, bodies))
    body = on_threads(writer.done(), thread_var, tiles[0].threads)
    return kernel_function(func, bound(block_var, "blockIdx.x", int64(blocks), body))
