"""Which rows of a table are in which bag, and what is done with all rows of a bag.

In: a call of `_embedding_bag`. Out: nodes of core operators. Must not know who reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvm_stitch.frontend.torch.rewrites.calls import Calls

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
# Behind these are the same elements, in the same order.
_SAME = (
    _aten.view.default, _aten._unsafe_view.default, _aten.reshape.default,
    _aten.clone.default, _aten.alias.default, _aten.detach.default,
)  # fmt: skip
SEARCH = _aten.searchsorted.Tensor
"""What finds the bag of each index."""

_Size = Any
"""A number, or the node of one that is known when the graph runs."""


class Written(Calls):
    """Calls that stand for another, if all of them are accepted."""

    def wide(self, x: fx.Node) -> fx.Node:
        """Halves in float32."""
        return self.cast(x, torch.float32) if x.meta["val"].dtype in _HALVES else x

    def cast(self, x: fx.Node, dtype: torch.dtype) -> fx.Node:
        """A tensor in another element type."""
        return x if x.meta["val"].dtype is dtype else self(_aten._to_copy.default, x, dtype=dtype)

    def filled(self, shape: list[_Size], value: float, like: fx.Node) -> fx.Node:
        """A tensor of one number."""
        traced = like.meta["val"]
        how = {"dtype": traced.dtype, "device": traced.device, "pin_memory": False}
        return self(_aten.full.default, shape, value, **how)

    def size(self, x: fx.Node, dim: int) -> _Size:
        """An extent of a tensor."""
        extent = x.meta["val"].shape[dim]
        return extent if isinstance(extent, int) else self(_aten.sym_size.int, x, dim)

    def is_accepted(self, accepted: Callable[[fx.Node], bool]) -> bool:
        """Whether all of it is, sizes aside."""
        tensors = (call for call in self._made if isinstance(call.meta["val"], torch.Tensor))
        return all(map(accepted, tensors))

    def put(
        self, result: fx.Node, accepted: Callable[[fx.Node], bool], over: fx.Node | None = None
    ) -> None:
        """Put the result where the other call's is, if all of it is accepted; else erase it."""
        if not self.is_accepted(accepted):
            self.erase()
            return
        replaced = self._node if over is None else over
        replaced.replace_all_uses_with(result)
        _erase({self._node, *self._node.users, *self._made})


def _erase(waiting: set[fx.Node]) -> None:
    """Take out calls that nobody reads, and all that they alone read."""
    while waiting:
        each = waiting.pop()
        if each.op == "call_function" and not each.users and not each.is_impure():
            waiting.update(each.all_input_nodes)
            each.graph.erase_node(each)


@dataclass(frozen=True)
class Bags:
    """What is in the bags of a call."""

    given: dict[str, Any]  # to the call, by the names of its schema
    indices: fx.Node  # of bags of one length, a row for each bag
    length: _Size | None  # that length
    bag_of: fx.Node | None  # of others, the bag of each index
    sizes: fx.Node | None  # how many do not pad, where that is known

    @staticmethod
    def of(
        emit: Written,
        call: fx.Node,
        given: dict[str, Any],
        bag_of: fx.Node | None = None,
        sizes: fx.Node | None = None,
    ) -> Bags:
        """Of a call, which may have said the bag of each index, and how many are in each."""
        indices = given["indices"]
        length = _length(emit, call.meta["val"][0].shape[0], given)
        if length is not None:
            return Bags(given, _by_bag(emit, indices, length), length, None, None)
        return Bags(given, indices, None, bag_of or _searched(emit, given), sizes)

    def spread(self, emit: Written, x: fx.Node) -> fx.Node:
        """For each index, the row of its bag."""
        if self.length is None:
            return emit(_aten.index_select.default, x, 0, self.bag_of)
        return emit(_aten.expand.default, _inside(emit, x, 1), [-1, self.length, -1])

    def summed(self, emit: Written, rows: fx.Node) -> fx.Node:
        """For each bag, the sum of what its indices have."""
        if self.length is not None:
            return emit(_aten.sum.dim_IntList, rows, [1])
        others = [emit.size(rows, dim) for dim in range(1, rows.meta["val"].dim())]
        zeros = emit.filled([emit.size(_starts(emit, self.given), 0), *others], 0, rows)
        return emit(_aten.index_put.default, zeros, [self.bag_of], rows, True)

    def weighted(self, emit: Written, rows: fx.Node) -> fx.Node:
        """Each row by its weight, if they have any."""
        weights = self.given["per_sample_weights"]
        if weights is None:
            return rows
        if self.length is not None:
            weights = _by_bag(emit, weights, self.length)
        factors = _inside(emit, emit.wide(weights), -1)
        return emit(_aten.mul.Tensor, emit.wide(rows), factors)

    def without_padding(self, emit: Written, rows: fx.Node) -> fx.Node:
        """Nothing for the index that pads."""
        if self.given["padding_idx"] < 0:
            return rows
        kept = _inside(emit, self._counted(emit), -1)
        return emit(_aten.where.self, kept, rows, emit.filled([], 0, rows))

    def divided(self, emit: Written, sums: fx.Node) -> fx.Node:
        """What each bag has by how many are in it; of those in which nothing is, as it is."""
        if self.sizes is not None:
            is_longer = not _are_same(self.sizes.meta["val"].shape, sums.meta["val"].shape[:1])
            number = _cut(emit, self.sizes, 0, -1) if is_longer else self.sizes
        elif self.given["padding_idx"] >= 0:
            counted = self._counted(emit)
            number = self.summed(emit, emit(_aten._to_copy.default, counted, dtype=torch.int64))
        elif self.length is not None:
            return emit(_aten.div.Scalar, sums, self.length)
        else:
            number = emit(_aten.sub.Tensor, _ends(emit, self.given), _starts(emit, self.given))
        number = emit(_aten.clamp_min.default, number, 1)
        return emit(_aten.div.Tensor, sums, _inside(emit, number, -1))

    def _counted(self, emit: Written) -> fx.Node:
        """Which indices do not pad."""
        return emit(_aten.ne.Scalar, self.indices, self.given["padding_idx"])


