"""A reduction in two: shares that many blocks can work out side by side, and their sum.

In: a reduction of constant extents. Out: a Split, or None where nothing is gained by it. Must not
know threads, nor what else is in the kernel.

The axes of a reduction are looked at in the order in which they lie in memory. Where rows are
reduced and columns kept, the rows are cut into segments, and every segment gives a share of each
column; so do rows whose columns are kept in short groups, such as a group norm's of images whose
channels come last: memory is then read in order, and groups meet in the second half. A few long
rows are cut into chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.two_stage_softmax import behind_maxima
from tvm_stitch.kernel.analysis.two_stage_variance import one_pass
from tvm_stitch.kernel.codegen.footprint import SUM_BYTES
from tvm_stitch.kernel.codegen.reduction import accumulator_dtype
from tvm_stitch.kernel.ir.iteration_space import goes_across
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    bind_axes,
    buffer_size,
    constant,
    element_bytes,
    elements_of,
    flatten,
    handle,
    same_size,
    substitute,
    unflatten,
)

# Shares in all: enough to keep two blocks on every multiprocessor of a large device busy.
SHARES = 264
# Several blocks share the columns of a segment where these fall into pieces: a block has one piece
# of one segment, and few segments make few shares. Measured on an H200: batch norm of 8192 x 1024
# float32 takes 26.0 us with 32 segments in 8 pieces, 30.3 with 128 segments in 4; softmax over the
# rows of 8192 x 4096 bfloat16 69.4 with 16 segments in 16 pieces, 70.3 with 64 in 8.
PIECE_BYTES = 512
# Where rows are reduced first, a block takes whole ones of at most two vectors a thread.
WHOLE_ROW_BYTES = 1 << 14
FEWEST_SEGMENTS = 16
ROWS_A_SEGMENT = 8  # at least: every share is written and read once more
# Elements: what two blocks of a multiprocessor keep in registers, two reductions behind each other.
CHUNK = 8192
UNEVEN = 8  # times shorter than wanted, chunks are of no use
LONGEST = 1 << 17  # elements of a tensor that is one chunk
GROUP = 32  # columns that are reduced together where they are kept in groups, at most
WIDEST = 1 << 15  # columns that a share may have


@dataclass(frozen=True, eq=False)
class Split:
    """A reduction's two halves."""

    shares: Stage
    total: Stage
    whole: Stage | None = None  # instead of both, where there is but one share


@dataclass(frozen=True)
class Axis:
    """An axis of more than one element."""

    var: Var
    extent: int
    is_reduced: bool


