"""Rows and columns: the space that the stages of a kernel share, found from its reductions.

In: Stages in order. Out: a Space, or why there is none; which reductions go over its rows, and what
depends on them. Must not know threads.

What reductions keep is the row, what they reduce is the column. Others may reduce the rows of the
same elements and keep the columns. Without reductions, all elements are one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

from tvm import tirx

from tvm_stitch.kernel.ir.row_segments import Uneven, axes_of_rows, shared_rows
from tvm_stitch.stages import linear
from tvm_stitch.stages.linear import Linear, Position
from tvm_stitch.stages.memoized import memoized_for_copies
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    buffer_size,
    constant,
    flatten,
    product,
    same_size,
    shown,
)
from tvm_stitch.stages.symbolic_analyzer import quotient


@dataclass(frozen=True, eq=False)
class Space:
    """Rows by columns; a program without reductions is one row of all elements.

    A row lies in memory in runs of `run` elements. Where reductions keep trailing axes whole, a row
    is one run. A reduction over the first and last axes, such as a batch norm's, finds a run of its
    row in every image; the runs of all rows of an image follow each other. A group norm of images
    whose channels come last has such rows too, but only those of the `inner` axes, the groups of
    one batch entry, share their images. Where the last axes are kept, a run is a single element:
    such rows are the columns of a matrix, or of each one of a batch.
    """

    rows: Expr
    columns: Expr
    run: Expr
    inner: Expr | None = None  # None: all rows
    row_segment: Expr | None = None  # rows that a reduction over the rows combines; None: all
    uneven: Uneven | None = None  # what segments of a length that only run time knows share

    @cached_property
    def whole(self) -> bool:
        """Whether a row is one run."""
        return same_size(self.run, self.columns)

    @cached_property
    def strided(self) -> bool:
        """Whether neighbours in memory are never of one row."""
        return constant(self.run) == 1 and not self.whole

    @cached_property
    def size(self) -> Expr:
        """All elements."""
        return product((self.rows, self.columns))

    @cached_property
    def sums(self) -> Expr:
        """Elements of a reduction over the rows."""
        return (
            self.columns if self.row_segment is None else product((self.row_segments, self.columns))
        )

    @cached_property
    def segment_rows(self) -> Expr:
        """Rows of a segment."""
        return self.rows if self.row_segment is None else self.row_segment

    @cached_property
    def row_segments(self) -> Expr:
        """Row segments of rows."""
        if self.uneven is not None:
            groups, segments = quotient(self.rows, self.uneven.rows), self.uneven.segments
            return product((groups, tirx.IntImm("int64", segments)))
        if constant(self.rows) is None:
            return quotient(self.rows, self.segment_rows)
        return product((tirx.floordiv(self.rows, self.segment_rows),))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Equal for equal spaces."""
        shared = None if self.uneven is None else self.uneven.rows
        sizes = (self.rows, self.columns, self.run, self.inner, self.row_segment, shared)
        return tuple("" if size is None else shown(size) for size in sizes)

    def flat(self, row: Expr, column: Expr) -> Expr:
        """Where an element lies in memory."""
        if self.whole:
            return row * self.columns + column
        inside = tirx.floormod(column, self.run)
        return self.flat_in_run(row, tirx.floordiv(column, self.run), inside)

    def flat_in_run(self, row: Expr, image: Expr, inside: Expr) -> Expr:
        """Where an element of a run of a row in several runs lies in memory."""
        if self.inner is None:
            return (image * self.rows + row) * self.run + inside
        image = tirx.floordiv(row, self.inner) * self.images + image
        return (image * self.inner + tirx.floormod(row, self.inner)) * self.run + inside

    def distance(self, column: Expr) -> Expr:
        """How far an element of a row in several runs lies behind the row's first."""
        apart = product((self.rows if self.inner is None else self.inner, self.run))
        image, inside = tirx.floordiv(column, self.run), tirx.floormod(column, self.run)
        return image * apart + inside

    @cached_property
    def images(self) -> Expr:
        """The runs of a row."""
        return tirx.floordiv(self.columns, self.run)

    def row_of(self, flat: Expr) -> Expr:
        """The row of the element that lies there."""
        run = tirx.floordiv(flat, self.run)
        if self.whole:
            return run
        if self.inner is None:
            return tirx.floormod(run, self.rows)
        outer = tirx.floordiv(run, self.images * self.inner)
        return outer * self.inner + tirx.floormod(run, self.inner)

    def position(self, stage: Stage, across: bool = False) -> tuple[Position, Position | None]:
        """Row and place in memory of a stage's iteration, in its own axes.

        The place is None for a stage that computes one value a row. `across` says of a reduction
        that it goes over the rows.
        """
        row, flat = self._linear_position(stage, across)
        exprs = cache(partial(self._position, stage, across))
        at_row = Position(stage, row, lambda: exprs()[0])
        if not stage.is_reduction and not same_size(stage.size, self.size):
            return at_row, None
        return at_row, Position(stage, flat, lambda: exprs()[1])

    @cached_property
    def _sizes(self) -> tuple[int, ...] | None:
        """Rows, columns, the length of a run and the inner rows as numbers, if they are."""
        return linear.numbers((self.rows, self.columns, self.run, self.inner or self.rows))

    def _linear_flat(self, row: Linear | None, column: Linear | None) -> Linear | None:
        """As `flat` has it; None where that takes divisions."""
        if row is None or column is None or self._sizes is None:
            return None
        rows, columns, run, _ = self._sizes
        if self.whole:
            return row.times(columns) + column
        return column.times(rows) + row if run == 1 and self.inner is None else None

    def _linear_position(self, stage: Stage, across: bool) -> tuple[Linear | None, Linear | None]:
        """As far as row and place in memory are sums of axes."""
        units, extents = linear.axes(stage), linear.sizes(stage)
        if units is None or extents is None:
            return None, None
        count = len(stage.axes)

        def flattened(places: Sequence[int]) -> Linear:
            own = [units[place] for place in places]
            nothing = Linear((0,) * len(units))
            return linear.flattened(own, [extents[place] for place in places], nothing)

        spatial, reduced = list(range(count)), list(range(count, len(units)))
        if across:
            segments = stage.row_segments or 0
            row = flattened([*spatial[: segments - stage.uneven], *reduced])
            return row, self._linear_flat(row, flattened(spatial[segments:]))
        if stage.is_reduction:
            row = flattened(spatial)
            return row, self._linear_flat(row, flattened(reduced))
        if not same_size(stage.size, self.size):
            return flattened(spatial), None
        found = self.column_axes(stage.extents)
        if found is None:
            return None, flattened(spatial)
        begin, end = found
        return flattened([*spatial[:begin], *spatial[end:]]), flattened(spatial)

    def _position(self, stage: Stage, across: bool) -> tuple[Expr, Expr | None]:
        if across:
            row_segments = stage.row_segments or 0
            row = flatten(*axes_of_rows(stage))
            return row, self.flat(
                row, flatten(stage.axes[row_segments:], stage.extents[row_segments:])
            )
        spatial = flatten(stage.axes, stage.extents)
        if stage.is_reduction:
            return spatial, self.flat(spatial, flatten(stage.reduced, stage.reduced_extents))
        if not same_size(stage.size, self.size):
            return spatial, None
        found = self.column_axes(stage.extents)
        if found is None:
            return self.row_of(spatial), spatial
        # TVM proves little about divisions by a symbolic row length.
        begin, end = found
        of_row = (*stage.axes[:begin], *stage.axes[end:])
        return flatten(of_row, (*stage.extents[:begin], *stage.extents[end:])), spatial

    def column_axes(self, extents: tuple[Expr, ...]) -> tuple[int, int] | None:
        """Which axes of an element say its column, where the others say its row."""
        if not (self.whole or self.strided):
            return None
        behind: Expr = tirx.IntImm("int64", 1)
        if self.strided:
            behind = self.rows if self.inner is None else self.inner
        for end in range(len(extents), -1, -1):
            if not same_size(product(extents[end:]), behind):
                continue
            for begin in range(end + 1):
                if same_size(product(extents[begin:end]), self.columns):
                    return begin, end
        return None


