"""Indices of which is known where they send updates: to each place some that lie side by side.

In: the elements of an index. Out: a Window, which a node carries to its converter. Gradients of
interpolations add at such indices, and PyTorch's kernel for that sorts all of them. Must not know
graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

WINDOWS = "tvm_stitch_windows"
"""What a node's notes have them under: for each index, in order, a Window."""
# Another device rounds what positions are counted of, and an update beside a boundary is beyond it.
_BESIDE = 1


@dataclass(frozen=True)
class Window:
    """Updates that may go to place p: `length` of them from p * updates // extent + first on."""

    dim: int  # of the index, counted from the back as negative numbers: the only one that is long
    updates: int
    extent: int
    first: int
    length: int


def window_of(index: torch.Tensor, extent: int) -> Window | None:
    """The window of an index into a dimension of that extent; None of one that is not like this."""
    long = [dim for dim, size in enumerate(index.shape) if size != 1]
    if len(long) != 1 or index.dtype not in (torch.int32, torch.int64):
        return None
    places, updates = index.flatten().tolist(), index.numel()
    if min(places) < 0 or max(places) >= extent:
        return None
    ahead = [update - place * updates // extent for update, place in enumerate(places)]
    first = min(ahead) - _BESIDE
    length = max(ahead) + _BESIDE - first + 1
    return Window(long[0] - index.dim(), updates, extent, first, length)
