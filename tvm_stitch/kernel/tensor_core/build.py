"""Matrix products on tensor cores as kernels: a fused PrimFunc in, a scheduled one out, or why not.

Such a product is too large to live in a stitched kernel among others. It has one of its own, which
computes what follows it as well; TVM's schedules leave tensor cores aside where halves are summed
up in float32.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.codegen.prim_func import bound, kernel_function, on_threads, signature
from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform
from tvm_stitch.kernel.kernel import Implementation, Kernel
from tvm_stitch.kernel.tensor_core.choose import choose_tiles
from tvm_stitch.kernel.tensor_core.cost import mean_us
from tvm_stitch.kernel.tensor_core.emit import TensorPart
from tvm_stitch.kernel.tensor_core.program import TensorProduct, tensor_product
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused, Stage, Var, as_int64, buffer_size, constant

TILES_ATTRIBUTE = "tvm_stitch.tiles"


def read_product(func: tirx.PrimFunc) -> TensorProduct | Refused:
    """The product that a fused PrimFunc computes."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    return tensor_product(stages, outputs_of(func, stages))


@dataclass(frozen=True, eq=False)
class TensorKernel(Kernel):
    """A product and the tiles that it is computed by."""

    product: TensorProduct
    tiles: Tiles

    @property
    def buffers(self) -> tuple[Var, ...]:
        """The tensors that it reads and writes."""
        return self.product.buffers

    @cached_property
    def cost_us(self) -> float:
        """What it should take, on average at the sizes that symbols may have."""
        return mean_us(self.product, self.tiles, self.device, self.bounds.points)

    def check(self, _seen: set[Hashable] | None = None) -> Refused | None:
        """What the last look at it will find, asked before there is a fused PrimFunc."""
        func = signature(self.product.buffers)
        return check_kernel(emit_product(func, self.product, self.tiles), self.device)

    def emit(self, func: tirx.PrimFunc) -> tirx.PrimFunc | Refused:
        """The kernel by its legal Tiles, which are attached as JSON."""
        kernel = emit_product(func, self.product, self.tiles)
        hazard = check_kernel(kernel, self.device)
        return kernel.with_attr(TILES_ATTRIBUTE, self.tiles.to_json()) if hazard is None else hazard

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
    """The product that stages are, by the tiles that suit it; or why they are none."""
    if "regional" not in schemes:
        return Refused("the regional scheme is switched off")
    found = tensor_product(stages, outputs)
    if isinstance(found, Refused):
        return found
    tiles = choose_tiles(found, device, bounds.points)
    return tiles if isinstance(tiles, Refused) else TensorKernel(device, bounds, found, tiles)


TENSOR_CORE_PRODUCT = Implementation(TILES_ATTRIBUTE, tensor_kernel, of_products=True)


def emit_product(func: tirx.PrimFunc, found: TensorProduct, tiles: Tiles) -> tirx.PrimFunc:
    """The kernel of a product by legal tiles."""
    writer = Writer()
    views = {buffer: writer.view(buffer, buffer_size(buffer)) for buffer in found.buffers}
    block, thread = tirx.Var("block", "int32"), tirx.Var("thread", "int32")
    place = block.astype("int64"), thread.astype("int64")
    TensorPart(found, tiles, views, *place, writer).emit()
    body = on_threads(writer.done(), thread, tiles.threads, tiles.min_blocks_per_sm)
    blocks = as_int64(blocks_of(found, tiles))
    body = bound(block, "blockIdx.x", blocks, body)
    if constant(blocks) is None:
        body = tirx.IfThenElse(block_uniform(blocks > 0), body, None)
    return kernel_function(func, body)
