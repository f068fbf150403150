"""Notes on sums at known indices: which of the updates may go to a place.

In: a functional graph, before forward and backward come apart, for backward is only given the
indices that forward counted out. Out: the same graph, whose nodes that add at indices carry their
windows. Must not know how these are converted.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tvm_stitch.dynamo.rewrites.counted import counted
from tvm_stitch.frontend.torch.windows import WINDOWS, Window, window_of

_aten = torch.ops.aten


def with_windows(graph: fx.Graph) -> None:
    """Note the windows of sums at indices that depend on no input."""
    for node in graph.find_nodes(op="call_function", target=_aten.index_put.default):
        if WINDOWS in node.meta or not (len(node.args) > 3 and node.args[3]):
            continue
        windows = _windows(node)
        if windows is not None:
            node.meta[WINDOWS] = windows


def _windows(node: fx.Node) -> tuple[Window, ...] | None:
    table, indices = node.args[:2]
    assert isinstance(table, fx.Node) and isinstance(indices, (list, tuple))
    found = []
    for extent, index in zip(table.meta["val"].shape, indices, strict=False):
        if index is None:
            continue
        window = _window(index, extent) if isinstance(extent, int) else None
        if window is None:
            return None
        found.append(window)
    # Each is along a dimension of its own: a place has the updates of all their windows.
    return tuple(found) if len({each.dim for each in found}) == len(found) else None


def _window(index: fx.Node, extent: int) -> Window | None:
    """The window of an index that depends on no input; None of others."""
    elements = counted(index)
    with unset_fake_temporarily():
        return None if elements is None else window_of(elements, extent)
