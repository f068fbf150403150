"""Reshapes behind a matrix product go behind the element-wise operators that follow it.

In: a call and how to look up what its operands are bound to. Out: the call on what was there before
the reshape, so that a kernel that computes the product can compute it as well: TVM ends such a
kernel at a reshape, though there is nothing to compute. Must not know products.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import has_shape, rank_of, same_extents, shape_of
from tvm_stitch.graph.front.decompose.view import Definition, before_reshapes

_UNARY = frozenset(
    f"relax.{name}"
    for name in (
        "abs", "astype", "cos", "erf", "exp", "log", "negative", "rsqrt", "sigmoid", "sin",
        "sqrt", "square", "tanh", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.selu",
        "nn.silu", "nn.softplus",
    )
)  # fmt: skip
_BINARY = frozenset(
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
)
ELEMENTWISE = _UNARY | _BINARY


def on_reshaped(call: Call, operand: Expr, base: Expr, definition: Definition) -> Call | None:
    """An element-wise call on what its operand is a reshape of; None where it needs the new shape.

    Other operands may be reshaped as that one is, or have the innermost dimensions that both share.
    """
    if not all(map(has_shape, (call, base, *call.args))):
        return None
    before, after = shape_of(base), shape_of(operand)
    if not same_extents(shape_of(call), after):
        return None
    arguments = []
    for argument in call.args:
        earlier = before_reshapes(argument, definition)
        if same_extents(shape_of(argument), after) and same_extents(shape_of(earlier), before):
            arguments.append(earlier)
        elif _share(before, after, rank_of(argument)):
            arguments.append(argument)
        else:
            return None
    return Call(call.op, arguments, call.attrs, call.ty_args)


def _share(first: Sequence[Expr], second: Sequence[Expr], depth: int) -> bool:
    """Whether two shapes agree in their innermost dimensions."""
    if not depth:
        return True
    return min(len(first), len(second)) >= depth and same_extents(first[-depth:], second[-depth:])
