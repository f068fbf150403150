"""Products of few rows by a large matrix, or several, with the element-wise stages that follow.

In: the stages of a function. Out: TensorProducts whose weights are read by whole vectors, or are
computed of such; or why it is none of such products. Must not know threads. Of ragged products,
each group has few rows.

A single row by weights whose depth lies along memory is left to those who reduce rows, which fuse
it with anything: of 4096 x 1024 that takes 4.9 us on an H200, this 5.4. They have no scales of
groups of a row's weights, though. Where columns lie along
memory, others reduce columns, by panels or in rounds: 6.9 us, and 6.3.
"""

from __future__ import annotations

from tvm_stitch.kernel.skinny_matmul.column_parts import with_parts
from tvm_stitch.kernel.skinny_matmul.dequantize import (
    lane_weights,
    stages_before,
    with_stages_before,
)
from tvm_stitch.kernel.tensor_core.grouped import tensor_products
from tvm_stitch.kernel.tensor_core.mma import MATRIX
from tvm_stitch.kernel.tensor_core.program import WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import filled_groups
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Refused, Stage, Var

MOST_ROWS = 16  # what an instruction of tensor cores has of one side
FEW_OF_GROUP = 4  # rows on average: hardly any group has twice as many
FEWEST_COLUMNS, FEWEST_DEPTH = 64, 64  # smaller matrices are no matter of memory
# Neighbouring columns of a lane's weights, by whether the depth lies along memory.
WIDTHS = {True: (1,), False: (2, 4)}
MOST_BESIDE = 2  # products of the same rows that are computed together, as of a gated unit


def skinny_products(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[TensorProduct, ...] | Refused:
    """The products that a function's stages are, if they are nothing else."""
    before = stages_before(stages, outputs)
    behind = tuple(stage for stage in stages if stage not in before)
    behind = with_parts(behind, outputs, MOST_BESIDE + 1)
    found = tensor_products(behind, outputs, fewest_rows=0, most_beside=MOST_BESIDE)
    if isinstance(found, Refused):
        return found
    whole = [with_stages_before(product, before) for product in found] if before else found
    refused = [each if isinstance(each, Refused) else _why_not(each) for each in whole]
    return next(filter(None, refused), tuple(p for p in whole if not isinstance(p, Refused)))


def rows_of(product: TensorProduct) -> int:
    """Rows that a block computes: all, or of a ragged product as many as groups mostly have."""
    rows = sizes_of(product)[0]
    if product.ragged is None:
        return rows
    each = rows / filled_groups(product, NOMINAL)
    return min(rows, MATRIX if each <= FEW_OF_GROUP else MOST_ROWS)


def sizes_of(product: TensorProduct) -> tuple[int, int, int, int]:
    """Rows, columns, depth and entries, which are numbers."""
    return product.sizes_at(NOMINAL)


def _why_not(product: TensorProduct) -> Refused | None:
    """Why a product is not of few rows by a matrix that is worth a kernel."""
    if not all(isinstance(size, int) for size in product.sizes):
        return Refused("a product of few rows whose sizes are known at run time only")
    rows, columns, depth, _ = sizes_of(product)
    if product.ragged is not None and rows > MOST_ROWS * filled_groups(product, NOMINAL):
        return Refused(f"a product of {rows} rows, more than {MOST_ROWS} of each group")
    if rows > MOST_ROWS and product.ragged is None:
        return Refused(f"a product of {rows} rows, more than {MOST_ROWS}")
    if columns < FEWEST_COLUMNS or depth < FEWEST_DEPTH:
        return Refused(f"a matrix of {depth} x {columns}, too small for a kernel of few rows")
    for factor in (product.left, *(each.right for each in product.all)):
        if factor.vector < WIDEST or factor.is_in_pieces:
            return Refused(f"{factor.buffer.name} is not read by vectors of {WIDEST}")
    if not product.left.by_depth:
        return Refused(f"{product.left.buffer.name} has its rows across memory")
    loads = 1
    for each in product.all:
        for width in WIDTHS[product.right.by_depth] if each.before else ():
            lanes = lane_weights(each, width)
            if isinstance(lanes, Refused):
                return lanes
            loads = len(lanes.loads)
    if rows == loads == 1 and product.right.by_depth and product.ragged is None:
        return Refused("a product of one row whose weights are reduced as rows")
    return None
