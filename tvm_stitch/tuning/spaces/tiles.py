"""The search space of products on tensor cores: every legal Tiles that the axes span.

In: TensorProducts of one kernel, mostly one, and the Device. Out: a Space. What is legal is asked
of kernel/tensor_core/tiles, which sizes groups of warps have of its choose; nothing here knows what
is fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from tvm_stitch.device import Device
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.tensor_core.choose import GROUPED
from tvm_stitch.kernel.tensor_core.cost import Sized, wave_of
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import SPLITS, Tiles, most_stages, why_illegal
from tvm_stitch.tuning.spaces.space import Choice, Point, Space

# Of a block and of each of its warps; rows, columns and the depth of a stage.
SIZES = (32, 64, 96, 128, 256)
DEPTHS = (32, 64, 128)
WARP_SIZES = (16, 32, 48, 64, 128, 256)
STAGES = (2, 3, 4, 6, 8, 10)
# Tiles of rows that neighbouring blocks go through, and blocks that the compiler leaves room for.
GROUPS = (1, 8, 32)
RESIDENT = (0, 2, 3, 5)


class TileSpace(Space):
    """All tiles that are legal for all products."""

    def __init__(
        self,
        products: Sequence[TensorProduct],
        device: Device,
        schemes: Sequence[str] = SCHEMES,
    ) -> None:
        self._parts = 1
        self.groups = ((0,),)
        # Whatever the threads of a block: there is no other part that must have as many.
        self._by_threads = {
            0: [
                [
                    Choice(tuple(asdict(_axes(tiles)).values()), (), tiles)
                    for tiles in _legal(products, device, schemes)
                ]
            ]
        }

    def nearest(self, layout: Any) -> Point:
        """The tiles of the space that share most with given ones."""
        choices = self._by_threads[0][0]

        def likeness(choice: Choice) -> int:
            return sum(getattr(layout, f.name) == getattr(choice.whole, f.name) for f in _FIELDS)

        return self._point((max(choices, key=likeness),))


_FIELDS = fields(Tiles)


def _axes(tiles: Tiles) -> Tiles:
    """What one step of a search may change: what a warp of a group has follows from other sizes."""
    if not tiles.warpgroups:
        return tiles
    return replace(tiles, warp_rows=int(tiles.swapped), warp_columns=0)


def _legal(
    products: Sequence[TensorProduct], device: Device, schemes: Sequence[str]
) -> Iterator[Tiles]:
    """The shapes that are legal with as few stages as there can be, then whatever else is."""
    sized = Sized.of(products)
    for grouped, splits in itertools.product((False, True), SPLITS):
        if splits > 1 and "cluster" not in schemes:
            continue
        for shape in _shapes(grouped):
            tiles = replace(shape, splits=splits)
            # With more blocks than begin at once, tiles are not few.
            if splits > 1 and sized.blocks(tiles) > wave_of(tiles, device):
                continue
            iterations = max(most_stages(product, tiles) for product in products)
            least = replace(tiles, stages=min(1 + tiles.multiplied, iterations))
            if why_illegal(products, least, device):
                continue
            stages = sorted({min(count, iterations) for count in STAGES})
            beside = RESIDENT if splits == 1 else RESIDENT[:1]
            for count, group, resident in itertools.product(stages, GROUPS, beside):
                own = replace(least, stages=count, group=group, min_blocks_per_sm=resident)
                if not why_illegal(products, own, device):
                    yield own


def _shapes(grouped: bool) -> Iterator[Tiles]:
    """Tiles by single warps, or by groups of four, which leave no choice of what each warp has."""
    if grouped:
        yield from dict.fromkeys(replace(t, stages=2, min_blocks_per_sm=0) for t in GROUPED)
        return
    for rows, columns, depth in itertools.product(SIZES, SIZES, DEPTHS):
        for own_rows, own_columns in itertools.product(WARP_SIZES, WARP_SIZES):
            if rows % own_rows == 0 and columns % own_columns == 0:
                yield Tiles(rows, columns, depth, own_rows, own_columns, 2)
