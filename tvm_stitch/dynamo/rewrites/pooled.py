"""Max pooling whose positions only its gradient asks for: a byte for each window is kept.

In: the functional graph of a forward and a backward pass, laid out. Out: the same graph. PyTorch
keeps 8 bytes, four times what a window of halves has for its result, and each is read for up to
four elements. Must not know how these are converted.
"""

from __future__ import annotations

from math import prod

import torch
from torch import fx

from tvm_stitch.frontend.torch.offsets import BACKWARD, WITH_OFFSETS
from tvm_stitch.frontend.torch.ops.images.window import per_dimension
from tvm_stitch.frontend.torch.writer import arguments
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN

_aten = torch.ops.aten
_POOLS = {
    2: (_aten.max_pool2d_with_indices.default, _aten.max_pool2d_with_indices_backward.default),
    3: (_aten.max_pool3d_with_indices.default, _aten.max_pool3d_with_indices_backward.default),
}
"""With their gradients, by the number of sides of a window."""


def with_offsets(graph: fx.Graph) -> None:
    """Put offsets in windows where forward gives positions in planes to backward alone."""
    for sides, (target, gradient) in _POOLS.items():
        for pool in graph.find_nodes(op="call_function", target=target):
            places = [each for each in pool.users if each.args[1] == 1]
            readers = [user for each in places for user in each.users]
            windows = _windows(pool, sides)
            if windows is None or not readers:
                continue
            if all(each.target is gradient and each.args[1] is pool.args[0] for each in readers):
                _narrow(graph, pool, places[0], readers, sides, windows)


def _windows(pool: fx.Node, sides: int) -> tuple[object, ...] | None:
    """Size, stride, padding and ceil_mode of windows; None of others than converters take."""
    _x, size, stride, padding, dilation, ceil = (value for _, value in arguments(pool))
    numbers = [
        per_dimension([each] if isinstance(each, int) else each, sides)
        for each in (size, stride or size, padding, dilation)
    ]
    if set(numbers[3]) != {1} or prod(numbers[0]) > MOST_WRITTEN:
        return None
    return (*map(list, numbers[:3]), ceil)


def _narrow(
    graph: fx.Graph,
    pool: fx.Node,
    places: fx.Node,
    readers: list[fx.Node],
    sides: int,
    windows: tuple[object, ...],
) -> None:
    values, wide = pool.meta["val"]
    with wide.fake_mode:
        narrow = wide.to(torch.int8)
    pool.target, pool.args = WITH_OFFSETS[sides], (pool.args[0], *windows)
    pool.meta["val"], places.meta["val"] = (values, narrow), narrow
    for reader in readers:
        gradient, x = reader.args[:2]
        reader.target, reader.args = BACKWARD[sides], (gradient, x, *windows, places)
