"""Updates that the same indices send to rows again and again are sorted by these rows once.

In: a Relax module, before LegalizeOps; who makes the kernel that sorts. Out: the same; several
calls of scatter_nd with the same indices, as a network over a graph has one for each layer and each
step of its attention, become a call of that kernel and TIR in which every row has a range of places
in the order that it finds (stages/patterns/scattered_reduction sees it). Otherwise each kernel
looks through all indices by itself. Knows no kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.dataflow import mutated, name_of, operators_of, unfused
from tvm_stitch.graph.front.decompose.stages import has_shape, numbers_of, shape_of
from tvm_stitch.graph.front.scattered.scatter_nd import REDUCTIONS, of_rows, stitches
from tvm_stitch.stages.indices import unraveled
from tvm_stitch.stages.stage import Expr, dtype_of

# Fewer are listed by every block in no time; of more, rows that many of them go to want all blocks,
# which those have that look through the indices themselves.
FEWEST, MOST = 1 << 11, 1 << 17
# Calls with the same indices, and of all that are sorted: on an H200 a sort of 40000 updates takes
# 17 us, and each call 5 to 8 less.
SEVERAL, FEWEST_CALLS = 2, 4
# Operators that compute indices, up to which they come first in a block: sorts stand together then.
MOST_BEFORE = 8
_SCATTER = "scatter_nd"
_INT32 = "int32"

Sorting = Callable[[Sequence[tuple[int, int, str]]], tirx.PrimFunc]
"""A kernel that sorts: so many updates, by so many rows, which indices of a type name."""


def SortOnce(sorting: Sorting) -> tvm.transform.Pass:
    """The pass over Relax functions."""

    @tvm.transform.module_pass(opt_level=0, name="SortOnce")
    def sort_once(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if _SCATTER not in operators_of(mod.functions.values()):
            return mod
        return mutated(mod, _Sorting(mod, sorting))

    return sort_once


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
        data, indices, updates = call.args
        if str(call.attrs.reduction) not in REDUCTIONS or not isinstance(indices, relax.Var):
            return None
        extents, places = (numbers_of(each) for each in (data, indices))
        if extents is None or places is None or places[-1] != 1 or not has_shape(updates):
            return None
        count, (rows, *columns) = prod(places), extents
        if not FEWEST <= count <= MOST or not stitches(dtype_of(data), rows, prod(columns)):
            return None
        return _Sent(indices, count, rows, tuple(shape_of(indices)[:-1]))


@relax.expr_functor.mutator
class _Sorting(relax.PyExprMutator):
    """Sorts stand where the first result is read, with all others that may stand there."""

    def __init__(self, mod: tvm.IRModule, sorting: Sorting) -> None:
        super().__init__(mod)
        self.sorting = sorting
        self.wanted: set[_Sent] = set()  # of the dataflow block, and not sorted yet
        self.lists: dict[_Sent, tuple[Expr, ...]] = {}
        self.known: set[relax.Var] = set()  # what has been computed

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.BindingBlock:
        """Every block sorts for itself."""
        calls = [_Sent.of(b.value) for b in block.bindings if name_of(b.value) == _SCATTER]
        found = Counter(sent for sent in calls if sent is not None)
        several = {sent: number for sent, number in found.items() if number >= SEVERAL}
        self.wanted = set(several) if sum(several.values()) >= FEWEST_CALLS else set()
        computed = {binding.var for binding in block.bindings}
        self.known = {sent.indices for sent in self.wanted} - computed
        self.lists = {}
        return super().visit_dataflow_block_(_indices_first(block, self.wanted))

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """What is computed may be sorted from here on."""
        super().visit_var_binding_(binding)
        self.known.add(binding.var)

    def visit_call_(self, call: Call) -> Expr:
        """A call whose updates have been sorted, or are now."""
        sent = _Sent.of(call) if name_of(call) == _SCATTER else None
        if sent in self.wanted:
            self._sort([each for each in self.wanted if each.indices in self.known])
        if sent is None or sent not in self.lists:
            return super().visit_call_(call)
        data, _indices, updates = map(self.visit_expr, call.args)
        what = partial(_scattered, sent.places, str(call.attrs.reduction))
        return self.builder_.call_te(
            what, data, *self.lists[sent], updates, primfunc_name_hint=_SCATTER
        )

    def _sort(self, together: list[_Sent]) -> None:
        """Note of each the order of updates, every row's first place and that behind its last."""
        together.sort(key=lambda sent: (sent.count, sent.rows, sent.indices.name))
        emit = self.builder_.emit
        flat = [
            emit(relax.op.reshape(self.visit_expr(sent.indices), [sent.count])) for sent in together
        ]
        kernel = self.sorting([(s.count, s.rows, dtype_of(s.indices)) for s in together])
        name = self.builder_.add_func(unfused(kernel), "sort_by_row")
        sizes = [size for sent in together for size in (sent.count, sent.rows, sent.rows)]
        types = [relax.TensorType([size], _INT32) for size in sizes]
        results = emit(relax.op.call_tir(name, flat, types))
        lists = [emit(relax.TupleGetItem(results, number)) for number in range(len(sizes))]
        for number, sent in enumerate(together):
            self.lists[sent] = tuple(lists[3 * number : 3 * number + 3])
        self.wanted -= set(together)


def _indices_first(block: relax.DataflowBlock, wanted: Iterable[_Sent]) -> relax.DataflowBlock:
    """The block, which begins with indices that little computes."""
    bindings = {binding.var: binding for binding in block.bindings}
    first: set[relax.Var] = set()
    for sent in wanted:
        own, left = set[relax.Var](), [sent.indices]
        while left and len(own) <= MOST_BEFORE:
            var = left.pop()
            if var in bindings and var not in own:
                own.add(var)
                left.extend(relax.analysis.free_vars(bindings[var].value))
        if not left and len(own) <= MOST_BEFORE:
            first |= own
    early = [binding for binding in block.bindings if binding.var in first]
    return relax.DataflowBlock([*early, *(b for b in block.bindings if b.var not in first)])


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
