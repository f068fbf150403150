"""A reduction in two stages: partials of many blocks, side by side, and the final one of these.

In: a reduction. Out: a Split, or None where nothing is gained by it. Must not know threads, nor
what else is in the kernel.

The axes of a reduction are looked at in the order in which they lie in memory. Where rows are
reduced and columns kept, the rows are cut into segments, and every segment gives a partial of each
column; so do rows whose columns are kept in short groups, such as a group norm's of images whose
channels come last: memory is then read in order, and groups are combined in the second
stage. A few long rows are cut into chunks; so are rows of which only run time knows the length,
full reductions among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from tvm import tirx

from tvm_stitch.kernel.codegen.footprint import SUM_BYTES
from tvm_stitch.kernel.codegen.reduction import accumulator_dtype
from tvm_stitch.kernel.ir.iteration_space import goes_across
from tvm_stitch.kernel.ir.row_segments import FEWEST_ROWS
from tvm_stitch.kernel.rows.kind import GROUP
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    as_int64,
    bind_axes,
    buffer_size,
    constant,
    flatten,
    product,
    same_size,
    substitute,
)

# Partials in all: enough to keep two blocks on every multiprocessor of a large device busy.
PARTIALS = 264
# Several blocks share the columns of a segment where these fall into pieces: a block has one piece
# of one segment, and few segments make few partials. Measured on an H200: batch norm of 8192 x 1024
# float32 takes 26.0 us with 32 segments in 8 pieces, 30.3 with 128 segments in 4; softmax over the
# rows of 8192 x 4096 bfloat16 69.4 with 16 segments in 16 pieces, 70.3 with 64 in 8.
PIECE_BYTES = 512
FEWEST_SEGMENTS = 16
# Elements: what two blocks of a multiprocessor keep in registers, two reductions behind each other.
CHUNK = 8192
UNEVEN = 8  # times shorter than wanted, chunks are of no use
LONGEST = 1 << 17  # elements of a tensor that is one chunk
SHORTEST_CHUNK = 64  # elements, of any number of chunks
WIDEST = 1 << 15  # columns that a partial may have


@dataclass(frozen=True, eq=False)
class Split:
    """A reduction in two stages."""

    partials: Stage
    final: Stage
    whole: Stage | None = None  # instead of both, where there is but one partial


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of more than one element, as far as is known."""

    var: Var
    extent: Expr
    is_reduced: bool


