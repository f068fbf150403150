"""Matrix products: halves are summed in float32, and rounded once after the bias.

Integers are summed in their own type, as PyTorch has them.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call as TvmCall

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, dims, dtype, rank, wide
from tvm_stitch.frontend.torch.dtypes import HALVES
from tvm_stitch.stages.patterns.ragged_product import of_own_group

_op = relax.op
_SUMS = "float32"
_CAST, _TURN = (tvm.ir.Op.get(f"relax.{name}") for name in ("astype", "permute_dims"))


def is_outer(summed: Any) -> bool:
    """Whether a product of so deep factors sums nothing up: columns times rows, element-wise."""
    return isinstance(summed, (int, tirx.IntImm)) and int(summed) == 1


def _summed(call: Call, left: Expr, right: Expr) -> Expr:
    """The product, in the type that it is summed in."""
    if call.dtype == "bool":
        raise TorchError("products of booleans")
    if is_outer(left.ty.shape[-1]):
        return call.emit(_op.multiply(call.wide(left), call.wide(right)))
    halves = [_half(call, factor) for factor in (left, right)]
    if None not in halves and dtype(halves[0]) == dtype(halves[1]):
        left, right = halves
    return call.emit(_op.matmul(left, right, wide(call.dtype)))


def _half(call: Call, factor: Expr) -> Expr | None:
    """What a factor was before it was widened: products of halves are exact in float32."""
    made = call.builder.lookup_binding(factor) if isinstance(factor, relax.Var) else None
    if not isinstance(made, TvmCall) or dtype(factor) != "float32":
        return None
    source = made.args[0]
    if made.op == _CAST:
        return source if dtype(source) in HALVES else None
    half = _half(call, source) if made.op == _TURN else None
    return None if half is None else call.emit(_op.permute_dims(half, made.attrs.axes))


def _product(call: Call, left: Expr, right: Expr) -> Expr:
    return call.cast(_summed(call, left, right), call.dtype)


def _times(call: Call, x: Expr, factor: Number) -> Expr:
    if isinstance(factor, (int, float)) and factor == 1:
        return x
    return call.emit(_op.multiply(x, call.number(factor, wide(call.dtype))))


def _biased(
    call: Call, bias: Expr, left: Expr, right: Expr, *, beta: Number = 1, alpha: Number = 1
) -> Expr:
    """beta * bias + alpha * product; a beta of 0 takes no notice of the bias."""
    result = _times(call, _summed(call, left, right), alpha)
    if not (isinstance(beta, (int, float)) and beta == 0):
        result = call.emit(_op.add(result, _times(call, call.wide(bias), beta)))
    return call.cast(result, call.dtype)


def _ragged(
    call: Call,
    x: Expr,
    matrices: Expr,
    ends: Expr | None = None,
    bias: Expr | None = None,
    out_dtype: Any = None,
) -> Expr:
    """Groups of rows, one behind the other, each by a matrix of its own, as experts have."""
    if rank(x) != 2 or rank(matrices) != 3 or ends is None:
        raise TorchError("groups of matrices or of columns")
    if bias is not None or dtype(x) not in HALVES:
        raise TorchError("groups of rows with a bias, or not of halves")
    turned = _turned(call, matrices)
    groups, depth, columns = dims(matrices)
    if not isinstance(groups, int) or not isinstance(depth, int) or not isinstance(columns, int):
        raise TorchError("groups of rows by matrices of sizes that change")
    source, along = (matrices, False) if turned is None else (turned, True)

    def body(rows: te.Tensor, weights: te.Tensor, last: te.Tensor) -> te.Tensor:
        group, k = te.reduce_axis((0, groups), "group"), te.reduce_axis((0, depth), "k")

        def element(row: Any, column: Any) -> Any:
            weight = weights(group, column, k) if along else weights(group, k, column)
            value = rows(row, k).astype(_SUMS) * weight.astype(_SUMS)
            return te.sum(of_own_group(value, row, group.var, last), [group, k])

        return te.compute(call.shape, element, name="ragged")

    return call.cast(call.te(body, x, source, ends, name="ragged_product"), call.dtype)


def _turned(call: Call, matrices: Expr) -> Expr | None:
    """What a transpose of each matrix was made of: its own order in memory is as good."""
    made = call.builder.lookup_binding(matrices) if isinstance(matrices, relax.Var) else None
    if not isinstance(made, TvmCall) or made.op != _TURN:
        return None
    order = [int(axis) for axis in made.attrs.axes]
    return made.args[0] if order == [0, 2, 1] else None


OPERATORS: dict[str, Converter] = {
    "addmm": _biased,
    "baddbmm": _biased,
    "bmm": _product,
    "mm": _product,
}
PRODUCTS = frozenset(OPERATORS)
RAGGED: dict[str, Converter] = {"_grouped_mm": _ragged}
