"""Small matrix products: a reduction as a row's factor times one that several rows share.

In: a Stage. Out: its Factors, or why it is no such product or too large for a stitched kernel. Must
not know rows that a kernel's stages share, nor threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    constant,
    dtype_of,
    product,
    shown,
    tensor_bytes,
)

# Larger products are for tensor cores and for kernels that stage them in turns.
MAX_CONTRACTED = 64
MAX_COLUMNS = 256  # of a row: four gates of 64
# Of shallow sums rows are as long as those of any value beside a product: residual streams that are
# mixed at each place, 4 or 8 of a model's width, are as many products as there are places, which a
# library has tiles for that are mostly empty.
SHALLOW = 16
# Of few rows all of the shared factor is read once, a part by each block: what that takes decides.
# Those of halves are for tensor cores.
FEW_ROWS = 64
MAX_CONTRACTED_OF_FEW = 1024
MAX_OUTPUTS = 4096  # columns of any value beside a product: four gates of 1024
# Multiply-adds for each byte of a product's three tensors. A GPU moves a byte in the time of about
# eight: with more, arithmetic decides and not the way through memory that a stitched kernel saves.
MAX_INTENSITY = 8.0
FEW_MULTIPLY_ADDS = 1 << 26  # that take some microseconds whatever computes them
ACCUMULATED = "float32"
MULTIPLIED = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, eq=False)
class Factors:
    """`output[rows, column] = sum over depth of own[rows, depth] * shared[rows, depth, column]`.

    A row's own factor does not depend on the column. The shared one may depend on some of the
    row's axes; rows that agree in these share it.
    """

    stage: Stage
    own: Expr
    shared: Expr
    rows: tuple[Var, ...]
    row_extents: tuple[Expr, ...]
    column: Var
    columns: int
    depth: Var
    contracted: int


@memoized
def small_product(stage: Stage) -> Factors | Refused:
    """The factors of a small product."""
    if stage.combiner != "sum" or not isinstance(stage.value, tirx.Mul):
        return Refused("no sum of products")
    if len(stage.reduced) != 1:
        return Refused(f"sums along {len(stage.reduced)} axes")
    if dtype_of(stage.output) not in MULTIPLIED:
        return Refused(f"results of {dtype_of(stage.output)}")
    wide = [number for number, extent in enumerate(stage.extents) if constant(extent) != 1]
    if not wide:
        return Refused("one result")
    place = wide[-1]
    columns, contracted = constant(stage.extents[place]), constant(stage.reduced_size)
    if columns is None:
        return Refused(f"rows of {shown(stage.extents[place])} results, known at run time only")
    if contracted is None:
        return Refused(f"sums over {shown(stage.reduced_size)} elements, known at run time only")
    if not columns or not contracted:
        return Refused("rows or sums of no elements")
    rows = constant(product(stage.extents[:place]))
    is_few = rows is not None and rows <= FEW_ROWS and _is_of_float32(stage)
    most_columns = MAX_OUTPUTS if is_few else longest_row(contracted)
    deepest = MAX_CONTRACTED_OF_FEW if is_few else MAX_CONTRACTED
    if columns > most_columns:
        return Refused(f"rows of {columns} results, more than {most_columns}")
    if contracted > deepest:
        return Refused(f"sums over {contracted} elements, more than {deepest}")
    column, depth = stage.axes[place], stage.reduced[0]
    sides = [(side, _used(side)) for side in (stage.value.a, stage.value.b)]
    own = [side for side, used in sides if column not in used]
    shared = [side for side, used in sides if column in used]
    if len(own) != 1 or not all(depth in used for _, used in sides):
        return Refused("no factor that is the same for all results of a row")
    if not _is_light(stage):
        return Refused(f"{constant(stage.total_size)} multiply-adds for the bytes that it moves")
    return Factors(
        stage,
        own[0],
        shared[0],
        stage.axes[:place] + stage.axes[place + 1 :],
        stage.extents[:place] + stage.extents[place + 1 :],
        column,
        columns,
        depth,
        contracted,
    )


def longest_row(contracted: int) -> int:
    """The most results in a row of a small product, by what each sums over."""
    return MAX_OUTPUTS if contracted <= SHALLOW else MAX_COLUMNS


def at_most(stage: Stage, bounds: Mapping[str, int]) -> Stage | None:
    """A product of as many columns and as deep as bounds allow, where only run time knows these.

    None where a bound is missing, or nothing needs one. It reads what may not be there.
    """
    if not (bounds and stage.extents and stage.is_reduction and is_product(stage)):
        return None
    extents = (stage.extents[-1], *stage.reduced_extents)
    found = [_most(extent, bounds) for extent in extents]
    if None in found or None not in map(constant, extents):
        return None
    columns, *depth = (tirx.IntImm("int64", most) for most in found)
    return replace(stage, extents=(*stage.extents[:-1], columns), reduced_extents=tuple(depth))


def _most(extent: Expr, bounds: Mapping[str, int]) -> int | None:
    """What an extent is at most."""
    analyzer = tvm.sym.Analyzer()
    for var in tirx.analysis.undefined_vars(extent):
        if var.name not in bounds:
            return None
        analyzer.bind(var, tvm.ir.Range(tirx.IntImm("int64", 0), bounds[var.name] + 1))
    return int(analyzer.const_int_bound(extent).max_value)


def _is_of_float32(stage: Stage) -> bool:
    return all(dtype_of(read.buffer) == "float32" for read in stage.reads)


def _is_light(stage: Stage) -> bool:
    """Whether bytes count for more than multiply-adds.

    Of as many rows as run time likes that is left to what kernels are predicted to take.
    """
    if constant(stage.total_size) is None:
        return True
    buffers = dict.fromkeys([stage.output, *(read.buffer for read in stage.reads)])
    moved = sum(tensor_bytes(buffer) or 0 for buffer in buffers)
    return (constant(stage.total_size) or 0) <= max(FEW_MULTIPLY_ADDS, MAX_INTENSITY * moved)


def _used(expr: Expr) -> set[Var]:
    return set(tirx.analysis.undefined_vars(expr))