@memoized
def split(stage: Stage, piece: int = PIECE_BYTES // SUM_BYTES) -> Split | None:
    """Both stages of a reduction; of a segment's rows a block takes pieces of so many columns."""
    if accumulator_dtype(stage) != "float32":
        return None
    axes = _memory_order(stage)
    if axes is None:
        return None
    kept = [axis for axis in axes if not axis.is_reduced]
    own = [axis for axis in stage.axes if axis in {each.var for each in kept}]
    if [axis.var for axis in kept] != own:
        return None
    first = next((n for n, axis in enumerate(axes) if axis.is_reduced), len(axes))
    last = next((n for n in range(first, len(axes)) if not axes[n].is_reduced), len(axes))
    outer, rows, columns = axes[:first], axes[first:last], axes[last:]
    if columns:
        return _in_row_segments(stage, outer, rows, columns, piece)
    return (_in_open_chunks if _known(rows) is None else _in_chunks)(stage, outer, rows)


def is_split(stage: Stage) -> bool:
    """Whether a stage is a reduction that falls into several partials."""
    found = split(stage) if stage.is_reduction else None
    return found is not None and found.whole is None


def _memory_order(stage: Stage) -> list[Axis] | None:
    """The axes of a reduction as they follow each other in some tensor that it reads in order."""
    pairs = [*zip(stage.axes, stage.extents, strict=True)]
    reduced = [*zip(stage.reduced, stage.reduced_extents, strict=True)]
    axes = [Axis(var, as_int64(extent), False) for var, extent in pairs]
    axes += [Axis(var, as_int64(extent), True) for var, extent in reduced]
    if any(constant(axis.extent) == 0 for axis in axes):
        return None
    wide = [axis for axis in axes if constant(axis.extent) != 1]
    for read in stage.reads:
        order = _order_in(read, stage, wide)
        if order is not None:
            return order
    return None


def _order_in(read: Read, stage: Stage, axes: list[Axis]) -> list[Axis] | None:
    if read.nested or not same_size(buffer_size(read.buffer), stage.total_size):
        return None
    analyzer = bind_axes(stage)
    zero = dict.fromkeys((*stage.axes, *stage.reduced), tirx.IntImm("int64", 0))

    def stride(axis: Axis) -> int:
        moved = substitute(read.place, {**zero, axis.var: tirx.IntImm("int64", 1)})
        return NOMINAL.size(analyzer.simplify(moved))

    order = sorted(axes, key=lambda axis: -stride(axis))
    in_order = flatten(_vars(order), _extents(order))
    named = {axis.var for axis in axes}
    at = substitute(read.place, {var: zero[var] for var in zero if var not in named})
    return order if analyzer.can_prove_equal(at, in_order) else None


def _in_row_segments(
    stage: Stage, outer: list[Axis], rows: list[Axis], columns: list[Axis], piece: int
) -> Split | None:
    inner = [axis for axis in columns if axis.is_reduced]
    width, group, count = _known(columns), _known(inner), _known(rows)
    if width is None or width > WIDEST:
        return None
    if group is None or (inner and (group > GROUP or columns[-1] not in inner)):
        return None
    row_segments = _segments(outer, width // piece if width % piece == 0 else 1, count)
    row_segment = Axis(tirx.Var("segment", "int64"), tirx.IntImm("int64", row_segments), True)
    if count is None and row_segments > 1:
        partials = _uneven_partials(stage, outer, row_segment, rows, columns)
    else:
        partials = _partials(stage, outer, row_segment, rows, columns)
    partials = replace(partials, row_segments=len(outer) + 1)
    places = (*outer, row_segment, *columns)
    final = _final(stage, partials, places)
    if not inner:
        before = {axis.var for axis in outer}
        kept = [number + 1 for number, var in enumerate(stage.axes) if var in before]
        final = replace(final, row_segments=max(kept, default=0))
        if row_segments == 1:
            return Split(partials, final, replace(stage, row_segments=final.row_segments))
    return Split(partials, final)


def _segments(outer: list[Axis], pieces: int, rows: int | None) -> int:
    """Into how many segments rows fall; evenly, if it is known how many rows there are."""
    groups, many = _known(outer), max(PARTIALS // pieces, FEWEST_SEGMENTS)
    wanted = 2 * FEWEST_SEGMENTS if groups is None else many // groups
    if rows is None:
        return max(1, wanted)
    return _divisor(rows, max(1, min(wanted, rows // FEWEST_ROWS)))


def _in_chunks(stage: Stage, outer: list[Axis], rows: list[Axis]) -> Split | None:
    groups, size = _known(outer), _known(rows) or 0
    if groups is None and size <= LONGEST:  # as likely as not there are many rows
        return None
    if (groups or 1) >= PARTIALS // 2 or not rows or goes_across(stage):
        return None
    length = _divisor(size, CHUNK)
    if length < CHUNK // UNEVEN:  # a prime number of elements, or nearly
        length = size
    if length > LONGEST:
        return None
    chunks = size // length
    if outer and chunks == 1:
        return None
    chunk = Axis(tirx.Var("chunk", "int64"), tirx.IntImm("int64", chunks), True)
    partials = _partials(stage, outer, chunk, rows, [])
    final = _final(stage, partials, (*outer, chunk))
    return Split(partials, final, stage if chunks == 1 else None)


def _in_open_chunks(stage: Stage, outer: list[Axis], rows: list[Axis]) -> Split | None:
    """Where only run time knows how long rows are: a chunk is what known extents span."""
    before, inner = _around_open_chunks(rows)
    length = product(_extents(inner))
    if not SHORTEST_CHUNK <= NOMINAL.size(length) <= LONGEST or goes_across(stage):
        return None
    chunk = Axis(tirx.Var("chunk", "int64"), product(_extents(before)), True)
    inside = tirx.Var("inside", "int64")
    own = unflatten(chunk.var, _vars(before), _extents(before))
    own |= unflatten(inside, _vars(inner), _extents(inner))
    places = (*outer, chunk)
    own |= _zeros(stage, (*outer, *rows))
    partials = _partials_of(stage, _vars(places), _extents(places), own, inside, length)
    return Split(partials, _final(stage, partials, places))


def _around_open_chunks(rows: list[Axis]) -> tuple[list[Axis], list[Axis]]:
    """The axes before and inside of chunks: as much as a chunk may have, but not all of it.

    Where more axes than the first are symbolic, chunks of a symbolic length are long enough to be
    worth a block; of known extents alone there would be many short ones.
    """
    known = max(n for n, axis in enumerate(rows) if constant(axis.extent) is None) + 1
    for before in range(1, known):
        if NOMINAL.size(product(_extents(rows[before:]))) <= LONGEST:
            return rows[:before], rows[before:]
    return rows[:known], rows[known:]


def _partials(
    stage: Stage, outer: list[Axis], part: Axis, rows: list[Axis], columns: list[Axis]
) -> Stage:
    """What is reduced over a part of the rows, all parts having as many."""
    size, parts = product(_extents(rows)), constant(part.extent) or 1
    length = size if parts == 1 else tirx.IntImm("int64", (constant(size) or 0) // parts)
    inside = tirx.Var("inside", "int64")
    own = unflatten(part.var * length + inside, _vars(rows), _extents(rows))
    own = {**_zeros(stage, (*outer, *rows, *columns)), **own}
    places = (*outer, part, *columns)
    return _partials_of(stage, _vars(places), _extents(places), own, inside, length)


def _uneven_partials(
    stage: Stage, outer: list[Axis], part: Axis, rows: list[Axis], columns: list[Axis]
) -> Stage:
    """The same of rows whose number only run time knows."""
    places, zeros = (*outer, part, *columns), _zeros(stage, (*outer, *rows, *columns))
    found = _partials_of(stage, _vars(places), _extents(places), zeros, rows[0].var, rows[0].extent)
    return replace(found, reduced=_vars(rows), reduced_extents=_extents(rows), uneven=True)


def _zeros(stage: Stage, named: tuple[Axis, ...]) -> dict[Var, Expr]:
    """The only places of axes that are not named: these have one element."""
    known = {axis.var for axis in named}
    zero = tirx.IntImm("int64", 0)
    return {var: zero for var in (*stage.axes, *stage.reduced) if var not in known}


def _partials_of(
    stage: Stage,
    axes: tuple[Var, ...],
    extents: tuple[Expr, ...],
    own: dict[Var, Expr],
    inside: Var,
    length: Expr,
) -> Stage:
    """A reduction over so many values inside of each partial; `own` are its axes there."""
    dtype = accumulator_dtype(stage)
    output = tirx.decl_buffer(extents, dtype, f"{stage.name}_partials")
    return Stage(
        name=f"{stage.name}_partials",
        output=output,
        axes=axes,
        extents=extents,
        value=substitute(stage.value, own),
        reduced=(inside,),
        reduced_extents=(length,),
        combiner=stage.combiner,
        identity=stage.identity.astype(dtype),
    )


def _final(stage: Stage, partials: Stage, places: Iterable[Axis]) -> Stage:
    """The final reduction of partials that lie at the given axes."""
    order = tuple(places)
    reduced = [axis for axis in order if axis.is_reduced]
    return replace(
        stage,
        value=partials.output[_vars(order)],
        reduced=_vars(reduced),
        reduced_extents=_extents(reduced),
    )


def _known(axes: Iterable[Axis]) -> int | None:
    """Elements of some axes; None: only run time knows."""
    return constant(product(_extents(axes)))


def _vars(axes: Iterable[Axis]) -> tuple[Var, ...]:
    return tuple(axis.var for axis in axes)


def _extents(axes: Iterable[Axis]) -> tuple[Expr, ...]:
    return tuple(axis.extent for axis in axes)


@cache
def _divisor(number: int, most: int) -> int:
    """The largest divisor that is not larger; of equally good ones a multiple of a vector."""
    found = [n for n in range(1, min(number, most) + 1) if number % n == 0]
    even = [n for n in found if n % 8 == 0]
    return even[-1] if even and 2 * even[-1] >= found[-1] else found[-1]