@memoized
def split(stage: Stage, piece: int = PIECE_BYTES // SUM_BYTES) -> Split | None:
    """The halves of a reduction; of a segment's rows a block takes pieces of so many columns."""
    axes = _memory_order(stage)
    if axes is None or accumulator_dtype(stage) != "float32":
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
    return _in_chunks(stage, outer, rows)


def is_split(stage: Stage) -> bool:
    """Whether a stage is a reduction that falls into several shares."""
    halves = split(stage) if stage.is_reduction else None
    return halves is not None and halves.whole is None


def _memory_order(stage: Stage) -> list[Axis] | None:
    """The axes of a reduction as they follow each other in some tensor that it reads in order."""
    pairs = [*zip(stage.axes, stage.extents, strict=True)]
    reduced = [*zip(stage.reduced, stage.reduced_extents, strict=True)]
    axes = [Axis(var, constant(extent) or 0, False) for var, extent in pairs]
    axes += [Axis(var, constant(extent) or 0, True) for var, extent in reduced]
    if any(axis.extent == 0 for axis in axes):
        return None
    wide = [axis for axis in axes if axis.extent > 1]
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
    strides = {}
    for axis in axes:
        moved = substitute(read.place, {**zero, axis.var: tirx.IntImm("int64", 1)})
        strides[axis] = constant(analyzer.simplify(moved))
    if None in strides.values():
        return None
    order = sorted(axes, key=lambda axis: -(strides[axis] or 0))
    in_order = flatten(tuple(axis.var for axis in order), tuple(_extents(order)))
    named = {axis.var for axis in axes}
    at = substitute(read.place, {var: zero[var] for var in zero if var not in named})
    return order if analyzer.can_prove_equal(at, in_order) else None


def _in_row_segments(
    stage: Stage, outer: list[Axis], rows: list[Axis], columns: list[Axis], piece: int
) -> Split | None:
    inner = [axis for axis in columns if axis.is_reduced]
    width = _size(columns)
    if width > WIDEST or (inner and (_size(inner) > GROUP or columns[-1] not in inner)):
        return None
    pieces = width // piece if width % piece == 0 else 1
    many = max(SHARES // pieces, FEWEST_SEGMENTS)
    wanted = min(many // _size(outer), _size(rows) // ROWS_A_SEGMENT)
    row_segments = _divisor(_size(rows), max(1, wanted))
    row_segment = tirx.Var("band", "int64")
    shares = _shares(stage, outer, row_segment, row_segments, rows, columns)
    shares = replace(shares, row_segments=len(outer) + 1)
    places = (*outer, Axis(row_segment, row_segments, True), *columns)
    total = _total(stage, shares, places)
    if not inner:
        before = {axis.var for axis in outer}
        kept = [number + 1 for number, var in enumerate(stage.axes) if var in before]
        total = replace(total, row_segments=max(kept, default=0))
        if row_segments == 1:
            return Split(shares, total, replace(stage, row_segments=total.row_segments))
    return Split(shares, total)


def _in_chunks(stage: Stage, outer: list[Axis], rows: list[Axis]) -> Split | None:
    if _size(outer) >= SHARES // 2 or not rows or goes_across(stage):
        return None
    length = _divisor(_size(rows), CHUNK)
    if length < CHUNK // UNEVEN:  # a prime number of elements, or nearly
        length = _size(rows)
    if length > LONGEST:
        return None
    chunks = _size(rows) // length
    if outer and chunks == 1:
        return None
    chunk = tirx.Var("chunk", "int64")
    shares = _shares(stage, outer, chunk, chunks, rows, [])
    total = _total(stage, shares, (*outer, Axis(chunk, chunks, True)))
    return Split(shares, total, stage if chunks == 1 else None)


def _shares(
    stage: Stage, outer: list[Axis], part: Var, parts: int, rows: list[Axis], columns: list[Axis]
) -> Stage:
    """What is reduced over a part of the rows."""
    inside, length = tirx.Var("inside", "int64"), _size(rows) // parts
    row = part * length + inside
    own = unflatten(row, tuple(axis.var for axis in rows), tuple(_extents(rows)))
    named = {axis.var for axis in (*outer, *rows, *columns)}
    unit = {v: tirx.IntImm("int64", 0) for v in (*stage.axes, *stage.reduced) if v not in named}
    axes = (*(axis.var for axis in outer), part, *(axis.var for axis in columns))
    extents = (*_extents(outer), tirx.IntImm("int64", parts), *_extents(columns))
    dtype = accumulator_dtype(stage)
    output = tirx.decl_buffer(extents, dtype, f"{stage.name}_shares")
    return Stage(
        name=f"{stage.name}_shares",
        output=output,
        axes=axes,
        extents=extents,
        value=substitute(stage.value, {**own, **unit}),
        reduced=(inside,),
        reduced_extents=(tirx.IntImm("int64", length),),
        combiner=stage.combiner,
        identity=stage.identity.astype(dtype),
    )


def _total(stage: Stage, shares: Stage, places: Iterable[Axis]) -> Stage:
    """The sum of shares that lie at the given axes."""
    order = tuple(places)
    reduced = [axis for axis in order if axis.is_reduced]
    return replace(
        stage,
        value=shares.output[tuple(axis.var for axis in order)],
        reduced=tuple(axis.var for axis in reduced),
        reduced_extents=tuple(_extents(reduced)),
    )


Slices = dict[Var, tuple[Var, ...]]  # what shares a joined tensor is made of, in order


def in_two_stages(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[tuple[Stage, ...], tuple[Var, ...], Slices]:
    """All reductions that gain by it in two, and the same outputs.

    Sums whose results are only added up become one sum, over the shares of all of them; a sum and
    the squares around its mean are found together, and so are a maximum and the sum of what is
    measured against it.
    """
    halves = _halves(stages)
    joining = _Joining(stages, outputs, halves)
    joining.run()
    many = {key: own for key, own in halves.items() if own is not None and own.whole is None}
    pairs = one_pass(stages, many) | behind_maxima(stages, many)
    found: list[Stage] = []
    for stage in stages:
        key = handle(stage.output)
        own, total = halves.get(key), joining.replaced.get(key, stage)
        if key in pairs:
            found += pairs[key]
            continue
        if own is not None and total is not None:
            found += [own.shares, own.total] if own.whole is None else [own.whole]
        elif own is not None:
            found.append(own.shares)
        elif total is not None:
            found.append(total)
    return tuple(found), outputs, joining.slices


class _Joining:
    """Finds chains of additions, from their last to their first."""

    def __init__(
        self, stages: tuple[Stage, ...], outputs: tuple[Var, ...], halves: dict[int, Split | None]
    ) -> None:
        self.stages, self.halves = stages, halves
        self.producer = {handle(stage.output): stage for stage in stages}
        self.readers = Counter(k for s in stages for k in {handle(r.buffer) for r in s.reads})
        self.readers.update(map(handle, outputs))
        self.replaced: dict[int, Stage | None] = {}  # None: by what comes later
        self.slices: Slices = {}

    def run(self) -> None:
        """Find all."""
        for stage in reversed(self.stages):
            if handle(stage.output) not in self.replaced and self._terms(stage) is not None:
                self._join(stage)

    def _join(self, stage: Stage) -> None:
        between: list[int] = []
        sums: list[Split] = []
        pending = [stage]
        while pending:
            current = pending.pop()
            between.append(handle(current.output))
            terms, own = self._terms(current), self.halves.get(between[-1])
            if terms is not None:
                pending += reversed(terms)
            elif own is not None and constant(current.size) == 1 and current.combiner == "sum":
                sums.append(own)
            else:
                return
        if len(sums) < 2:
            return
        shares = tuple(own.shares.output for own in sums)
        size = tirx.IntImm("int64", sum(constant(own.shares.size) or 0 for own in sums))
        whole = tirx.decl_buffer((size,), "float32", "shares")
        place = tirx.Var("share", "int64")
        self.slices[whole] = shares
        self.replaced |= dict.fromkeys(between)
        self.replaced[handle(stage.output)] = replace(
            stage,
            value=whole[place],
            reduced=(place,),
            reduced_extents=(size,),
            combiner="sum",
            identity=tirx.const(0, "float32"),
        )

    def _terms(self, stage: Stage) -> list[Stage] | None:
        """The stages whose results a scalar is the sum of; None if it is not."""
        if stage.is_reduction or constant(stage.size) != 1:
            return None
        value = stage.value
        if not isinstance(value, tirx.Add | tvm.ir.TensorLoad):
            return None
        found = []
        for term in (value.a, value.b) if isinstance(value, tirx.Add) else (value,):
            if isinstance(term, tirx.FloatImm) and term.value == 0:
                continue
            is_load = isinstance(term, tvm.ir.TensorLoad)
            key = handle(term.source) if is_load else 0
            if key not in self.producer or self.readers[key] > 1:
                return None
            found.append(self.producer[key])
        return found


def _halves(stages: tuple[Stage, ...]) -> dict[int, Split | None]:
    """The halves of all reductions; what follows reductions of whole rows takes whole rows."""
    item = _narrowest_item(stages)
    after: dict[int, set[tuple[int, int]]] = {}  # rows and columns that results depend on
    found: dict[int, Split | None] = {}
    for stage in stages:
        key = handle(stage.output)
        behind = set[tuple[int, int]]().union(*(after.get(handle(b), ()) for b in stage.buffers))
        if not stage.is_reduction:
            after[key] = behind
            continue
        size, reduced = constant(stage.size) or 0, constant(stage.reduced_size) or 0
        whole = (reduced, size) in behind and size * item <= WHOLE_ROW_BYTES
        found[key] = split(stage, size if whole else PIECE_BYTES // item)
        after[key] = {(size, reduced)} if found[key] is None else set()
    return found


def _narrowest_item(stages: tuple[Stage, ...]) -> int:
    """Bytes of an element of the narrowest large tensor that is read: vectors are as long."""
    computed = {handle(stage.output) for stage in stages}
    read = {handle(r.buffer): r.buffer for stage in stages for r in stage.reads}
    inputs = [buffer for key, buffer in read.items() if key not in computed]
    largest = max((elements_of(buffer) or 0 for buffer in inputs), default=0)
    large = [element_bytes(b) for b in inputs if 2 * (elements_of(b) or 0) >= largest]
    return min((*large, SUM_BYTES))


def _size(axes: Iterable[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.extent
    return total


def _extents(axes: Iterable[Axis]) -> list[Expr]:
    return [tirx.IntImm("int64", axis.extent) for axis in axes]


@cache
def _divisor(number: int, most: int) -> int:
    """The largest divisor that is not larger; of equally good ones a multiple of a vector."""
    found = [n for n in range(1, min(number, most) + 1) if number % n == 0]
    even = [n for n in found if n % 8 == 0]
    return even[-1] if even and 2 * even[-1] >= found[-1] else found[-1]
