"""A softmax along the last dimension, as Relax's operator or written out.

In: a binding. Out: what it is the softmax of. Knows no attention.
"""

from __future__ import annotations

from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.decompose.stages import number_of, numbers_of


def softmax_argument(
    binding: relax.VarBinding, bindings: Bindings
) -> tuple[Expr, tuple[relax.Var, ...]] | None:
    """What a binding is the softmax of, and the variables between."""
    whole = bindings.call(binding.var, "nn.softmax")
    if whole is not None:
        rank = len(numbers_of(binding.var) or ())
        return (whole.args[0], ()) if int(whole.attrs.axis) in (-1, rank - 1) else None
    quotient = bindings.call(binding.var, "divide")
    if quotient is None:
        return None
    powers, divisor = quotient.args
    sums, between = _nonzero(divisor, bindings)
    exp, total = bindings.call(powers, "exp"), bindings.call(sums, "sum")
    below = None if exp is None else bindings.call(exp.args[0], "subtract")
    if exp is None or below is None or total is None or not _along_last(total, powers):
        return None
    value, most = below.args
    highest = bindings.call(most, "max")
    if highest is None or not _along_last(highest, value):
        return None
    return value, (most, exp.args[0], powers, sums, *between)


def _nonzero(divisor: Expr, bindings: Bindings) -> tuple[Expr, tuple[relax.Var, ...]]:
    """The sum behind a divisor that is 1 where it is 0, of rows that see no key; and what is
    between."""
    chosen = bindings.call(divisor, "where")
    if chosen is None:
        return divisor, ()
    condition, one, sums = chosen.args
    is_zero = bindings.call(condition, "equal")
    if is_zero is None or number_of(one) != 1 or number_of(is_zero.args[1]) != 0:
        return divisor, ()
    return (sums, (condition, divisor)) if is_zero.args[0].same_as(sums) else (divisor, ())


def _along_last(call: Call, of: Expr) -> bool:
    """Whether a reduction is of this tensor, along its last dimension, which it keeps."""
    shape, axis = numbers_of(of), call.attrs.axis
    if shape is None or not call.args[0].same_as(of) or not call.attrs.keepdims or axis is None:
        return False
    return [int(each) % len(shape) for each in axis] == [len(shape) - 1]
