"""What is known of a tensor's elements without running the graph: between which values they lie.

In: nodes of a graph as dynamo gives it, Python's and PyTorch's functions by their names. Out:
bounds, or None. Knows what positions, constants and comparisons of them come to: masks are made of
these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

Range = tuple[float, float]
_Rule = Callable[..., Range | None]
_ANY: Range = (-math.inf, math.inf)
_BOOLS: Range = (0, 1)
# These ask no more of a tensor than its shape and type.
_MAKERS = frozenset(
    f"{name}{rest}" for name in ("ones", "zeros", "full") for rest in ("", "_like")
) | {"arange", "new_ones", "new_zeros", "new_full"}
# These read a mask, and neither change it nor return a part of it.
_READERS = frozenset({"scaled_dot_product_attention"})


class Ranges:
    """Bounds of the elements, by node; each is worked out once."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, Range | None] = {}

    def of(self, node: fx.Node) -> Range | None:
        """The bounds of a tensor's elements; None where nothing is known, or it may be changed."""
        return self._of(node) if self._stays(node) else None

    def is_known(self, node: fx.Node) -> bool:
        """Whether bounds of it have been found."""
        return self._known.get(node) is not None

    def _of(self, node: fx.Node) -> Range | None:
        if node not in self._known:
            rule = _rule(node)
            found = rule(self, node, *node.args) if rule is not None else None
            if found is not None and _dtype(node) is torch.bool:
                found = _as_bools(found)
            self._known[node] = found
        return self._known[node]

    def value(self, given: Any) -> Range | None:
        """The bounds of an argument."""
        if isinstance(given, fx.Node):
            return self._of(given)
        return (given, given) if isinstance(given, (bool, int, float)) else None

    def _stays(self, node: fx.Node) -> bool:
        """Whether nothing writes into the tensor, what it is made of, or a view of these.

        Functions that are not known here might.
        """
        met, waiting = set(), [node]
        while waiting:
            each = waiting.pop()
            if each in met or each.op == "placeholder":
                continue
            met.add(each)
            if _rule(each) is None or "out" in each.kwargs:
                return False
            if not isinstance(_value(each), torch.Tensor):
                return False
            if _name(each) not in _MAKERS:
                waiting += [source for source in each.all_input_nodes if _is_tensor(source)]
            waiting += [user for user in each.users if _name(user) not in _READERS]
        return True


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value")


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(_value(node), torch.Tensor)


def _dtype(node: fx.Node) -> torch.dtype | None:
    value = _value(node)
    return value.dtype if isinstance(value, torch.Tensor) else None


def _name(node: fx.Node) -> str:
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _rule(node: fx.Node) -> _Rule | None:
    if node.op not in ("call_function", "call_method"):
        return None
    if isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return None
    return _RULES.get(_name(node))


def _as_bools(found: Range) -> Range:
    low, high = found
    if low == high == 0:
        return 0, 0
    return (1, 1) if low > 0 or high < 0 else _BOOLS


def _filled(value: float) -> _Rule:
    return lambda _ranges, _node, *_given: (value, value)


def _full(ranges: Ranges, node: fx.Node, *given: Any) -> Range | None:
    """torch.full(size, value), tensor.new_full(size, value), torch.full_like(tensor, value)."""
    named = node.kwargs.get("fill_value")
    return ranges.value(given[-1] if named is None and len(given) > 1 else named)


def _positions(_ranges: Ranges, node: fx.Node, *given: Any) -> Range | None:
    """torch.arange(end) and torch.arange(start, end[, step]): as they count up, from the start."""
    steps = [*given[2:3], *([node.kwargs["step"]] if "step" in node.kwargs else [])]
    if any(not isinstance(step, (int, float)) or step <= 0 for step in steps):
        return None
    start = node.kwargs.get("start", given[0] if len(given) > 1 else 0)
    return (start, math.inf) if isinstance(start, (int, float)) else None


def _same(ranges: Ranges, _node: fx.Node, x: Any, *_given: Any) -> Range | None:
    return ranges.value(x)


def _converted(ranges: Ranges, node: fx.Node, x: Any, *_given: Any) -> Range | None:
    """The same elements in another type, which may not hold them all."""
    found, to = ranges.value(x), _dtype(node)
    if found is None or to is torch.bool or to == (x.meta["example_value"].dtype):
        return found
    fits = all(bound in (0, 1) for bound in found)
    return found if fits else None


def _of_two(compute: Callable[[Range, Range], Range | None]) -> _Rule:
    def rule(ranges: Ranges, node: fx.Node, *given: Any) -> Range | None:
        if len(given) != 2 or set(node.kwargs) - {"other"}:
            return None
        found = [ranges.value(each) for each in given]
        if any(each is None or any(map(math.isnan, each)) for each in found):
            return None
        left, right = (each for each in found if each is not None)
        return compute(left, right)

    return rule


def _of_bools(compute: Callable[[Range, Range], Range | None]) -> _Rule:
    """Of bits in general nothing is said."""
    rule = _of_two(compute)

    def checked(ranges: Ranges, node: fx.Node, *given: Any) -> Range | None:
        return rule(ranges, node, *given) if _dtype(node) is torch.bool else None

    return checked


def _at_least(left: Range, right: Range) -> Range:
    if left[0] >= right[1]:
        return 1, 1
    return (0, 0) if left[1] < right[0] else _BOOLS


def _above(left: Range, right: Range) -> Range:
    if left[0] > right[1]:
        return 1, 1
    return (0, 0) if left[1] <= right[0] else _BOOLS


def _swapped(compute: Callable[[Range, Range], Range]) -> Callable[[Range, Range], Range]:
    return lambda left, right: compute(right, left)


def _moved(left: Range, right: Range) -> Range | None:
    """A sum with 0; other sums might wrap around."""
    if right == (0, 0):
        return left
    return right if left == (0, 0) else None


def _both(left: Range, right: Range) -> Range:
    left, right = _as_bools(left), _as_bools(right)
    return min(left[0], right[0]), min(left[1], right[1])


def _either(left: Range, right: Range) -> Range:
    left, right = _as_bools(left), _as_bools(right)
    return max(left[0], right[0]), max(left[1], right[1])


_RULES: dict[str, _Rule] = {
    "arange": _positions,
    **dict.fromkeys(("ones", "new_ones", "ones_like"), _filled(1)),
    **dict.fromkeys(("zeros", "new_zeros", "zeros_like"), _filled(0)),
    **dict.fromkeys(("full", "new_full", "full_like"), _full),
    **dict.fromkeys(
        (
            "contiguous", "clone", "detach", "expand", "expand_as", "flatten", "getitem", "permute",
            "repeat", "reshape", "squeeze", "transpose", "unsqueeze", "view",
        ),
        _same,
    ),
    **dict.fromkeys(("to", "bool", "int", "long", "float", "half", "type"), _converted),
    "add": _of_two(_moved),
    "ge": _of_two(_at_least),
    "gt": _of_two(_above),
    "le": _of_two(_swapped(_at_least)),
    "lt": _of_two(_swapped(_above)),
    **dict.fromkeys(("and_", "bitwise_and", "logical_and", "__and__"), _of_bools(_both)),
    **dict.fromkeys(("or_", "bitwise_or", "logical_or", "__or__"), _of_bools(_either)),
}  # fmt: skip
