"""Elements taken at positions that are known to be inside, without TVM's warning of the others.

In: a call of relax.take. Out: its TIR, for LegalizeOps: what TVM makes of mode "fast", which warns
of every such call, on standard error, that positions outside would be followed. Readers of models
have them checked before.
"""

from __future__ import annotations

from tvm import relax, te
from tvm.ir import Call, Expr

FAST = "fast"


def legalize_take(builder: relax.BlockBuilder, call: Call) -> Expr:
    """A gather along one axis; what TVM makes of it elsewhere."""
    axis, positions = call.attrs.axis, call.args[1]
    if (
        str(call.attrs.mode) != FAST
        or axis is None
        or not isinstance(positions.ty, relax.TensorType)
    ):
        return call.op.get_attr("FLegalize")(builder, call)

    def taken(data: te.Tensor, at: te.Tensor) -> te.Tensor:
        first = int(axis) % len(data.shape)
        last = first + len(at.shape)

        def element(*place: Expr) -> Expr:
            return data(*place[:first], at(*place[first:last]), *place[last:])

        shape = [*data.shape[:first], *at.shape, *data.shape[first + 1 :]]
        return te.compute(shape, element, name="T_take", tag="injective")

    return builder.call_te(taken, *call.args, primfunc_name_hint="take")
