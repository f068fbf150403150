"""Attention in a dataflow block: two products around a softmax, with the heads' transposes.

In: the bindings of a block. Out: for each softmax between two products what the library is asked
for, with the tensors that it reads in place and the variable that it defines; or why it is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt

from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.attention.places import (
    ALIGNED,
    Extents,
    output_of,
    place_of,
    placed_bias,
)
from tvm_stitch.graph.front.attention.scores import Scores, scores_of
from tvm_stitch.graph.front.attention.sizes import Shape, Sizes
from tvm_stitch.graph.front.attention.softmax import softmax_argument
from tvm_stitch.graph.front.decompose.stages import HALF, dtype_of, has_shape, numbers_of, shape_of
from tvm_stitch.library.attention import BOTTOM_RIGHT, NO_MASK, TOP_LEFT, Attention, Size
from tvm_stitch.stages.stage import Refused

WHOLE = ("nn.attention", "nn.attention_bias")
MOST_DEPTH = 256
_MASKS = {"None": NO_MASK, "TopLeft": TOP_LEFT, "BottomRight": BOTTOM_RIGHT}
_UNKNOWN = "its sizes are known at run time only"
_PASSED = ("astype", "reshape", "expand_dims", "squeeze", "broadcast_to")


@dataclass(frozen=True, eq=False)
class Found:
    """Attention that the library computes, up to `result`, the variable that the call defines."""

    attention: Attention
    operands: tuple[Expr, ...]
    result: relax.Var
    members: frozenset[relax.Var]  # the result left out
    is_chosen: bool = False  # the last operand says where scores are seen
    sizes: Sizes = field(default_factory=Sizes)  # what read them


@dataclass(frozen=True, eq=False)
class _Matrices:
    """A tensor as matrices: its dimensions in the order (..., rows, depth)."""

    tensor: Expr
    order: tuple[int, ...]

    def shape(self, sizes: Sizes) -> Shape | None:
        """The extents in this order."""
        own = sizes.of(self.tensor)
        return None if own is None else tuple(own[axis] for axis in self.order)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Attention as it is written."""

    query: _Matrices
    key: _Matrices
    value: _Matrices
    scores: Scores
    result: _Matrices
    sizes: Sizes = field(default_factory=Sizes)


def attention_at(binding: relax.VarBinding, bindings: Bindings) -> Found | Refused | None:
    """The attention of which this is the softmax; None if it is no attention's."""
    argument = softmax_argument(binding, bindings)
    if argument is None:
        return None
    scores = scores_of(argument[0], bindings)
    if scores is None:
        return None
    second = _second_product(binding.var, bindings)
    if second is None:
        return None
    if isinstance(scores, Refused):
        return scores
    passed, product = second
    assert scores.product is not None
    query, key = scores.product.args
    parts = _Parts(
        _rows(query), _columns(key), _rows(product.value.args[1]), scores, _rows(product.var)
    )
    members = (*scores.members, *argument[1], binding.var, *passed)
    found = _found(parts, members, bindings)
    if isinstance(found, Found) and not bindings.are_private(found.members, found.result):
        return Refused("scores or weights are read elsewhere")
    return found


def _second_product(
    weights: relax.Var, bindings: Bindings
) -> tuple[tuple[relax.Var, ...], relax.VarBinding] | None:
    """The product that the weights are a factor of, and the variables between."""
    at = weights
    passed: list[relax.Var] = []
    while len(readers := bindings.readers(at)) == 1:
        (reader,) = readers
        product = bindings.call(reader.var, "matmul")
        if product is not None:
            return (tuple(passed), reader) if product.args[0].same_as(at) else None
        before, after = numbers_of(at), numbers_of(reader.var)
        same = before is not None and after is not None and before[-2:] == after[-2:]
        if (
            bindings.call(reader.var, *_PASSED) is None
            or not same
            or prod(before or ()) != prod(after or ())
        ):
            return None
        at = reader.var
        passed.append(at)
    return None


def _rows(tensor: Expr) -> _Matrices:
    return _Matrices(tensor, tuple(range(len(numbers_of(tensor) or ()))))


def _columns(tensor: Expr) -> _Matrices:
    *leading, depth, rows = range(len(numbers_of(tensor) or (1, 1)))
    return _Matrices(tensor, (*leading, rows, depth))


def whole_attention(binding: relax.VarBinding, bindings: Bindings) -> Found | Refused | None:
    """Relax's operator for attention, whose tensors are (batch, length, heads, depth)."""
    call = binding.value
    if not isinstance(call, Call) or bindings.call(binding.var, *WHOLE) is None:
        return None
    mask = _MASKS.get(str(call.attrs.causal_mask))
    if mask is None or call.attrs.window_size is not None:
        return Refused("cuDNN is asked for no window of keys")
    query, key, value, result = (
        _Matrices(each, (0, 2, 1, 3)) for each in (*call.args[:3], binding.var)
    )
    sizes = Sizes(*(shape_of(key.tensor)[axis] for axis in (1, 0)) if has_shape(key.tensor) else ())
    of_query, of_key = query.shape(sizes), key.shape(sizes)
    if of_query is None or of_key is None or not _are_known(of_query[1:]):
        return Refused(_UNKNOWN)
    shape = (*of_query[:-1], of_key[-2])
    scale = call.attrs.scale
    scale = 1 / sqrt(of_query[-1]) if scale is None else float(scale)
    bias = call.args[3] if len(call.args) > 3 else None
    scores = Scores((), scale=scale, bias=bias, bias_shape=shape, mask=mask, shape=shape)
    return _found(_Parts(query, key, value, scores, result, sizes), (), bindings)


