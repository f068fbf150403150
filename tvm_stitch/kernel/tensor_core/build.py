"""Matrix products on tensor cores as kernels: a fused PrimFunc in, a scheduled one out, or why not.

Such a product is too large to live in a stitched kernel among others. It has one of its own, which
computes what follows it as well, or shares one with other products; TVM's schedules leave tensor
cores aside where halves are summed up in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.codegen.block_order import by_ranges, interleave_blocks, own_block
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads
from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform, divided
from tvm_stitch.kernel.kernel import Implementation
from tvm_stitch.kernel.tensor_core.choose import choose_tiles, slower_than_fitted
from tvm_stitch.kernel.tensor_core.cost import predicted_us
from tvm_stitch.kernel.tensor_core.emit import TensorPart, allocate_smem_arena
from tvm_stitch.kernel.tensor_core.emitted import EmittedProducts, by_schemes, products_of
from tvm_stitch.kernel.tensor_core.grouped import co_scheduled, tensor_products
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, tiles_of
from tvm_stitch.stages.extents import is_open
from tvm_stitch.stages.stage import Expr, Refused, Stage, Var, as_int64, buffer_size, constant
from tvm_stitch.stages.symbolic_analyzer import int64

TILES_ATTRIBUTE = "tvm_stitch.tiles"


def read_products(func: tirx.PrimFunc) -> tuple[TensorProduct, ...] | Refused:
    """The products that a fused PrimFunc computes, mostly one."""
    return products_of(tensor_products, func)


@dataclass(frozen=True, eq=False)
class TensorKernel(EmittedProducts):
    """Products whose blocks are one grid, and the tiles that all of them are computed by."""

    attribute: ClassVar[str] = TILES_ATTRIBUTE
    tiles: Tiles

    @cached_property
    def cost_us(self) -> float:
        """What it should take, on average at the sizes that symbols may have.

        Its tiles are the same for all, which costs time where nobody states the sizes.
        """
        bounds, how = self.bounds, (self.products, self.tiles, self.device)
        found = bounds.mean(lambda point: predicted_us(*how, point))
        if not is_open(self.buffers, bounds.points):
            return found
        return found * slower_than_fitted(*how, bounds)

    @property
    def tiles_text(self) -> str:
        """Its tiles as JSON."""
        return self.tiles.to_json()

    def emitted(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """The kernel in place of a function, not yet checked."""
        return emit_products(
            func, self.products, self.tiles, co_scheduled(self.products, self.device)
        )

    @property
    def layout(self) -> Tiles:
        """What a tuner searches."""
        return self.tiles


def tensor_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: Sequence[str],
) -> TensorKernel | Refused:
    """The products that stages are, by the tiles that suit them; or why they are none."""
    found = by_schemes(tensor_products, stages, outputs, schemes)
    if isinstance(found, Refused):
        return found
    tiles = choose_tiles(found, device, bounds, schemes)
    return tiles if isinstance(tiles, Refused) else TensorKernel(device, bounds, found, tiles)


TENSOR_CORE_PRODUCT = Implementation(TILES_ATTRIBUTE, tensor_kernel, of_products=True)


def emit_products(
    func: tirx.PrimFunc, products: Sequence[TensorProduct], tiles: Tiles, mixed: bool = False
) -> tirx.PrimFunc:
    """The kernel of products by legal tiles: their blocks one after the other, or `mixed`."""
    writer = Writer()
    buffers = dict.fromkeys(buffer for product in products for buffer in product.buffers)
    views = {buffer: writer.view(buffer, buffer_size(buffer)) for buffer in buffers}
    block_var, thread_var = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    block, thread, rank = block_var.astype("int64"), thread_var.astype("int64"), int64(0)
    if tiles.splits > 1:  # what follows counts clusters
        block, rank = divided(block, tiles.splits)
    smem_arena = allocate_smem_arena(products, tiles, writer)
    place = tirx.Var("place", "int64") if mixed else block
    blocks: Expr = int64(0)
    bodies: list[tuple[Expr, tirx.Stmt]] = []
    for product in products:
        inner = Writer()
        own = own_block(place, blocks, inner) if len(products) > 1 else place
        TensorPart(product, tiles, views, own, thread, rank, smem_arena, inner).emit()
        blocks = blocks + as_int64(tiles_of(product, tiles))
        bodies.append((blocks, inner.done()))
    writer.add(interleave_blocks(place, block, bodies) if mixed else by_ranges(block, bodies))
    body = on_threads(writer.done(), thread_var, tiles.threads, tiles.min_blocks_per_sm)
    if tiles.splits > 1:
        body = bound(tirx.Var("rank", "int32"), "clusterCtaIdx.x", int64(tiles.splits), body)
    body = bound(block_var, "blockIdx.x", blocks * tiles.splits, body)
    if constant(blocks) is None:
        body = tirx.IfThenElse(block_uniform(blocks > 0), body, None)
    return kernel_function(func, body)
