"""Where tiles of a factor lie in shared memory: the layouts that tensor cores read well.

In: a Factor and its Tiles. Out: places of elements. Must not know how they are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.tensor_core.program import Factor
from tvm_stitch.kernel.tensor_core.tiles import LINE, PADDING, Tiles
from tvm_stitch.stages.stage import Expr

WORD = 4  # bytes of an element of the memory that holds all tiles
CHUNK = 8  # halves of 16 bytes, which stay together
BANKS = 8  # lines of a fragment, whose chunks must come from different banks


@dataclass(frozen=True, eq=False)
class OperandTile:
    """A factor's tiles in shared memory."""

    factor: Factor
    tiles: Tiles
    count: int  # rows or columns of a block
    first: Expr  # of them
    start: int  # of its stages in the smem_arena, in halves
    stage: int  # halves of a stage

    @property
    def fast(self) -> int:
        """Elements of a tile that are neighbours in memory."""
        return self.tiles.depth if self.factor.by_depth else self.count

    def place(self, slot: Expr, side: Expr, depth: Expr) -> Expr:
        """Where an element of a stage is, in halves."""
        slow, fast = (side, depth) if self.factor.by_depth else (depth, side)
        within = self._swizzled(slow, fast) if self.tiles.warpgroups else self._padded(slow, fast)
        return slot * self.stage + (self.start + within)

    def _padded(self, slow: Expr, fast: Expr) -> Expr:
        return slow * (self.fast + PADDING) + fast

    def _swizzled(self, slow: Expr, fast: Expr) -> Expr:
        """Lines of 128 bytes, each with its chunks in an order of its own."""
        piece, within = tirx.floordiv(fast, LINE), tirx.floormod(fast, LINE)
        line = piece * self.tiles.depth + slow
        chunk = tirx.bitwise_xor(tirx.floordiv(within, CHUNK), tirx.floormod(line, BANKS))
        return line * LINE + chunk * CHUNK + tirx.floormod(within, CHUNK)
