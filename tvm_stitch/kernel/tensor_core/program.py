"""Matrix products of halves for tensor cores, with the element-wise stages that follow them.

In: the stages of a function. Out: a TensorProduct, or why it is none. Must not know threads.

A product has entries (what both factors have of their own is the same for, such as a batch and its
heads), each of rows that one factor has, by columns that the other has, summed over a depth that
both have. Of a ragged one, groups of rows that only run time tells have a right factor each: there,
ENTRY counts groups of that factor, and all rows are those of one entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent, bound_to, in_chunks
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.patterns.ragged_product import RaggedProduct, ragged_product
from tvm_stitch.stages.patterns.tf32 import is_truncated, untruncated
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    as_int64,
    constant,
    dtype_of,
    interned,
    place_of,
    product,
    same_size,
    shown,
    substitute,
)

ENTRY = tirx.Var("entry", "int64")
DEPTH = tirx.Var("depth", "int64")
MULTIPLIED = ("float16", "bfloat16")
# A tensor core multiplies 16 rows; for fewer, TVM's kernels of matrices and vectors are as good.
FEWEST_ROWS = 16
WIDEST = 8  # elements of an access
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


@dataclass(frozen=True, eq=False)
class Factor:
    """One of the two: where its elements are, by ENTRY, DEPTH and its own ROW or COLUMN."""

    buffer: Var
    at: Expr
    side: Var  # ROW or COLUMN
    extents: dict[Var, Extent]

    @cached_property
    def by_depth(self) -> bool:
        """Whether neighbours along the depth are neighbours in memory; else along its side."""
        along_depth, along_side = (self._width(var) for var in (DEPTH, self.side))
        return along_depth >= along_side

    @cached_property
    def vector(self) -> int:
        """Elements that lie side by side in memory wherever so many neighbours begin."""
        return self._width(DEPTH if self.by_depth else self.side)

    @cached_property
    def is_in_pieces(self) -> bool:
        """Whether the next element of a row, or the next row, is not everywhere as far away."""
        divided: list[Expr] = []
        note = [(kind, lambda node: divided.append(node.a)) for kind in _DIVISIONS]
        tvm_ffi.structural_walk(self.at, note)
        own = {var for each in divided for var in tirx.analysis.undefined_vars(each)}
        return not own.isdisjoint((self.side, DEPTH))

    def _width(self, along: Var) -> int:
        width = WIDEST
        while width > 1 and not in_chunks(self.at, along, self.extents, width):
            width //= 2
        return width


@dataclass(frozen=True, eq=False)
class TensorProduct:
    """`output[entry, row, column] = sum over depth of left * right`, and what becomes of it.

    Extents are numbers where they are known, and expressions of symbols where they are not.
    """

    stage: Stage
    result: Var  # what the product comes to: its output, or that rounded to halves at once
    after: tuple[Stage, ...]  # element-wise, in order
    outputs: tuple[Var, ...]
    left: Factor
    right: Factor
    entries: Extent
    rows: Extent
    columns: Extent
    contracted: Extent
    axes: dict[Var, dict[Var, Expr]]  # of each stage, by what it computes
    is_interleaved: bool = False  # a row of each entry, then the next row of each
    beside: tuple[TensorProduct, ...] = ()  # of the same left factor; what follows reads all
    ragged: RaggedProduct | None = None
    before: tuple[Stage, ...] = ()  # element-wise, in order: of them the right factor is computed

    @property
    def all(self) -> tuple[TensorProduct, ...]:
        """Itself and those beside it."""
        return (self, *self.beside)

    @property
    def multiplied(self) -> str:
        """The dtype of both factors."""
        return dtype_of(self.left.buffer)

    @property
    def is_truncated(self) -> bool:
        """Whether the factors lose the bits that TF32 lacks, by what the product says itself."""
        return is_truncated(_multiplied(self.stage).a)

    @property
    def sizes(self) -> tuple[Extent, ...]:
        """Rows, columns, depth and entries."""
        return self.rows, self.columns, self.contracted, self.entries

    def sizes_at(self, extents: Extents) -> tuple[int, int, int, int]:
        """The same where symbols have some sizes."""
        rows, columns, contracted, entries = (extents.size(as_int64(e)) for e in self.sizes)
        return rows, columns, contracted, entries

    @property
    def groups(self) -> int:
        """Of rows that share a right factor, in each entry."""
        return 1 if self.ragged is None else self.ragged.groups

    @property
    def size_text(self) -> str:
        """Its rows, depth and columns for people."""
        return " x ".join(map(shown, (self.rows, self.contracted, self.columns)))

    @property
    def extents(self) -> dict[Var, Extent]:
        """How far ENTRY, ROW and COLUMN go."""
        return {ENTRY: self.entries, ROW: self.rows, COLUMN: self.columns}

    @property
    def flat(self) -> Expr:
        """Where an element of the result is, and of all that follows."""
        if self.ragged is not None:
            return ROW * self.columns + COLUMN
        line = ROW * self.entries + ENTRY if self.is_interleaved else ENTRY * self.rows + ROW
        return line * self.columns + COLUMN

    @property
    def computed(self) -> frozenset[Var]:
        """What the kernel computes."""
        before = (stage.output for each in self.all for stage in each.before)
        return frozenset((*self.axes, *before))

    @property
    def inputs(self) -> tuple[Var, ...]:
        """What it reads from memory."""
        own = (stage for each in self.all for stage in (*each.before, each.stage))
        reads = (read.buffer for stage in (*own, *self.after) for read in stage.reads)
        return tuple(buffer for buffer in dict.fromkeys(reads) if buffer not in self.computed)

    @property
    def buffers(self) -> tuple[Var, ...]:
        """What it reads from memory and writes."""
        return (*self.inputs, *self.outputs)

    def place(self, stage: Stage, read: Read) -> Expr:
        """Where a load of what memory holds goes, by ENTRY, ROW and COLUMN."""
        at = read.place
        return bound_to(self.extents).simplify(substitute(at, self.axes[stage.output]))


def tensor_product(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    multiplied: tuple[str, ...] = MULTIPLIED,
    fewest_rows: int = FEWEST_ROWS,
    batched: int = 0,
    most_beside: int = 0,
) -> TensorProduct | Refused:
    """The product that a function's stages are, if they are one, of these dtypes and rows.

    So many of the axes that only the left factor has count as entries: the outer ones, or the inner
    ones if the number is negative. If even 0 rows are enough, a vector by a matrix counts as well,
    which is the reduction of a row or a column for others. Beside it there may be so many others of
    the same left factor, by matrices that are as large.
    """
    first = stages[0]
    if not first.is_reduction or not (is_product(first) or fewest_rows < 1):
        return Refused("it does not begin with a matrix product")
    others = [stage for stage in stages[1:] if stage.is_reduction]
    if len(others) > most_beside:
        return Refused("it reduces what the product gives")
    found = _product(first, multiplied, batched, fewest_rows < 1)
    if isinstance(found, Refused):
        return found
    if isinstance(found.rows, int) and found.rows < fewest_rows and found.ragged is None:
        return Refused(f"a product of {found.rows} rows, too few for tensor cores")
    beside, made = list[TensorProduct](), {stage.output for stage in stages}
    for stage in others:
        other = _product(stage, multiplied, batched, fewest_rows < 1)
        if isinstance(other, Refused) or not _is_alike(other, found) or other.right.buffer in made:
            return Refused("it reduces what the product gives, or multiplies something else")
        beside.append(other)
    after = tuple(stage for stage in stages if not stage.is_reduction)
    axes = {axis: own for each in (found, *beside) for axis, own in each.axes.items()}
    for stage in after:
        own = _axes_behind(stage, found)
        if own is None:
            return Refused(f"{stage.name} has another size than the product")
        axes[stage.output] = own
    for stage in after:
        for number, read in enumerate(stage.reads):
            if read.buffer in axes and not _is_own_element(stage, found, number):
                return Refused(f"{stage.name} reads other elements than its own")
    result, *results = (_rounded(each.stage, after, outputs) for each in (found, *beside))
    after = tuple(stage for stage in after if stage.output not in (result, *results))
    beside = [replace(each, result=own) for each, own in zip(beside, results, strict=True)]
    return replace(
        found, result=result, after=after, outputs=outputs, axes=axes, beside=tuple(beside)
    )


def _is_alike(other: TensorProduct, found: TensorProduct) -> bool:
    """Whether a product has the left factor of another one, and one matrix that is as large."""
    left, own = other.left, found.left
    same = left.buffer is own.buffer and tvm_ffi.structural_equal(left.at, own.at)
    dtypes = {dtype_of(each.result) for each in (other, found)}
    layouts = {each.right.by_depth for each in (other, found)}
    return (
        same
        and other.ragged is found.ragged is None
        and len(dtypes) == len(layouts) == 1
        and all(map(same_size, map(as_int64, other.sizes), map(as_int64, found.sizes)))
    )


@memoized
def _product(
    stage: Stage, multiplied: tuple[str, ...], batched: int, vectors: bool
) -> TensorProduct | Refused:
    """The product alone, of which planners ask again with whatever may follow it."""
    loads = _loads(stage, multiplied)
    if isinstance(loads, Refused):
        return loads
    used = [_variables(load) for load in loads]
    wide = [axis for axis, e in zip(stage.axes, stage.extents, strict=True) if constant(e) != 1]
    if not wide:
        return Refused("a product of one result")
    if wide[-1] in used[0]:
        loads, used = loads[::-1], used[::-1]
    left, right = used
    kinds = [(axis in left) + 2 * (axis in right) for axis in wide]
    # First what both have, or none, and what is further out, as where a batch shares the weights of
    # its heads; then what is the left one's, at last what is the right one's.
    outer = max((n for n, kind in enumerate(kinds) if kind in (0, 3)), default=-1)
    order = [0 if n <= outer else kind for n, kind in enumerate(kinds)]
    if order != sorted(order) or {1, 2} - {*order, *([1] if vectors else [])}:
        return Refused("a product that is none of rows by columns")
    entry, row, column = (
        [axis for axis, kind in zip(wide, order, strict=True) if kind == number]
        for number in range(3)
    )
    if abs(batched) >= max(1, len(row)) or (batched < 0 and entry):
        return Refused(f"its rows have no {abs(batched) + 1} axes")
    if batched < 0:
        entry, row = row[batched:], row[:batched]
    else:
        entry, row = entry + row[:batched], row[batched:]
    extent_of = dict(zip(stage.axes, stage.extents, strict=True))
    entries, rows, columns = (_size(extent_of, axes) for axes in (entry, row, column))
    names = _named(extent_of, {ENTRY: entry, ROW: row, COLUMN: column})
    depth, matrices, ragged = _known(stage.reduced_extents[-1]), entries, ragged_product(stage)
    if ragged is not None:
        if entry or not {ragged.row}.issuperset(row):
            return Refused("a ragged product of more than rows by columns")
        names[ragged.group], matrices = ENTRY, ragged.groups
    names[stage.reduced[-1]] = DEPTH
    own, other = (
        _factor(load, names, {ENTRY: matrices, side: size, DEPTH: depth}, side)
        for load, side, size in zip(loads, (ROW, COLUMN), (rows, columns), strict=True)
    )
    return TensorProduct(
        stage=stage,
        result=stage.output,
        after=(),
        outputs=(stage.output,),
        left=own,
        right=other,
        entries=entries,
        rows=rows,
        columns=columns,
        contracted=depth,
        axes={stage.output: names},
        is_interleaved=batched < 0,
        ragged=ragged,
    )


def _named(extent_of: dict[Var, Expr], by: dict[Var, list[Var]]) -> dict[Var, Expr]:
    """Axes by what counts some of them together; of others there is one element."""
    names = dict.fromkeys(extent_of, tirx.IntImm("int64", 0))
    for var, axes in by.items():
        names |= unflatten(var, tuple(axes), tuple(extent_of[axis] for axis in axes))
    return names


def _loads(stage: Stage, multiplied: tuple[str, ...]) -> tuple[Expr, Expr] | Refused:
    """The two factors."""
    value, axes = _multiplied(stage), len(stage.reduced) - (ragged_product(stage) is not None)
    if stage.combiner != "sum" or not isinstance(value, tirx.Mul) or axes != 1:
        return Refused("a product of another form than a sum of two factors along one axis")
    if any(read.nested for read in stage.reads):
        return Refused("a product of what is looked up by indices in memory")
    found, sides = [], (value.a, value.b)
    if len(set(map(is_truncated, sides))) > 1:
        return Refused("a product one of whose factors is truncated")
    for side in sides:
        load = side.value if isinstance(side, tirx.Cast) else untruncated(side)
        if not isinstance(load, tvm.ir.TensorLoad):
            return Refused("a product of what is computed on the way")
        if dtype_of(load.source) not in multiplied:
            return Refused(f"a product of {dtype_of(load.source)}")
        found.append(load)
    left, right = found
    if dtype_of(left.source) != dtype_of(right.source):
        return Refused("a product of different dtypes")
    if dtype_of(stage.output) not in (ACCUMULATED, dtype_of(left.source)):
        return Refused(f"a product in {dtype_of(stage.output)}")
    return left, right


def _multiplied(stage: Stage) -> Expr:
    """What is summed up: of a ragged product, by the matrix of the row's own group."""
    ragged = ragged_product(stage)
    return stage.value if ragged is None else ragged.value


