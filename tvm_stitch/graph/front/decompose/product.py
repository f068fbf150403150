"""Matrix products: transposed operands are read where they lie, halves are summed in float32.

In: a call of matmul. Out: the product of the tensors that its operands are views of, in TE, every
index an axis by itself: `sum over k of A[batch.., i, k] * B[batch.., j, k]` by a transposed weight.
Batch and rows fall apart into factors where the views need it: heads between the rows. What
is summed over stays one axis, cut by division where heads lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from itertools import product as product_of
from math import prod

from tvm import te, tirx
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import (
    HALF,
    Stages,
    dtype_of,
    is_empty,
    is_one,
    same_extents,
    shape_of,
)
from tvm_stitch.graph.front.decompose.view import (
    RESHAPES,
    Definition,
    Factor,
    View,
    refined,
)
from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUBLASLT

NAME = "matmul"
CHUNK = 8
"""Elements of a half that are loaded at once."""
ROWS_TO_TRANSPOSE_FOR = {"float32": 8}
"""Rows of a product from which on a copy of the weight pays whose columns are neighbours in memory.
TVM's kernels for float32 take longer by weights as linear layers have them: 317 us for 4096 x 768 x
768 on an H200, 263 and 3 for the copy otherwise. Of recurrent layers, a hundred products share a
copy that takes 5 us: one of 32 rows takes 25.9 us, by the copy 23.5, of 8 rows 12.6 and 11.5."""
TILE, FEW_TILES, LONG_DEPTH = 64, 66, 512
"""Of float32: the side of the library's tiles, how few of them leave half of a large device idle,
and the depth from which on that lasts longer than a copy. Of one matrix the library divides the
depth among blocks then, of a batch it does not: 2 products of 64 x 1536 x 768 took 50 us on an H200
where one of 128 rows takes 13, and their sums of 1536 in a row have twice the error."""
_SUMMED = "float32"
_SAMPLER = "grid_sampler"
_ADDED_UP = RESHAPES | {
    "relax.permute_dims", "relax.concat", "relax.astype", "relax.multiply", "relax.sum",
}  # fmt: skip
"""What happens to samples of several images on the way to their weighted sum."""


def product(call: Call, stage: Stages) -> Expr | None:
    """The call over what its operands are views of; None if there is nothing to gain."""
    left, right = call.args
    dtype, narrow = dtype_of(call), {*HALF, _SUMMED}
    if not {dtype, dtype_of(left), dtype_of(right)} <= narrow:
        return None
    in_place = _read_in_place(left, right, stage)
    if in_place is not None:
        result, shape = stage.cast(in_place, dtype), shape_of(call)
        return result if same_extents(shape_of(result), shape) else op.reshape(result, shape)
    if dtype != _SUMMED:
        return stage.result(dtype, op.matmul, left, right, out_dtype=_SUMMED)
    return None


def _read_in_place(left: Expr, right: Expr, stage: Stages) -> Expr | None:
    shapes = shape_of(left), shape_of(right)
    if min(map(len, shapes)) < 2 or any(map(is_empty, shapes)):
        return None
    for pair in product_of(*(list(_matrices(operand, stage)) for operand in (left, right))):
        form = _form(*pair)
        if form is not None and not (_is_better_transposed(form) or _is_better_joined(form)):
            sources, places = zip(*(form.laid_out(view, stage) for view in form.views), strict=True)
            extents = [factor.extent for factor in form.factors]
            return stage.compute(partial(form.computed, places), *sources, extents, name=NAME)
    return None


def _matrices(operand: Expr, stage: Stages) -> Iterator[View]:
    """What a product can read instead of an operand, the operand itself at last."""
    for view in (view.joined for view in stage.views(operand)):
        matrix = [factor for dim in view.dims[-2:] for factor in dim]
        if (
            view.source.same_as(operand)
            or (
                view.is_moved
                and all(factor in view.memory for factor in matrix)
                # Whole lines of memory are read along a row, a column or the contracted dimension.
                and set(view.memory[-1:]) <= set(matrix)
                and _lines_begin_at_vectors(view)
                and _has_equal_distances(view, stage.rounds)
                # A constant is transposed once, by the compiler.
                and not isinstance(stage.definition(view.source), GenericConst)
                and not _is_sampled(view.source, stage.definition)
            )
        ):
            yield view


def _is_sampled(value: Expr, definition: Definition) -> bool:
    """Whether elements are made of samples of images, as deformable attention has them.

    The kernel that samples is the one to transpose: where neighbouring threads are channels they
    load side by side, wherever the place is, where they are places each loads a line of its own.
    Deformable attention of 5440 queries by 4 points on 4 images took 424 to 505 us on an H200 where
    its result was written place by place.
    """
    pending, seen = [value], set[Call]()
    while pending:
        call = definition(pending.pop())
        if not isinstance(call, Call) or call in seen:
            continue
        seen.add(call)
        name = getattr(call.op, "name", "")
        if is_call_tir(call) and call.args[0].name_hint.startswith(_SAMPLER):
            return True
        if name in _ADDED_UP:
            pending.extend(call.args[0].fields if name == "relax.concat" else call.args[:2])
    return False


def _lines_begin_at_vectors(view: View) -> bool:
    """Whether lines of memory that are pieces of a row or column are loaded by vectors.

    Rows of a product in pieces of 7 x 7, as of images with channels first, would be loaded element
    by element: 784 x 768 x 3072 takes 124 us on an H200, and 13 by a copy.
    """
    (pieces,) = (dim for dim in view.dims[-2:] if view.memory[-1] in dim)
    if len(pieces) == 1 or dtype_of(view.source) not in HALF:
        return True
    extent = view.memory[-1].extent
    return not isinstance(extent, tirx.IntImm) or int(extent) % CHUNK == 0


def _has_equal_distances(view: View, rounds: bool) -> bool:
    """Whether the library, if it has the product, finds rows and columns at equal distances.

    Of two pieces it takes one as a batch; more, as of windows that are cut out of images, only
    kernels for halves read where they lie. TVM's for float32 took 41 us on an H200 for each of
    25088 x 96 x 96 and 1568 x 384 x 384, for which the library takes about 20. So it is with
    batches of more than two pieces, as where groups of heads share a factor: TVM's kernel took 1223
    us for 512 products of 256 x 128 x 256, which are predicted at 335. By TF32 the library is so
    much faster that all matrices of a batch have to be at equal distances: heads that lie side by
    side are copied, 4 us for 96 x 197 x 64, of which its products take 18, and TVM's 41 to 50.
    """
    if dtype_of(view.source) in HALF or shim.unusable(CUBLASLT) is not None:
        return True
    batch = [factor for dim in view.dims[:-2] for factor in dim]
    if rounds and len(_runs(batch, view.memory)) > 1:
        return False
    return len(batch) <= 2 and all(len(dim) <= 2 for dim in view.dims[-2:])


Run = tuple[Factor, ...]
"""The factors along a dimension in memory: several only if all are summed over, none if of one."""


@dataclass(frozen=True, eq=False)
class _Form:
    """A product of two views in common factors."""

    views: tuple[View, View]
    axes: tuple[Factor | None, ...]  # of the result; None: of one element
    summed: tuple[Factor, ...]

    def laid_out(self, view: View, stage: Stages) -> tuple[Expr, tuple[Run, ...]]:
        """A view's source in a shape that the form can index, and what lies along it."""
        runs = _runs(view.memory, self.summed)
        shape, extents = shape_of(view.source), [_size(run) for run in runs]
        if same_extents([extent for extent in shape if not is_one(extent)], extents):
            remaining = iter(runs)
            return view.source, tuple(() if is_one(e) else next(remaining) for e in shape)
        return stage.reshape(view.source, extents), tuple(runs)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All of them, each once."""
        return (*(factor for factor in self.axes if factor is not None), *self.summed)

    def computed(
        self,
        places: tuple[tuple[Run, ...], ...],
        left: te.Tensor,
        right: te.Tensor,
        extents: Sequence[Expr],
    ) -> te.Tensor:
        """The product in TE, of extents in symbols of its own, not those of the graph."""
        extent_of = dict(zip(self.factors, extents, strict=True))

        def size(run: Sequence[Factor]) -> Expr:
            return prod((extent_of[f] for f in run[1:]), start=extent_of[run[0]])

        along = te.reduce_axis((0, size(self.summed)), "k")

        def element(*axes: tirx.Var) -> Expr:
            of = dict(zip(self.axes, axes, strict=True))
            values = [
                tensor(*(self._index(run, of, along.var, size) for run in runs)).astype(_SUMMED)
                for tensor, runs in zip((left, right), places, strict=True)
            ]
            return te.sum(values[0] * values[1], axis=along)

        shape = [1 if factor is None else extent_of[factor] for factor in self.axes]
        return te.compute(shape, element, name=NAME)

    def _index(
        self,
        run: Run,
        of: dict[Factor | None, Expr],
        along: Expr,
        size: Callable[[Sequence[Factor]], Expr],
    ) -> Expr:
        if not run:
            return tirx.IntImm("int64", 0)
        if run[0] not in self.summed:
            return of[run[0]]
        first = self.summed.index(run[0])
        behind = self.summed[first + len(run) :]
        index = tirx.floordiv(along, size(behind)) if behind else along
        return tirx.floormod(index, size(run)) if first else index


def _is_better_transposed(form: _Form) -> bool:
    """Whether a kernel loses more by a transposed weight than transposing it takes."""
    left, right = form.views
    enough = ROWS_TO_TRANSPOSE_FOR.get(str(dtype_of(right.source)))
    if enough is None or not right.is_moved:
        return False
    if shim.unusable(CUBLASLT) is None:  # it reads either as fast
        return False
    is_weight = set(right.memory) <= {*right.dims[-2], *right.dims[-1]}
    by_depth = right.memory[-1] in right.dims[-2]
    rows = prod(factor.extent for factor in form.axes if factor in left.memory)
    is_known = isinstance(rows, (int, tirx.IntImm))
    return is_weight and by_depth and is_known and int(rows) >= enough


def _is_better_joined(form: _Form) -> bool:
    """Whether the library loses more by a batch of matrices than making one of them takes."""
    left, right = form.views
    if dtype_of(left.source) in HALF or shim.unusable(CUBLASLT) is not None:
        return False
    if set(left.memory) & set(right.memory) - set(form.summed):
        return False  # they would be a batch anyhow
    sides = [
        _runs([factor for factor in form.axes if factor in view.memory], view.memory)
        for view in form.views
    ]
    sizes = [[_size(run) for run in runs] for runs in (*sides, [form.summed])]
    if not all(isinstance(size, int | tirx.IntImm) for each in sizes for size in each):
        return False
    rows, columns, (depth,) = ([int(size) for size in each] or [1] for each in sizes)
    tiles = prod(-(-max(side) // TILE) * (prod(side) // max(side)) for side in (rows, columns))
    return max(len(rows), len(columns)) > 1 and depth >= LONG_DEPTH and tiles < FEW_TILES


def _runs(factors: Sequence[Factor], neighbours: Sequence[Factor]) -> list[Run]:
    """The factors, those together that follow each other among the neighbours too."""
    runs: list[Run] = []
    following = dict(pairwise(neighbours))
    for factor in factors:
        if runs and following.get(runs[-1][-1]) is factor:
            runs[-1] += (factor,)
        else:
            runs.append((factor,))
    return runs


def _size(factors: Sequence[Factor]) -> Expr:
    return prod((factor.extent for factor in factors[1:]), start=factors[0].extent)


def _form(left: View, right: View) -> _Form | None:
    """None: there are no common factors, or there is nothing to gain."""
    # One tensor as both factors: TVM's schedules of products want two.
    if left.source.same_as(right.source) or not (left.is_moved or right.is_moved):
        return None
    for dim, other in ((left.dims[-1], right.dims[-2]), *_batch(left, right)):
        if dim and other:
            common = refined([f.extent for f in dim], [f.extent for f in other])
            if common is None:
                return None
            left = left.divided(dict(zip(dim, common[0], strict=True)))
            right = right.divided(dict(zip(other, common[1], strict=True)))
    batch = _batch(left, right)
    axes: list[Factor | None] = [factor for dim, other in batch for factor in dim or other]
    for dim in (left.dims[-2], right.dims[-1]):
        axes.extend(dim or (None,))
    summed = left.dims[-1]
    if len(summed) == 1 or (summed and _in_chunks(left, right, summed)):
        return _Form((left, right), tuple(axes), summed)
    return None


def _batch(left: View, right: View) -> list[tuple[Run, Run]]:
    """The factors of both along each dimension of the batch, outermost first."""
    return list(zip_longest(left.dims[-3::-1], right.dims[-3::-1], fillvalue=()))[::-1]


def _in_chunks(left: View, right: View, summed: Sequence[Factor]) -> bool:
    """Whether tensor cores can be fed with a sum over several dimensions in memory.

    Where neighbours along an outer one are neighbours in memory, as of weights that have their taps
    innermost for windows that have their channels so, each element would be a load of its own.
    """
    inner = summed[-1].extent
    return (
        {dtype_of(view.source) for view in (left, right)} <= HALF
        and all(view.memory[-1] not in summed[:-1] for view in (left, right))
        and all(isinstance(factor.extent, tirx.IntImm) for factor in summed)
        and int(inner) % CHUNK == 0
    )
