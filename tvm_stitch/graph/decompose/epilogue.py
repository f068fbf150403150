"""Reshapes behind a matrix product go behind the element-wise operators that follow it.

In: a call and how to look up what its operands are bound to. Out: the call on what was there before
the reshape, so that a kernel that computes the product can compute it as well: TVM ends such a
kernel at a reshape, though there is nothing to compute. Must not know products.
"""

from __future__ import annotations

from tvm.ir import Call, Expr

from tvm_stitch.graph.decompose.stages import has_shape, rank_of, same_extents, shape_of

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


def on_reshaped(call: Call, operand: Expr, base: Expr) -> Call | None:
    """An element-wise call on what its operand is a reshape of; None where it needs the new shape.

    Other operands may have the innermost dimensions that both shapes share.
    """
    if not all(map(has_shape, (call, base, *call.args))):
        return None
    if not same_extents(shape_of(call), shape_of(operand)):
        return None
    others = [argument for argument in call.args if not argument.same_as(operand)]
    depth = max(map(rank_of, others), default=0)
    inner = [shape_of(seen)[max(0, rank_of(seen) - depth) :] for seen in (base, operand)]
    if depth and not (len(inner[0]) == depth and same_extents(*inner)):
        return None
    arguments = [base if argument.same_as(operand) else argument for argument in call.args]
    return Call(call.op, arguments, call.attrs, call.ty_args)
