"""Scans and extremes that need no scheduled kernels of TVM's, as what kernels of rows hold.

In: Relax functions, before TVM's dispatch makes kernels of scans and sorts. Out: the same, where
cumsum and cumprod along the last axis are calls of TIR in which a scan is a reduction of the
elements up to each (kernel/ir/scan_pattern sees it), or from each on if it stands between two
flips, and topk of one is a maximum and its position, and pooling between permutations of its
channels is pooling with channels last. What is scanned along another axis is transposed before and
behind: two kernels more at most, where TVM launches six for each scan.
A few rows too long for a block to keep are left to TVM, which has many blocks for each. Knows no
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import tvm
from tvm import relax, te, tirx, topi
from tvm.ir import Call
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import name_of, operators_of
from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, dtype_of, has_shape, shape_of
from tvm_stitch.graph.front.functions.unused import without_unused
from tvm_stitch.stages.stage import constant

Expr = Any
# What a block keeps in registers with what belongs to it, 32 values of four bytes a thread.
LONGEST = 1 << 14
MANY_ROWS = 32  # so long that one block scans each of them, chunk by chunk
SCANS = {"cumsum": "sum", "cumprod": "prod"}
_TOPK, _FLIP = "topk", "flip"
_PERMUTE, _TO_FIRST, _TO_LAST = "permute_dims", [0, 3, 1, 2], [0, 2, 3, 1]
_POOLS = {
    "nn.avg_pool2d": op.nn.avg_pool2d,
    "nn.max_pool2d": op.nn.max_pool2d,
}
_CONCERNED = frozenset((*SCANS, *_POOLS, _TOPK))
_WIDTHS = {"int32": 4, "int64": 8, **dict.fromkeys(ACCUMULATORS, 4)}


def Undispatched() -> tvm.transform.Pass:
    """The pass over Relax functions."""

    @tvm.transform.module_pass(opt_level=0, name="Undispatched")
    def undispatched(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        rewritten = _Rewritten(mod)
        for var, function in mod.functions_items():
            if not _CONCERNED.isdisjoint(operators_of([function])):
                rewritten.values = relax.analysis.get_var2val(function)
                found = without_unused(rewritten.visit_expr(function))
                rewritten.builder_.update_func(var, found)
        return rewritten.builder_.get()

    return undispatched


@relax.expr_functor.mutator
class _Rewritten(relax.PyExprMutator):
    values: Any = None  # what variables of the function stood for

    def visit_call_(self, call: Call) -> Expr:
        name, from_end = name_of(call), False
        if name == _FLIP:
            scan = self._flipped(call)
            if scan is None:
                return super().visit_call_(call)
            name, call, from_end = name_of(scan), scan, True
        if name == _TOPK and int(call.attrs.k) == 1:
            return self._extreme(call)
        if name == _PERMUTE and _axes(call) == _TO_LAST:
            pooled = self._pooled_last(call)
            return super().visit_call_(call) if pooled is None else pooled
        axis = _scanned_axis(call) if name in SCANS else None
        if axis is None:
            return super().visit_call_(call)
        dtype, combiner = str(dtype_of(call)), SCANS[name]

        def compute(data: te.Tensor) -> te.Tensor:
            return running(data, combiner, dtype, from_end)

        source = self._value(call.args[0]).args[0] if from_end else call.args[0]
        data = self.visit_expr(source)
        rank = len(shape_of(call))
        if axis == rank - 1:
            return self.builder_.call_te(compute, data, primfunc_name_hint=name)
        to_last = [*range(axis), *range(axis + 1, rank), axis]
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        rows = self.builder_.emit(op.permute_dims(data, to_last))
        totals = self.builder_.emit(self.builder_.call_te(compute, rows, primfunc_name_hint=name))
        return op.permute_dims(totals, back)

    def _value(self, value: Expr) -> Expr:
        """What a variable stands for in the function as it was."""
        return self.values.get(value) if isinstance(value, relax.Var) else value

    def _flipped(self, flip: Call) -> Call | None:
        """The scan between two flips of the same axis, as the gradient of another one is."""
        scan = self._value(flip.args[0])
        scanned = _scanned_axis(scan) if name_of(scan) in SCANS else None
        if scanned is None:
            return None
        before = self._value(scan.args[0])
        if name_of(before) != _FLIP:
            return None
        rank = len(shape_of(scan.args[0]))
        axes = {int(each.attrs.axis) % rank for each in (flip, before)}
        return scan if axes == {scanned} else None

    def _pooled_last(self, call: Call) -> Expr | None:
        """Pooling between two permutations, with channels last as its input and its user have."""
        pool = self._bound(self.visit_expr(call.args[0]))
        if pool is None or name_of(pool) not in _POOLS or pool.attrs.layout != "NCHW":
            return None
        before = self._bound(pool.args[0])
        if before is None or name_of(before) != _PERMUTE or _axes(before) != _TO_FIRST:
            return None
        attributes = pool.attrs
        return _POOLS[name_of(pool)](
            before.args[0],
            list(attributes.pool_size),
            list(attributes.strides),
            list(attributes.padding),
            list(attributes.dilation),
            bool(attributes.ceil_mode),
            bool(attributes.count_include_pad),
            layout="NHWC",
            out_layout="NHWC",
        )

    def _bound(self, value: Expr) -> Call | None:
        """The call of an operator that a value stands for, under any name or as a tuple's field."""
        while isinstance(value, relax.Var | relax.TupleGetItem):
            if isinstance(value, relax.Var):
                value = self.lookup_binding(value)
                continue
            whole = value.tuple_value
            if isinstance(whole, relax.Var):
                whole = self.lookup_binding(whole)
            value = whole.fields[value.index] if isinstance(whole, relax.Tuple) else None
        return value if name_of(value) else None

    def _extreme(self, call: Call) -> Expr:
        """The first of the largest, or smallest, and where it stands."""
        data, attributes = self.visit_expr(call.args[0]), call.attrs
        axis, largest = int(attributes.axis), bool(attributes.largest)
        extreme, position = (op.max, op.argmax) if largest else (op.min, op.argmin)
        found = []
        if attributes.ret_type in ("both", "values"):
            found.append(self.builder_.emit(extreme(data, axis, keepdims=True)))
        if attributes.ret_type in ("both", "indices"):
            index = self.builder_.emit(position(data, axis, keepdims=True))
            dtype = str(attributes.dtype)
            same = dtype == dtype_of(index)
            found.append(index if same else self.builder_.emit(op.astype(index, dtype)))
        return relax.Tuple(found) if len(found) > 1 else found[0]


