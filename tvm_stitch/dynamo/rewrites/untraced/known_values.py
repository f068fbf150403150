"""The elements of a tensor that depends on no input: masks are made of positions, by counting.

In: nodes of a graph as dynamo gives it. Out: the tensor, on the CPU, or None. Only functions that
are known to give the same every time are run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

_LARGEST = 1 << 26  # elements that are worth computing while compiling
_FUNCTIONS = frozenset({
    "__and__", "__or__", "add", "and_", "arange", "bitwise_and", "bitwise_or", "bool", "clone",
    "contiguous", "cumsum", "diff", "eq", "expand", "float", "flatten", "full", "ge", "getitem",
    "gt", "int", "invert", "le", "logical_and", "logical_not", "logical_or", "long", "lt",
    "masked_fill", "mul", "ne", "neg", "new_full", "new_ones", "new_zeros", "ones", "or_",
    "permute", "reshape", "rsqrt", "sqrt", "squeeze", "sub", "tensor", "to", "transpose", "tril",
    "triu", "truediv", "unsqueeze", "view", "where", "zeros",
})  # fmt: skip
# These write into nothing either: positions are embedded, and turned into rotations.
_READERS = _FUNCTIONS | {
    "cos", "div", "divide", "embedding", "matmul", "multiply", "scaled_dot_product_attention",
    "sin", "subtract", "true_divide",
}  # fmt: skip
# Their results may be in the memory of what they are given.
_VIEWS = frozenset({
    "bool", "contiguous", "expand", "flatten", "float", "getitem", "int", "long", "permute",
    "reshape", "squeeze", "to", "transpose", "unsqueeze", "view",
})  # fmt: skip


class Values:
    """Elements by node; each is worked out once."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, torch.Tensor | None] = {}
        self._sources: set[fx.Node] = set()

    def is_source(self, node: fx.Node) -> bool:
        """Whether known elements were made of a node."""
        return node in self._sources

    def of(self, node: fx.Node) -> torch.Tensor | None:
        """The elements of a tensor; None where they depend on an input, or may be written to."""
        if node not in self._known:
            sources = _sources(node)
            self._known[node] = found = _computed(node, sources)
            self._sources.update(sources if found is not None else ())
        return self._known[node]


def _computed(node: fx.Node, sources: list[fx.Node]) -> torch.Tensor | None:
    if not all(map(_is_plain, sources)):
        return None
    found: dict[fx.Node, Any] = {}
    try:
        with unset_fake_temporarily(), torch.no_grad():
            for each in sources:
                found[each] = _run(each, found)
    except Exception:  # what cannot be run here is not known
        return None
    value, traced = found[node], node.meta["example_value"]
    same = isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (
        traced.shape, traced.dtype,
    )  # fmt: skip
    return value if same else None


def _sources(node: fx.Node) -> list[fx.Node]:
    """What a node is made of, and itself, in the graph's order."""
    met, waiting = {node}, [node]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source not in met:
                met.add(source)
                waiting.append(source)
    return [each for each in node.graph.nodes if each in met]


def _is_plain(node: fx.Node) -> bool:
    """Whether a node can be run by itself, and nobody writes into what it gives."""
    value = node.meta.get("example_value")
    if node.op not in ("call_function", "call_method") or name_of(node) not in _FUNCTIONS:
        return False
    if not isinstance(value, torch.Tensor) or "out" in node.kwargs:
        return False
    if not all(isinstance(extent, int) for extent in value.shape):
        return False
    return value.numel() <= _LARGEST and _is_only_read(node)


def _is_only_read(node: fx.Node) -> bool:
    """Whether nobody writes into a tensor, or into a view of it."""
    met, waiting = set(), [node]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "output" or user in met:
                continue
            met.add(user)
            if name_of(user) not in _READERS or "out" in user.kwargs:
                return False
            if name_of(user) in _VIEWS:
                waiting.append(user)
    return True


def name_of(node: fx.Node) -> str:
    """What a function or method is called; PyTorch's operators are none."""
    target = node.target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return ""
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _run(node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    def given(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return known[value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    args, kwargs = torch.utils._pytree.tree_map(
        given, (node.args, dict(node.kwargs)), is_leaf=lambda value: isinstance(value, fx.Node)
    )
    if isinstance(kwargs.get("device"), str):
        kwargs["device"] = "cpu"
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    with torch.device("cpu"):
        assert callable(node.target)
        return node.target(*args, **kwargs)


def is_causal(mask: torch.Tensor, queries: int, keys: int) -> bool:
    """Whether every position sees those up to its own, as PyTorch's `is_causal` has it."""
    return _is(mask, torch.ones(queries, keys, dtype=torch.bool).tril())


def hides_nothing(mask: torch.Tensor) -> bool:
    """Whether every position sees all."""
    return _is(mask, torch.ones((), dtype=torch.bool))


def _is(mask: torch.Tensor, seen: torch.Tensor) -> bool:
    if mask.dtype is torch.bool:
        return bool((mask == seen).all())
    if not mask.is_floating_point():
        return False
    hidden = (mask == -float("inf")) | (mask == torch.finfo(mask.dtype).min)
    return bool(torch.where(seen, mask == 0, hidden).all())


__all__ = ["Values", "hides_nothing", "is_causal", "name_of"]
