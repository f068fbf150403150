"""Max pooling whose positions only its gradient asks for: a byte for each window is kept.

In: the functional graph of a forward and a backward pass, laid out. Out: the same graph. PyTorch
keeps 8 bytes, four times what a window of halves has for its result, and each is read for up to
four elements. Must not know how these are converted.
"""

from __future__ import annotations

import torch
from torch import fx

from tvm_stitch.frontend.torch.offsets import BACKWARD, WITH_OFFSETS
from tvm_stitch.frontend.torch.ops.images.windows import per_dimension
from tvm_stitch.frontend.torch.writer import arguments
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN

_aten = torch.ops.aten
_GRADIENT = _aten.max_pool2d_with_indices_backward.default


def with_offsets(graph: fx.Graph) -> None:
    """Put offsets in windows where forward gives positions in planes to backward alone."""
    for pool in graph.find_nodes(op="call_function", target=_aten.max_pool2d_with_indices.default):
        places = [each for each in pool.users if each.args[1] == 1]
        readers = [user for each in places for user in each.users]
        windows = _windows(pool)
        if windows is None or not readers or not all(_is_gradient(each, pool) for each in readers):
            continue
        _narrow(graph, pool, places[0], readers, windows)


def _windows(pool: fx.Node) -> tuple[object, ...] | None:
    """Size, stride, padding and ceil_mode of windows; None of others than converters take."""
    _x, size, stride, padding, dilation, ceil = (value for _, value in arguments(pool))
    numbers = [
        per_dimension([each] if isinstance(each, int) else each, 2)
        for each in (size, stride or size, padding, dilation)
    ]
    if numbers[3] != (1, 1) or numbers[0][0] * numbers[0][1] > MOST_WRITTEN:
        return None
    return (*map(list, numbers[:3]), ceil)


def _is_gradient(reader: fx.Node, pool: fx.Node) -> bool:
    """Whether a node is the gradient of just this pooling."""
    return reader.target is _GRADIENT and reader.args[1] is pool.args[0]


def _narrow(
    graph: fx.Graph,
    pool: fx.Node,
    places: fx.Node,
    readers: list[fx.Node],
    windows: tuple[object, ...],
) -> None:
    values, wide = pool.meta["val"]
    with wide.fake_mode:
        narrow = wide.to(torch.int8)
    pool.target, pool.args = WITH_OFFSETS, (pool.args[0], *windows)
    pool.meta["val"], places.meta["val"] = (values, narrow), narrow
    for reader in readers:
        gradient, x = reader.args[:2]
        reader.target, reader.args = BACKWARD, (gradient, x, *windows, places)