def find_space(
    stages: tuple[Stage, ...], across: list[Stage], outputs: tuple[Var, ...]
) -> Space | Refused:
    """The space of stages, some of whose reductions go over its rows."""
    along = [stage for stage in stages if stage.is_reduction and stage not in across]
    if along:
        space = _space_along(along)
    elif across:
        space = _space_across(across[0])
    else:
        space = _space_of_elements(outputs)
    if isinstance(space, Refused):
        return space
    if along and across:
        space = _in_segments(space, _space_across(across[0]))
    for stage in across:
        if not (space.whole and _same_space(_space_across(stage), space)):
            return Refused(
                f"{stage.name} reduces {shown(stage.reduced_size)} rows of {shown(stage.size)}, "
                f"other stages work on {shown(space.rows)} rows of {shown(space.columns)}"
            )
    return space


def _space_across(stage: Stage) -> Space:
    """The rows that a reduction goes over, and the columns that it keeps."""
    if stage.row_segments is None:
        return Space(stage.reduced_size, stage.size, stage.size)
    columns = product(stage.extents[stage.row_segments :])
    rows = product(axes_of_rows(stage)[1])
    if not stage.uneven:
        return Space(rows, columns, columns, row_segment=stage.reduced_size)
    shared = shared_rows(stage)
    return Space(rows, columns, columns, row_segment=shared.length, uneven=shared)


