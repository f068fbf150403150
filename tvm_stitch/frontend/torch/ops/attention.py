"""Attention as one operator of Relax, of which cuDNN computes what it is faster at."""

from __future__ import annotations

from tvm import relax

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, dims, dtype

_op = relax.op
_TO_ROWS = (0, 2, 1, 3)  # between (batch, heads, length, depth) and Relax's order; its own inverse


def _attention(
    call: Call,
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Number | None = None,
    enable_gqa: bool = False,
) -> Expr:
    """Of (batch, heads, length, depth) each; what is added to the scores is no condition."""
    if dropout:
        raise TorchError("attention that drops some of its weights")
    if any(len(dims(each)) != 4 for each in (query, key, value)):
        raise TorchError("attention without a batch, or without heads")
    if mask is not None and (is_causal or dtype(mask) == "bool"):
        raise TorchError("attention whose mask is a condition, or one of two")
    heads = dims(query)[1]
    query, key, value = (
        call.emit(_op.permute_dims(each, _TO_ROWS))
        for each in (query, _for_all(call, key, heads), _for_all(call, value, heads))
    )
    if mask is not None and len(dims(mask)) < 4:
        mask = call.emit(_op.reshape(mask, [1] * (4 - len(dims(mask))) + dims(mask)))
    causal = "TopLeft" if is_causal else None
    found = call.emit(_op.nn.attention(query, key, value, mask, scale, causal))
    return call.emit(_op.permute_dims(found, _TO_ROWS))


def _for_all(call: Call, given: Expr, heads: Number) -> Expr:
    """Keys or values that groups of heads share, for each of these."""
    batch, shared, length, depth = dims(given)
    if shared == heads:
        return given
    if not isinstance(shared, int) or not isinstance(heads, int) or heads % shared:
        raise TorchError(f"{heads} heads of queries for {shared} of keys")
    apart = call.emit(_op.reshape(given, [batch, shared, 1, length, depth]))
    wide = _op.broadcast_to(apart, [batch, shared, heads // shared, length, depth])
    return call.emit(_op.reshape(call.emit(wide), [batch, heads, length, depth]))


OPERATORS: dict[str, Converter] = {"scaled_dot_product_attention": _attention}