def _axes(call: Call) -> list[int]:
    """The axes of a permutation."""
    return [] if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]


def _scanned_axis(call: Call) -> int | None:
    """The axis of a scan whose rows a block can keep."""
    data, attributes = call.args[0], call.attrs
    if attributes.axis is None or bool(attributes.exclusive) or not has_shape(data):
        return None
    shape = [constant(extent) for extent in shape_of(data)]  # of rows there may be any number
    axis = int(attributes.axis) % len(shape)
    dtypes = {str(dtype_of(data)), str(dtype_of(call))}
    if 0 in shape or not dtypes <= set(_WIDTHS) or "float64" in dtypes:
        return None
    return axis if scans_rows(shape, axis, dtypes) else None


def scans_rows(shape: Sequence[int | None], axis: int, dtypes: Iterable[str]) -> bool:
    """Whether blocks scan rows along an axis of such a tensor, of these types; None: any extent.

    Rows that a block keeps, or chunk by chunk: longer ones if they are many, and of any length.
    """
    columns, *others = shape[axis], *shape[:axis], *shape[axis + 1 :]
    width = max(_WIDTHS.get(dtype, 4) for dtype in dtypes)
    if columns is None or columns * width <= LONGEST * _WIDTHS["float32"]:
        return True
    return None in others or math.prod(filter(None, others)) >= MANY_ROWS


def running(data: te.Tensor, combiner: str, dtype: str, from_end: bool = False) -> te.Tensor:
    """Each element along the last axis combined with all before it, or with all behind it; halves
    in float32."""
    wide = ACCUMULATORS.get(dtype, dtype)
    inside = te.reduce_axis((0, data.shape[-1]), "inside")
    nothing = tirx.const(0 if combiner == "sum" else 1, wide)

    def total(*at: Expr) -> Expr:
        value = data(*at[:-1], inside.var).astype(wide)
        counts = at[-1] <= inside.var if from_end else inside.var <= at[-1]
        upto = tirx.Select(counts, value, nothing)
        return te.sum(upto, axis=inside) if combiner == "sum" else _product(upto, axis=inside)

    totals = te.compute(data.shape, total, name="running")
    return (
        topi.cast(totals, dtype)
        if wide != dtype
        else te.compute(data.shape, lambda *at: totals(*at), name="totals")
    )


_product = te.comm_reducer(
    lambda left, right: left * right, lambda dtype: tirx.const(1, dtype), name="product"
)