def _in_segments(space: Space, other: Space) -> Space:
    """Rows that are reduced along as well, in the segments of those that are reduced over."""
    if other.row_segment is None or not space.whole:
        return space
    same = same_size(space.rows, other.rows) and same_size(space.columns, other.columns)
    return other if same else space


def _same_space(left: Space, right: Space) -> bool:
    pairs = [(left.rows, right.rows), (left.columns, right.columns)]
    pairs += [(left.segment_rows, right.segment_rows), (left.row_segments, right.row_segments)]
    return all(same_size(*pair) for pair in pairs)


def _space_of_elements(outputs: tuple[Var, ...]) -> Space | Refused:
    size = buffer_size(outputs[0])
    for output in outputs[1:]:
        if not same_size(buffer_size(output), size):
            return Refused(f"outputs of different sizes, {outputs[0]} and {output}")
    return Space(tirx.IntImm("int64", 1), size, size)


def strided_space(stages: tuple[Stage, ...]) -> Space | Refused:
    """The space of stages all of whose reductions read rows that are columns of a matrix."""
    reductions = [stage for stage in stages if stage.is_reduction]
    if not reductions:
        return Refused("nothing is reduced")
    if (refused := _disagree(reductions)) is not None:
        return refused
    found = next(filter(None, map(_strided_space_of, reductions)), None)
    return found or Refused(f"{reductions[0].name} reads no columns of a matrix")


def _space_along(reductions: list[Stage]) -> Space | Refused:
    """Rows lie in one run, unless some reduction's reads say otherwise."""
    if (refused := _disagree(reductions)) is not None:
        return refused
    first = reductions[0]
    for stage in reductions:
        if (space := _space_of_rows(stage)) is not None:
            return space
    return Space(first.size, first.reduced_size, first.reduced_size)


def _disagree(reductions: list[Stage]) -> Refused | None:
    first = reductions[0]
    for other in reductions[1:]:
        if not same_size(other.size, first.size) or not same_size(
            other.reduced_size, first.reduced_size
        ):
            return Refused(
                f"{first.name} and {other.name} reduce different rows: {shown(first.size)} x "
                f"{shown(first.reduced_size)} and {shown(other.size)} x "
                f"{shown(other.reduced_size)}"
            )
    return None


@memoized_for_copies
def goes_across(stage: Stage) -> bool:
    """Whether a reduction keeps the last axes of what it reads and reduces the first."""
    return stage.row_segments is not None or (stage.is_reduction and _reads_across(stage))


def _reads_across(stage: Stage) -> bool:
    space = Space(stage.reduced_size, stage.size, stage.size)
    if constant(stage.size) == 1 or not _reads_at(stage, space, across=True):
        return False
    along = Space(stage.size, stage.reduced_size, stage.reduced_size)
    return not _reads_at(stage, along)


def columnwise_of(stages: tuple[Stage, ...], across: list[Stage]) -> frozenset[Var]:
    """All results that depend on a reduction over the rows."""
    found = {stage.output for stage in across}
    for stage in stages if across else ():
        if any(read.buffer in found for read in stage.reads):
            found.add(stage.output)
    return frozenset(found)


def _read_by(stage: Stage, spaces: Iterable[Space]) -> Space | None:
    """The first space whose rows a reduction reads as they lie there."""
    return next((space for space in spaces if _reads_at(stage, space)), None)


@memoized_for_copies
def _space_of_rows(stage: Stage) -> Space | None:
    return _read_by(stage, _possible_spaces(stage))


@memoized_for_copies
def _strided_space_of(stage: Stage) -> Space | None:
    return _read_by(stage, _spaces_in_runs(stage, tirx.IntImm("int64", 1)))


def _possible_spaces(stage: Stage) -> Iterator[Space]:
    """Rows in one run, then in several runs of several elements."""
    yield Space(stage.size, stage.reduced_size, stage.reduced_size)
    for split in range(1, len(stage.reduced)):
        yield from _spaces_in_runs(stage, product(stage.reduced_extents[split:]))


def _spaces_in_runs(stage: Stage, run: Expr) -> Iterator[Space]:
    """All rows share their images, or those of the last axes."""
    yield Space(stage.size, stage.reduced_size, run)
    for kept in range(1, len(stage.axes)):
        inner = product(stage.extents[kept:])
        if constant(inner) != 1 and not same_size(inner, stage.size):
            yield Space(stage.size, stage.reduced_size, run, inner)


def _reads_at(stage: Stage, space: Space, across: bool = False) -> bool:
    """Whether a reduction reads the elements of a space as they lie there."""
    _, flat = space.position(stage, across)
    return flat is not None and any(
        same_size(buffer_size(read.buffer), space.size) and flat.is_read_by(number)
        for number, read in enumerate(stage.reads)
    )
