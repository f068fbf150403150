"""How a product of few rows is divided among blocks, warps and lanes: plain data, and its choice.

In: TensorProducts of few rows and a Device. Out: SkinnyTiles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from tvm_stitch.device import Device
from tvm_stitch.json_data import checked, parsed, positive
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, SUM_BYTES
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.skinny_matmul.program import sizes_of
from tvm_stitch.kernel.tensor_core.program import TensorProduct

FRAGMENT = 16  # columns, or elements of the depth, of an instruction's weights
MATRIX = 8  # rows of an instruction that takes the weights for its larger side
CHUNK = 32  # of the depth: what four lanes load of a line, 16 bytes each
GROUPS = 8  # of four lanes
LINE_PADDING = 4  # sums between lines in shared memory, so that lanes write to different banks
WARPS, MOST_WARPS = 8, 16
WIDEST_ACROSS = 64  # columns of a lane's vectors, side by side
# Eight vectors of weights that a lane has on their way: other warps beside it keep memory busy.
ALONG_CHUNKS, ACROSS_CHUNKS = 4, 1


@dataclass(frozen=True)
class SkinnyTiles:
    """A block computes all rows of `columns` results; its `warps` share the depth.

    Each has `chunks` of 32 elements of the depth on their way at once. What they come to is added
    up through shared memory, in the order of the warps.
    """

    columns: int
    warps: int
    chunks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def step(self) -> int:
        """Elements of the depth that a warp loads before it multiplies."""
        return self.chunks * CHUNK

    @property
    def pitch(self) -> int:
        """Sums from a row to the next in shared memory."""
        return self.columns + LINE_PADDING

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.columns} columns of all rows a block, the depth shared by {self.warps} warps, "
            f"each {self.step} deep at a time"
        )

    def to_json(self) -> str:
        """The tiles as a JSON object."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> SkinnyTiles:
        """Read what to_json wrote; refuse unknown or missing fields and wrong types."""
        readers = dict.fromkeys((field.name for field in fields(SkinnyTiles)), positive)
        return checked(SkinnyTiles, parsed(text, "tiles"), "tiles", readers)


def padded_rows(product: TensorProduct) -> int:
    """Rows that tensor cores compute: whole matrices of them."""
    rows, _, _, _ = sizes_of(product)
    return -(-rows // MATRIX) * MATRIX


def shared_bytes(product: TensorProduct, tiles: SkinnyTiles) -> int:
    """The sums of all warps."""
    return tiles.warps * padded_rows(product) * tiles.pitch * SUM_BYTES


def blocks_of(product: TensorProduct, columns: int) -> int:
    """Blocks of the grid, each of so many columns."""
    _, all_columns, _, entries = sizes_of(product)
    return entries * -(-all_columns // columns)


def choose_tiles(products: Sequence[TensorProduct], device: Device) -> tuple[SkinnyTiles, ...]:
    """The tiles of each, all with as many threads, since their blocks are one grid."""
    chosen = [_columns(product, device) for product in products]
    blocks = sum(map(blocks_of, products, chosen))
    warps = WARPS if blocks >= 2 * device.multiprocessors else MOST_WARPS
    deepest = max(sizes_of(product)[2] for product in products)
    while warps > 1 and deepest < warps * CHUNK * 2:
        warps //= 2
    while True:
        tiles = tuple(
            SkinnyTiles(columns, warps, ALONG_CHUNKS if product.right.by_depth else ACROSS_CHUNKS)
            for product, columns in zip(products, chosen, strict=True)
        )
        if warps == 1 or max(map(shared_bytes, products, tiles)) <= STATIC_SHARED:
            return tiles
        warps //= 2


def _columns(product: TensorProduct, device: Device) -> int:
    """As many as one instruction has; across the depth, as wide lines as leave enough blocks."""
    if product.right.by_depth:
        return FRAGMENT
    columns = WIDEST_ACROSS
    while columns > FRAGMENT and blocks_of(product, columns) < device.multiprocessors:
        columns //= 2
    return columns
