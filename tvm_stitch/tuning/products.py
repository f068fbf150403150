"""Products on tensor cores as workloads: their Tiles are searched.

In: a fused PrimFunc that the kernel of a product computes, or of several. Out: a Workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.ir.mapping import SCHEMES, switched_off
from tvm_stitch.kernel.tensor_core import cost
from tvm_stitch.kernel.tensor_core.build import TensorKernel, read_products
from tvm_stitch.kernel.tensor_core.choose import choose_tiles
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, fitted_to_all, why_illegal
from tvm_stitch.stages.stage import Refused, Var, shown
from tvm_stitch.tuning.features import of_tiles
from tvm_stitch.tuning.spaces.tiles import TileSpace
from tvm_stitch.tuning.workload import Description, Layout, Workload, digest, workload_of


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductWorkload(Workload):
    """Products, mostly one, and what follows them in their kernel."""

    products: tuple[TensorProduct, ...]

    @property
    def outputs(self) -> frozenset[Var]:
        """The parameters that it writes."""
        return frozenset(buffer for product in self.products for buffer in product.outputs)

    def choose(self, schemes: Sequence[str] = SCHEMES) -> Tiles | Refused:
        """Its analytic choice, or why there is none."""
        return switched_off(("regional",), schemes) or choose_tiles(
            self.products, self.device, schemes=schemes
        )

    def space(self, schemes: Sequence[str] = SCHEMES) -> TileSpace:
        """Every legal tiles of the axes."""
        return TileSpace(self.products, self.device, schemes)

    def refusal(self, layout: Any, schemes: Sequence[str] = SCHEMES) -> Refused | None:
        """Why it cannot have tiles that somebody else made, if so."""
        if not isinstance(layout, Tiles):
            return Refused("a schedule of programs, which this has none of")
        reason = why_illegal(self.products, layout, self.device)
        wanted = ("regional", "cluster") if layout.splits > 1 else ("regional",)
        return switched_off(wanted, schemes) or (None if reason is None else Refused(reason))

    def emit(self, layout: Tiles) -> tirx.PrimFunc | Refused:
        """The kernel by legal tiles."""
        return TensorKernel(self.device, NO_BOUNDS, self.products, layout).emit(self.function)

    def refitted(self, layout: Any) -> Tiles | None:
        """Tiles with no more stages than this depth has."""
        return fitted_to_all(self.products, layout) if isinstance(layout, Tiles) else None

    def predicted_us(self, layout: Tiles) -> float:
        """What the kernel should take."""
        return cost.predicted_us(self.products, layout, self.device)

    def features(self, layout: Tiles) -> dict[str, float]:
        """What the tuner's model knows of tiles."""
        return of_tiles(self.sizes, layout, self.predicted_us(layout))

    @property
    def floor_us(self) -> float:
        """What moving its bytes takes at the bandwidth of a large copy."""
        return cost.least_bytes(self.products) / self.device.bandwidth * 1e6


def product_workload_of(function: tirx.PrimFunc, device: Device) -> ProductWorkload | Refused:
    """The workload of a fused PrimFunc that computes products."""
    products = read_products(function)
    if isinstance(products, Refused):
        return products
    return ProductWorkload(
        function=function,
        products=products,
        device=device,
        key=digest(_lines(products, sized=True)),
        family=digest(_lines(products, sized=False)),
        sizes=tuple(
            size if isinstance(size, int) else 0 for product in products for size in product.sizes
        ),
        title="; ".join(map(_title, products)),
    )


def _title(product: TensorProduct) -> str:
    names = ", ".join(stage.name.removeprefix("T_") for stage in (product.stage, *product.after))
    times = "" if product.entries == 1 else f"{shown(product.entries)} x "
    return f"{times}{product.size_text} {product.multiplied}: {names}"


def workload_with(
    layout: Layout, function: tirx.PrimFunc, device: Device, bounds: Bounds = NO_BOUNDS
) -> Workload | Refused:
    """The workload of a fused PrimFunc whose kernel has such a layout."""
    if isinstance(layout, Tiles):
        return product_workload_of(function, device)
    return workload_of(function, device, bounds, layout.schemes)


def _lines(products: tuple[TensorProduct, ...], sized: bool) -> Iterator[str]:
    """Products as text that depends on no names."""
    said = Description(sized)
    for product in products:
        yield from _lines_of(product, said, sized)


def _lines_of(product: TensorProduct, said: Description, sized: bool) -> Iterator[str]:
    yield f"product {product.left.by_depth} {product.right.by_depth}"
    if sized:
        rows, columns, depth, entries = map(said.size, product.sizes)
        yield f"{entries} {rows} {columns} {depth}"
    for stage in (product.stage, *product.after):
        yield f"stage {stage.combiner} {said.words(stage.value, stage)}"
        yield from (f"read {said.buffer(read.buffer)}" for read in stage.reads)
        yield f"to {said.buffer(stage.output)}"
    yield f"out {[said.buffer(buffer) for buffer in product.outputs]}"
