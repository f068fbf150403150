"""What lies between the first product of attention and its softmax: scale, bias, mask.

In: what the softmax is of. Out: Scores: the product, what its results are multiplied by and what is
added, and which keys are seen; or why they are none. Knows no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import relax
from tvm.ir import Call, Expr, GenericConst

from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.attention.sizes import Shape
from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.graph.front.decompose.stages import array_of, dtype_of, number_of, numbers_of
from tvm_stitch.library.attention import BOTTOM_RIGHT, NO_MASK, TOP_LEFT
from tvm_stitch.stages.stage import Refused

FLOATS = ("float16", "bfloat16", "float32")
_VIEWS = ("reshape", "expand_dims", "squeeze", "broadcast_to")


@dataclass(frozen=True, eq=False)
class Scores:
    """softmax's argument: scale * product + bias, where the mask lets it."""

    members: tuple[relax.Var, ...]  # variables that hold them on the way
    product: Call | None = None
    scale: float = 1.0
    bias: Expr | None = None
    bias_shape: Shape = ()  # of the scores that it is added to
    chosen: Expr | None = None  # scores are seen where this is true
    mask: str = NO_MASK
    shape: Shape = ()  # of the most dimensions that they have


def scores_of(value: Expr, bindings: Bindings) -> Scores | Refused | None:
    """What a softmax is of; None if no product of matrices is behind it."""
    call, shape = bindings.call(value), numbers_of(value)
    if call is None or not isinstance(value, relax.Var):
        return None
    if shape is None:
        return Refused("its sizes are known at run time only")
    name = name_of(call)
    if name == "matmul":
        return Scores((value,), call, shape=shape)
    if dtype_of(value) not in FLOATS:
        return None
    found = _STEPS[name](call, shape, bindings) if name in _STEPS else None
    if not isinstance(found, Scores):
        return found
    longest = max(found.shape, shape, key=len)
    return replace(found, members=(*found.members, value), shape=longest)


def _same(call: Call, shape: tuple[int, ...], bindings: Bindings) -> Scores | Refused | None:
    """A cast, or another shape of the leading dimensions."""
    before = numbers_of(call.args[0])
    if before is None or before[-2:] != shape[-2:] or np.prod(before) != np.prod(shape):
        return None
    return scores_of(call.args[0], bindings)


def _scaled(call: Call, _shape: tuple[int, ...], bindings: Bindings) -> Scores | Refused | None:
    """Multiplied or divided by a number that is known."""
    first, second = call.args
    if name_of(call) == "multiply" and number_of(first) is not None:
        first, second = second, first
    number = number_of(second)
    found = None if number is None else scores_of(first, bindings)
    if not isinstance(found, Scores) or number is None:
        return found
    if found.bias is not None or found.chosen is not None or number <= 0:
        return Refused("scores are multiplied after a mask or by less than zero")
    factor = number if name_of(call) == "multiply" else 1 / number
    return replace(found, scale=found.scale * factor)


def _added(call: Call, shape: tuple[int, ...], bindings: Bindings) -> Scores | Refused | None:
    """A bias, or a mask of zeros and minus infinity."""
    for value, other in (call.args, reversed(call.args)):
        found = scores_of(value, bindings)
        if isinstance(found, Refused):
            return found
        if found is None or numbers_of(value) != shape:
            continue
        return _limited(found, other, shape) or replace(found, bias=other, bias_shape=shape)
    return None


def _chosen(call: Call, shape: tuple[int, ...], bindings: Bindings) -> Scores | Refused | None:
    """Scores where a condition holds, minus infinity elsewhere."""
    condition, value, other = call.args
    found = scores_of(value, bindings)
    if not isinstance(found, Scores):
        return found
    if number_of(other) != -np.inf or numbers_of(value) != shape:
        return Refused("scores that are not seen are no minus infinity")
    return _limited(found, condition, shape) or replace(found, chosen=condition, bias_shape=shape)


def _limited(found: Scores, by: Expr, shape: tuple[int, ...]) -> Scores | Refused | None:
    """Scores with a causal mask that is known; refused where there is another; None: it is none."""
    mask = causal_mask(by, shape)
    if mask is not None and found.mask == NO_MASK:
        return replace(found, mask=mask)
    if found.bias is not None or found.chosen is not None:
        return Refused("more than one bias or mask")
    return None


_STEPS = {
    "astype": _same,
    **dict.fromkeys(_VIEWS, _same),
    "multiply": _scaled,
    "divide": _scaled,
    "add": _added,
    "where": _chosen,
}


def causal_mask(value: Expr, shape: tuple[int, ...]) -> str | None:
    """Which keys a constant mask of scores lets queries see, if that is those up to a diagonal."""
    own = numbers_of(value)
    if not isinstance(value, GenericConst) or own is None or len(own) < 2:
        return None
    rows, keys = shape[-2:]
    if own[-2:] != (rows, keys) or np.prod(own) != rows * keys:
        return None
    array = array_of(value).reshape(rows, keys)
    is_seen = array if array.dtype == bool else array == 0
    if array.dtype != bool and not np.isneginf(array[~is_seen].astype("float32")).all():
        return None
    for mask, diagonal in ((TOP_LEFT, 0), (BOTTOM_RIGHT, keys - rows)):
        if diagonal >= 0 and np.array_equal(is_seen, np.tri(rows, keys, diagonal, bool)):
            return mask
    return None
