"""Updates that the same indices send to rows again and again are sorted by these rows once.

In: a Relax module, before LegalizeOps; who makes the kernel that sorts. Out: the same; several
calls of scatter_nd with the same indices, as a network over a graph has one for each layer and each
step of its attention, become a call of that kernel and TIR in which every row has a range of places
in the order that it finds (stages/patterns/scattered_reduction sees it). Otherwise each kernel
looks through all indices by itself. Knows no kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.dataflow import mutated, name_of, operators_of
from tvm_stitch.graph.front.decompose.stages import numbers_of, shape_of
from tvm_stitch.graph.front.scattered.scatter_nd import REDUCTIONS, of_rows, stitches
from tvm_stitch.stages.indices import unraveled
from tvm_stitch.stages.stage import Expr, as_int64, constant, dtype_of

# Fewer are listed by every block in no time; of more, rows that many of them go to want all blocks,
# which those have that look through the indices themselves.
FEWEST, MOST = 1 << 11, 1 << 17
SEVERAL = 2
_SCATTER = "scatter_nd"
_INT32 = "int32"
_OPAQUE = 8

Sorting = Callable[[int, int, str], tirx.PrimFunc]
"""A kernel that sorts so many updates by so many rows, which indices of a type name."""


def SortedUpdates(sorting: Sorting) -> tvm.transform.Pass:
    """The pass over Relax functions."""

    @tvm.transform.module_pass(opt_level=0, name="SortedUpdates")
    def sorted_updates(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if _SCATTER not in operators_of(mod.functions.values()):
            return mod
        found: Counter[_Sent] = Counter()
        for function in mod.functions.values():
            if isinstance(function, relax.Function):
                relax.analysis.post_order_visit(function, partial(_count, found))
        wanted = {sent for sent, calls in found.items() if calls >= SEVERAL}
        return mutated(mod, _Sorting(mod, wanted, sorting)) if wanted else mod

    return sorted_updates


@dataclass(frozen=True)
class _Sent:
    """Indices, which name the rows of a table of so many."""

    indices: relax.Var
    count: int
    rows: int
    places: tuple[Expr, ...] = field(compare=False)

    @staticmethod
    def of(call: Call) -> _Sent | None:
        """Those of a call, if they are of one number each and their number is known."""
        data, indices, _updates = call.args
        extents = numbers_of(data)
        shape = shape_of(indices)
        known = [constant(as_int64(extent)) for extent in shape]
        if extents is None or None in known or known[-1] != 1:
            return None
        count, columns = 1, 1
        for each in known:
            count *= each or 0
        for each in extents[1:]:
            columns *= each
        if not isinstance(indices, relax.Var) or str(call.attrs.reduction) not in REDUCTIONS:
            return None
        if not FEWEST <= count <= MOST or not stitches(dtype_of(data), extents[0], columns):
            return None
        return _Sent(indices, count, extents[0], tuple(shape[:-1]))


def _count(found: Counter[_Sent], value: Expr) -> None:
    if name_of(value) == _SCATTER:
        sent = _Sent.of(value)
        if sent is not None:
            found[sent] += 1


@relax.expr_functor.mutator
class _Sorting(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, wanted: set[_Sent], sorting: Sorting) -> None:
        super().__init__(mod)
        self.wanted, self.sorting = wanted, sorting
        self.lists: dict[_Sent, tuple[Expr, ...]] = {}

    def visit_call_(self, call: Call) -> Expr:
        """A call whose updates have been sorted, or are now."""
        sent = _Sent.of(call) if name_of(call) == _SCATTER else None
        if sent is None or sent not in self.wanted:
            return super().visit_call_(call)
        data, indices, updates = map(self.visit_expr, call.args)
        if sent not in self.lists:
            self.lists[sent] = self._sorted(sent, indices)
        what = partial(_scattered, sent.places, str(call.attrs.reduction))
        return self.builder_.call_te(
            what, data, *self.lists[sent], updates, primfunc_name_hint=_SCATTER
        )

    def _sorted(self, sent: _Sent, indices: Expr) -> tuple[Expr, ...]:
        """The order of updates, of each row the first place and the one behind its last."""
        emit, flat = self.builder_.emit, relax.op.reshape(indices, [sent.count])
        kernel = self.sorting(sent.count, sent.rows, dtype_of(indices))
        kernel = kernel.with_attr("op_pattern", _OPAQUE)  # nothing is fused with what is scheduled
        name = self.builder_.add_func(kernel, "sort_by_row")
        sizes = sent.count, sent.rows, sent.rows
        types = [relax.TensorType([size], _INT32) for size in sizes]
        lists = emit(relax.op.call_tir(name, [emit(flat)], types))
        return tuple(emit(relax.TupleGetItem(lists, number)) for number in range(len(sizes)))


def _scattered(
    places: tuple[Expr, ...],
    reduction: str,
    data: te.Tensor,
    order: te.Tensor,
    first: te.Tensor,
    last: te.Tensor,
    updates: te.Tensor,
) -> te.Tensor:
    """A table, and what its rows' ranges of places have; halves in float32."""
    place = te.reduce_axis((0, order.shape[0]), "place")

    def sent(at: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        own = unraveled(order(place).astype("int64"), places)
        after = tirx.LE(first(at[0]).astype("int64"), place.var)
        before = tirx.LT(place.var, last(at[0]).astype("int64"))
        return tirx.And(after, before), updates(*own, *at[1:])

    return of_rows(data, place, sent, reduction)