def _factor(load: Expr, names: dict[Var, Expr], extents: dict[Var, Extent], side: Var) -> Factor:
    at = substitute(place_of(load), names)
    return Factor(interned(load.source), bound_to(extents).simplify(at), side, extents)


def _size(extent_of: dict[Var, Expr], axes: list[Var]) -> Extent:
    return _known(product(tuple(extent_of[axis] for axis in axes)))


def _known(size: Expr) -> Extent:
    number = constant(size)
    return size if number is None else max(1, number)


def _variables(load: Expr) -> set[Var]:
    return {var for index in load.indices for var in tirx.analysis.undefined_vars(index)}


def _rounded(first: Stage, after: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Var:
    """The product's output rounded to halves, if nobody wants it as it is."""
    readers = [stage for stage in after for read in stage.reads if read.buffer is first.output]
    if len(readers) != 1 or first.output in outputs or not isinstance(readers[0].value, tirx.Cast):
        return first.output
    (rounded,) = readers
    plain = isinstance(rounded.value.value, tvm.ir.TensorLoad)
    return rounded.output if plain and dtype_of(rounded.output) in MULTIPLIED else first.output


@memoized
def _axes_behind(stage: Stage, found: TensorProduct) -> dict[Var, Expr] | None:
    """The axes of a stage behind a product, by its entry, row and column; None: of other sizes."""
    if not same_size(stage.size, as_int64(found.entries * found.rows * found.columns)):
        return None
    first = found.stage
    extents = stage.extents, first.extents
    if len(stage.axes) != len(first.axes) or not all(map(same_size, *extents)):
        return unflatten(found.flat, stage.axes, stage.extents)
    return dict(zip(stage.axes, map(found.axes[first.output].get, first.axes), strict=True))


@memoized
def _is_own_element(stage: Stage, found: TensorProduct, number: int) -> bool:
    """Whether a read of what the kernel computes, by its number, takes the element at its place."""
    analyzer, own = bound_to(found.extents), _axes_behind(stage, found)
    at = analyzer.simplify(substitute(stage.reads[number].place, own or {}))
    return analyzer.can_prove_equal(at, found.flat)
