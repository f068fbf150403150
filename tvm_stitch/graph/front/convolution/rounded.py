"""Convolutions of halves that are stored as float32 and rounded right behind: stored as halves.

In: a dataflow block. Out: the same, each such convolution with the halves' type and nothing behind
it. cuDNN sums in float32 and rounds once, as the cast does.
"""

from __future__ import annotations

from tvm import relax
from tvm.ir import Call

from tvm_stitch.graph.front.convolution.choose import is_convolution
from tvm_stitch.graph.front.dataflow import only_readers
from tvm_stitch.graph.front.decompose.stages import HALF, dtype_of, has_shape

CAST = "relax.astype"
_FIELDS = (
    "strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout",
)  # fmt: skip


def rounded_at_once(block: relax.DataflowBlock) -> relax.DataflowBlock:
    """The block, its convolutions of halves without casts behind them where these round."""
    readers = only_readers(block.bindings)
    changed: dict[relax.Var, relax.VarBinding] = {}
    gone: set[relax.Var] = set()
    for binding in block.bindings:
        cast = readers.get(binding.var)
        if cast is not None and _is_rounded(binding.value, cast.value):
            value = _stored_as(binding.value, dtype_of(cast.var))
            changed[cast.var] = relax.VarBinding(cast.var, value)
            gone.add(binding.var)
    bindings = [changed.get(each.var, each) for each in block.bindings if each.var not in gone]
    return relax.DataflowBlock(bindings)


def _is_rounded(value: relax.Expr, cast: relax.Expr) -> bool:
    """Whether a convolution of halves is wider than these, and a cast to them is behind it."""
    if not is_convolution(value) or getattr(getattr(cast, "op", None), "name", "") != CAST:
        return False
    dtypes = {dtype_of(each) for each in value.args[:2]}
    return (
        has_shape(value)
        and dtype_of(value) == "float32"
        and dtypes == {dtype_of(cast)}
        and dtypes <= HALF
    )


def _stored_as(call: Call, dtype: str | None) -> Call:
    """The convolution with another type of its result."""
    name = call.op.name.rpartition(".")[2]
    fields = (*_FIELDS, "output_padding") if name.endswith("transpose") else _FIELDS
    stated = {field: getattr(call.attrs, field) for field in fields}
    made = getattr(relax.op.nn, name)(*call.args[:2], **stated, out_dtype=dtype)
    return relax.BlockBuilder().normalize(made)
