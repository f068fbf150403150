"""How four warps together add up a product of tiles, straight from shared memory (wgmma).

In: where both factors' tiles lie in shared memory, and the thread's place. Writes TIR into a
Writer. Must not know where tiles come from, nor what becomes of the sums.
"""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.tensor_core.mma import MATRIX, MmaAccumulator
from tvm_stitch.kernel.tensor_core.smem_swizzle import OperandTile
from tvm_stitch.kernel.tensor_core.tiles import (
    FRAGMENT_DEPTH,
    FRAGMENT_ROWS,
    GROUP_ROWS,
    HALF,
    LINE,
)
from tvm_stitch.stages.stage import Expr
from tvm_stitch.stages.symbolic_analyzer import int64

_UNIT = 16  # bytes that a descriptor counts in
_SWIZZLE_128 = 3  # as TVM numbers how chunks are ordered


class WarpgroupMma(MmaAccumulator):
    """Four warps multiply 64 rows by all columns, straight from shared memory and in their time.

    Or, where the factors are swapped, 64 columns by all rows.
    """

    def begin(self) -> None:
        """Before the first stage: where what the group has of one side is, and all of the other."""
        first = tirx.floordiv(self.thread, GROUP_ROWS * WARP // FRAGMENT_ROWS) * GROUP_ROWS
        self.factors = (self.left, self.right)
        if self.tiles.swapped:
            self.factors = (self.right, self.left)
        names, places = ("own", "other"), (first, int64(0))
        self.descriptors = [*map(self._descriptor, names, self.factors, places)]

    def arrived(self) -> None:
        """After the thread's own copies into a stage: tensor cores must see them."""
        self.writer.call(T.ptx.fence.proxy.async_.shared__cta())

    def multiply(self, iteration: Expr, slot: Expr) -> None:
        """Begin a stage, which goes on while the next is copied and waited for."""
        tiles, sides = self.tiles, self.factors
        shape = f"m64n{tiles.sides[1]}k{FRAGMENT_DEPTH}"
        multiply = T.ptx[f"wgmma.mma_async.sync.aligned.{shape}.f32.{self.kind}.{self.kind}"]
        totals = [self.totals[number] for number in range(tiles.accumulators)]
        self.writer.call(T.ptx.wgmma.fence.sync.aligned())
        for part in range(tiles.depth // FRAGMENT_DEPTH):
            factors = [
                found + self._step(side, slot, part * FRAGMENT_DEPTH)
                for found, side in zip(self.descriptors, sides, strict=True)
            ]
            # The first product of all begins the sums: registers that anybody else wrote last would
            # have to be waited for.
            adds = tirx.const(True, "bool") if part else iteration > 0
            transposed = [int(not side.factor.by_depth) for side in sides]
            self.writer.call(multiply(*totals, *factors, adds, 1, 1, *transposed))
        self.writer.call(T.ptx.wgmma.commit_group.sync.aligned())

    def settle(self) -> None:
        """Before the next stage: the one before this has been read, and may be copied over."""
        self.writer.call(T.ptx.wgmma.wait_group.sync.aligned(1))

    def end(self) -> None:
        """After the last stage."""
        self.writer.call(T.ptx.wgmma.wait_group.sync.aligned(0))

    def _descriptor(self, name: str, side: OperandTile, first: Expr) -> Expr:
        """Where tensor cores find a factor in the first slot, from a row or column on."""
        found = self.writer.allocate(f"{name}_descriptor", 1, "uint64")
        piece, lines = self.tiles.depth * LINE * HALF // _UNIT, MATRIX * LINE * HALF // _UNIT
        start = self._words(side.place(int64(0), first, int64(0)))
        describe = T.cuda.wgmma.encode_matrix_descriptor
        pointer = found.ptr_to([int64(0)])
        self.writer.call(describe(pointer, start, piece, lines, _SWIZZLE_128))
        return found[int64(0)]

    def _step(self, side: OperandTile, slot: Expr, depth: int) -> Expr:
        """How much further a stage's elements of a depth are, in a descriptor's units."""
        below = depth if side.factor.by_depth else depth * LINE
        return ((slot * side.stage + below) * HALF // _UNIT).astype("uint64")
