"""Indices that are counted out: the elements of what depends on sizes alone.

In: nodes of a functional graph of core operators. Out: a tensor on the CPU, or None. Interpolations
are written as such indices. A GPU may round what they are counted of otherwise.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tvm_stitch.frontend.torch import operator_name

_MOST_INDICES = 1 << 16  # of a dimension: images are smaller
# What positions are counted of, beside what is element-wise.
_COUNTED = frozenset({
    "_to_copy", "alias", "arange.start_step", "expand", "full", "reshape", "squeeze.dim",
    "squeeze.dims", "unsqueeze", "view",
})  # fmt: skip


def counted(node: fx.Node) -> torch.Tensor | None:
    """The elements of a tensor that depends on no input; None of others."""
    try:
        with unset_fake_temporarily(), torch.no_grad():
            found: torch.Tensor = _computed(node, {})
            return found
    except Exception:  # what cannot be run here is not known
        return None


def _computed(node: fx.Node, found: dict[fx.Node, Any]) -> Any:
    if node not in found:
        if not _is_counted(node):
            raise ValueError(node.name)
        args, named = fx.map_arg(
            (node.args, {**node.kwargs}), lambda source: _Held(_computed(source, found))
        )
        args, named = torch.utils._pytree.tree_map(_on_cpu, (args, named))
        assert callable(node.target)
        found[node] = node.target(*args, **named)
    return found[node]


class _Held:
    """A tensor, which fx would not take for an argument of a node."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _on_cpu(given: Any) -> Any:
    if isinstance(given, _Held):
        return given.value
    return torch.device("cpu") if isinstance(given, torch.device) else given


def _is_counted(node: fx.Node) -> bool:
    """Whether a node can be run by itself, and gives the same every time."""
    value, target = node.meta.get("val"), node.target
    if not isinstance(target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    is_small = all(isinstance(size, int) for size in value.shape) and value.numel() <= _MOST_INDICES
    is_known = operator_name(target) in _COUNTED or torch.Tag.pointwise in target.tags
    return is_small and is_known and torch.Tag.nondeterministic_seeded not in target.tags