def _inside(emit: Written, x: fx.Node, dim: int) -> fx.Node:
    return emit(_aten.unsqueeze.default, x, dim)


def _length(emit: Written, number: int | torch.SymInt, given: dict[str, Any]) -> _Size | None:
    """The length of all bags; None where they may have several."""
    indices, offsets = given["indices"], given["offsets"]
    if isinstance(number, int) and number == 1:
        return emit.size(indices, 0)
    if offsets.target is not _aten.arange.start_step or offsets.args[0] != 0:
        return None
    step = offsets.args[2] if len(offsets.args) > 2 else 1
    length = step.meta["val"] if isinstance(step, fx.Node) else step
    is_all = statically_known_true(number * length == indices.meta["val"].shape[0])
    return step if is_all else None


def _by_bag(emit: Written, x: fx.Node, length: _Size) -> fx.Node:
    """What indices have, a row for each bag, as it was before F.embedding_bag made it flat."""
    rows = emit(_aten.view.default, x, [-1, length])
    found, source = rows, x
    while source.target in _SAME:
        source = source.args[0]  # type: ignore[assignment]
        if _are_same(source.meta["val"].shape, rows.meta["val"].shape):
            found = source
    return found


def _are_same(left: torch.Size, right: torch.Size) -> bool:
    return len(left) == len(right) and all(
        statically_known_true(mine == other) for mine, other in zip(left, right, strict=True)
    )


def _searched(emit: Written, given: dict[str, Any]) -> fx.Node:
    """The bag of each index: how many of the others begin at it or before."""
    starts, offsets = _starts(emit, given), given["offsets"].meta["val"]
    numbers = (0, emit.size(given["indices"], 0), 1)
    how = {"dtype": offsets.dtype, "device": offsets.device, "pin_memory": False}
    places = emit(_aten.arange.start_step, *numbers, **how)
    return emit(SEARCH, _cut(emit, starts, 1, None), places, right=True)


def _starts(emit: Written, given: dict[str, Any]) -> fx.Node:
    """Where bags begin."""
    offsets: fx.Node = given["offsets"]
    return _cut(emit, offsets, 0, -1) if given["include_last_offset"] else offsets


def _ends(emit: Written, given: dict[str, Any]) -> fx.Node:
    """Where bags end."""
    offsets, indices = given["offsets"], given["indices"]
    others = _cut(emit, offsets, 1, None)
    if given["include_last_offset"]:
        return others
    last = emit.filled([1], emit.size(indices, 0), offsets)
    return emit(_aten.cat.default, [others, last])


def _cut(emit: Written, x: fx.Node, start: int, end: int | None) -> fx.Node:
    return emit(_aten.slice.Tensor, x, 0, start, 2**63 - 1 if end is None else end)
