"""Tensors of one number that depends on no input, given as numbers to what they are combined with.

In: a graph as dynamo gives it. Out: the same graph; where a tensor is multiplied by, divided by or
added to such a number, it stands there itself. Models make them of Python's numbers, and on the
CPU: `torch.sqrt(torch.tensor(64.0))`. Kernels on a GPU cannot read them there, so that PyTorch
computed such products, and parts of ours ended before them. Must not know what becomes of the
graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.untraced.attention import traced
from tvm_stitch.dynamo.rewrites.untraced.known_values import Values, name_of

# With a number for a tensor they do the same, and in PyTorch's kernels by the same instructions.
_COMBINED = frozenset({
    "add", "div", "divide", "mul", "multiply", "sub", "subtract", "true_divide", "truediv",
})  # fmt: skip


def with_known_scalars(graph: fx.Graph) -> None:
    """Put numbers where they are known; what was made for them alone is gone."""
    values = Values()
    for node in graph.nodes:
        if node.op in ("call_function", "call_method") and name_of(node) in _COMBINED:
            node.args = tuple(_number(each, node, values) for each in node.args)
    for node in reversed(graph.nodes):
        if not node.users and values.is_source(node):
            graph.erase_node(node)


def _number(given: Any, node: fx.Node, values: Values) -> Any:
    """A number in place of what a call is given, if its result stays what it is."""
    if not isinstance(given, fx.Node) or not isinstance(traced(given), torch.Tensor):
        return given
    others = [each for each in node.all_input_nodes if each is not given]
    if traced(given).dim() or traced(given).requires_grad or len(others) != 1:
        return given
    (other,) = map(traced, others)
    is_wide = isinstance(other, torch.Tensor) and other.dim() and other.is_floating_point()
    result = traced(node)
    if not is_wide or not isinstance(result, torch.Tensor) or result.dtype is not other.dtype:
        return given
    found = values.of(given)
    return given if found is None or found.is_complex() else found.item()