def _found(parts: _Parts, members: Sequence[relax.Var], bindings: Bindings) -> Found | Refused:
    scores = parts.scores
    operands = (parts.query, parts.key, parts.value)
    shapes = [each.shape(parts.sizes) for each in (*operands, parts.result)]
    if any(shape is None or len(shape) < 2 for shape in shapes):
        return Refused(_UNKNOWN)
    if any(0 in (shape or ()) for shape in shapes):
        return Refused("there is nothing to compute")
    dtypes = {dtype_of(each.tensor) for each in operands}
    if len(dtypes) != 1 or not dtypes <= HALF:
        return Refused("cuDNN is asked for attention of halves only")
    (dtype,) = dtypes
    query, _, _, result = (shape or () for shape in shapes)
    if not _are_known((*query[-3:], *result[-3:])):
        return Refused(_UNKNOWN)
    reasons: list[Refused] = []
    for batch, heads in _batches(scores.shape, result, parts, bindings):
        extents = Extents(batch, heads, result[-2], scores.shape[-1], query[-1], result[-1])
        found = _placed(parts, members, extents, str(dtype), bindings)
        if isinstance(found, Found):
            return found
        reasons.append(found)
    return reasons[0]


def _are_known(extents: Shape) -> bool:
    return all(isinstance(extent, int) for extent in extents)


def _batches(
    scores: Shape, result: Shape, parts: _Parts, bindings: Bindings
) -> Iterator[tuple[Size, int]]:
    """How many entries there may be, and heads in each."""
    for shape in (scores, result):
        if len(shape) > 3:
            yield prod(shape[:-3]), shape[-3]
    leading = prod(result[:-2])
    if not isinstance(leading, int):
        return
    for heads in dict.fromkeys(_innermost(parts.query.tensor, bindings)):
        if leading % heads == 0:
            yield leading // heads, heads
    yield 1, leading


def _innermost(value: Expr, bindings: Bindings) -> Iterator[int]:
    """What leading dimensions were before they became one."""
    while (call := bindings.call(value, *_PASSED)) is not None:
        value = call.args[0]
        shape = numbers_of(value)
        if shape is not None and len(shape) > 3:
            yield shape[-3]


def _placed(
    parts: _Parts, members: Sequence[relax.Var], extents: Extents, dtype: str, bindings: Bindings
) -> Found | Refused:
    """The call with the tensors where they lie."""
    scores = parts.scores
    refused = _refused(extents, scores.mask)
    if refused is not None:
        return refused
    sizes = (
        (extents.queries, extents.depth),
        (extents.keys, extents.depth),
        (extents.keys, extents.value_depth),
    )
    placed = []
    for matrices, size in zip((parts.query, parts.key, parts.value), sizes, strict=True):
        tensor, order = matrices.tensor, matrices.order
        found = place_of(tensor, order, extents, size, bindings, parts.sizes)
        if found is None:
            return Refused("heads do not lie as cuDNN reads them")
        placed.append(found)
    query, key, value = placed
    if query.heads != extents.heads or key.heads != value.heads:
        return Refused("keys and values have other heads")
    tensor, order = parts.result.tensor, parts.result.order
    ending = output_of(tensor, order, extents, dtype, bindings, parts.sizes)
    if ending is None:
        return Refused("the result does not lie as cuDNN writes it")
    attention = Attention(
        scores.mask, scores.scale, extents.batch, extents.heads, key.heads, extents.queries,
        extents.keys, extents.depth, extents.value_depth,
        query.place, key.place, value.place, ending.place,
    )  # fmt: skip
    operands = [each.source for each in placed]
    added = scores.bias if scores.bias is not None else scores.chosen
    if added is not None:
        bias = placed_bias(added, scores.bias_shape, extents, bindings, parts.sizes)
        if bias is None:
            return Refused("the bias does not lie as cuDNN reads it")
        if scores.bias is not None and dtype_of(bias[0]) not in (dtype, "float32"):
            return Refused(f"a bias of {dtype_of(bias[0])} for {dtype}")
        attention = replace(attention, bias=bias[1])
        operands.append(bias[0])
    inside = frozenset([*members, *ending.members])
    is_chosen = scores.chosen is not None
    return Found(attention, tuple(operands), ending.result, inside, is_chosen, parts.sizes)


def refused_heads(*depths: int) -> Refused | None:
    """Why cuDNN has no kernel of heads so deep."""
    for depth in depths:
        if depth % ALIGNED or depth > MOST_DEPTH:
            return Refused(
                f"cuDNN takes heads of a multiple of {ALIGNED} up to {MOST_DEPTH}, not {depth}"
            )
    return None


def _refused(extents: Extents, mask: str) -> Refused | None:
    """Why cuDNN has no kernel of these extents."""
    refused = refused_heads(extents.depth, extents.value_depth)
    if refused is not None:
        return refused
    fewest = extents.keys if isinstance(extents.keys, int) else 1
    if mask == BOTTOM_RIGHT and extents.queries > fewest:
        return Refused("causal attention from the last key has more queries than keys")
    return None
