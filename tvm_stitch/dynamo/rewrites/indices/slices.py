"""Indices that count along a dimension are slices of it.

In: a functional graph with FakeTensors. Out: the same graph; what was read or written at `arange`
is a slice, in the gradient as well. Of indices nobody knows in a kernel that they name each place
once, and PyTorch sorts those that it adds at: for the three shifts of an XLNet's step it takes 2400
of 3600 us on an H200. Indices that are out of bounds, or count from the end, stay what they are.
Must not know what becomes of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.indices.counted import counted, is_zero, let_go
from tvm_stitch.frontend.torch.rewrites.calls import Calls

_aten = torch.ops.aten
_GRADIENT = _aten.embedding_dense_backward.default


def with_slices(graph: fx.Graph) -> None:
    """Put slices where indices count."""
    for target in (_aten.embedding.default, _aten.index.Tensor, _aten.index_select.default):
        for node in graph.find_nodes(op="call_function", target=target):
            _read(node)
    for node in graph.find_nodes(op="call_function", target=_aten.index_put.default):
        x, indices, values, *accumulate = node.args
        _write(node, x, indices, values, bool(accumulate and accumulate[0]))
    for node in graph.find_nodes(op="call_function", target=_GRADIENT):
        _add_rows(node)


@dataclass(frozen=True)
class _Slices:
    """What indices name: of each indexed dimension a range.

    Dimensions of the indices of one element are no dimensions of the slices, and ranges of one
    number none of the indices: the numbers say where each of these is.
    """

    along: tuple[tuple[int, range], ...]
    dropped: list[int]  # of the slices
    added: list[int]  # of what the indices stand for
    of_indices: tuple[int, ...]
    first: int

    @staticmethod
    def of(indices: Sequence[fx.Node | None], x: torch.Tensor) -> _Slices | None:
        """The slices, if indices of adjacent dimensions count, each along one of its own."""
        axes = [axis for axis, index in enumerate(indices) if index is not None]
        given = [(axis, _run(indices[axis], x.shape[axis])) for axis in axes]
        runs = [(axis, run) for axis, run in given if run is not None]
        if len(runs) != len(axes) or axes != list(range(axes[0], axes[0] + len(axes))):
            return None
        shapes = [index.meta["val"].shape for index in indices if index is not None]
        together = torch.broadcast_shapes(*shapes)
        varying = [
            len(together) - len(shape) + dim
            for shape in shapes
            for dim, extent in enumerate(shape)
            if extent != 1
        ]
        if varying != sorted(set(varying)):
            return None
        return _Slices(
            tuple(runs),
            [axis for axis, run in runs if len(run) == 1],
            [axes[0] + dim for dim, extent in enumerate(together) if extent == 1],
            tuple(together),
            axes[0],
        )

    def whole(self, x: torch.Tensor) -> Sequence[int]:
        """The shape of what the indices name."""
        return (*x.shape[: self.first], *self.of_indices, *x.shape[self.first + len(self.along) :])


def _run(index: fx.Node | None, extent: object) -> range | None:
    """The places that an index names along a dimension of its own, if all are there."""
    found = counted(index)
    run = None if found is None else found.run
    if index is None or run is None or not isinstance(extent, int):
        return None
    if sum(each != 1 for each in index.meta["val"].shape) > 1:
        return None
    return run if run[0] >= 0 and run[-1] < extent else None


def _read(node: fx.Node) -> None:
    """Elements at indices as a slice; in memory of its own, as PyTorch gives them."""
    x, indices = _read_at(node)
    slices = _Slices.of(indices, x.meta["val"]) if indices else None
    if slices is None:
        return
    calls, found = Calls(node), x
    for axis, run in slices.along:
        found = _sliced(calls, found, axis, run)
    found = _with_dimensions(calls, found, slices.dropped, slices.added)
    found = calls(_aten.clone.default, found, memory_format=torch.contiguous_format)
    _put(node, calls, found, indices)


def _read_at(node: fx.Node) -> tuple[fx.Node, Sequence[fx.Node | None]]:
    """What is read, and an index for each dimension; none where there is no dimension."""
    if node.target is _aten.index.Tensor:
        return node.args[0], node.args[1]  # type: ignore[return-value]
    if node.target is _aten.embedding.default:
        return node.args[0], [node.args[1]]  # type: ignore[return-value, list-item]
    x, dim, index = node.args
    rank = x.meta["val"].dim()  # type: ignore[union-attr]
    if not rank or not index.meta["val"].dim():  # type: ignore[union-attr]
        return x, []  # type: ignore[return-value]
    return x, [*[None] * (dim % rank), index]  # type: ignore[return-value, list-item, operator]


def _sliced(calls: Calls, x: fx.Node, axis: int, run: range) -> fx.Node:
    if _is_whole(x, axis, run):
        return x
    return calls(_aten.slice.Tensor, x, axis, run[0], run[-1] + 1, run.step)


def _is_whole(x: fx.Node, axis: int, run: range) -> bool:
    return len(run) == x.meta["val"].shape[axis]


def _with_dimensions(
    calls: Calls, x: fx.Node, dropped: Sequence[int], added: Sequence[int]
) -> fx.Node:
    """A tensor without some of its dimensions of one element, then with others."""
    if list(dropped) == list(added):
        return x
    if dropped:
        x = calls(_aten.squeeze.dims, x, list(dropped))
    for axis in added:
        x = calls(_aten.unsqueeze.default, x, axis)
    return x


def _write(
    node: fx.Node, x: fx.Node, indices: Sequence[fx.Node | None], values: fx.Node, adds: bool
) -> None:
    """Values at indices, or added there, as those of a slice."""
    whole = x.meta["val"]
    slices = _Slices.of(indices, whole) if whole.dtype is not torch.bool else None
    if slices is None or values.meta["val"].device != whole.device:  # a number may lie elsewhere
        return
    calls, shape = Calls(node), slices.whole(whole)
    if str(list(values.meta["val"].shape)) != str(list(shape)):
        if not all(isinstance(extent, int) for extent in shape):
            return
        values = calls(_aten.expand.default, values, list(shape))
    part = _with_dimensions(calls, values, slices.added, slices.dropped)
    within = [x]
    for axis, run in slices.along:
        within.append(_sliced(calls, within[-1], axis, run))
    is_view = not adds or is_zero(x)
    if not is_view:
        part = calls(_aten.add.Tensor, within[-1], part)
    for around, (axis, run) in zip(reversed(within[:-1]), reversed(slices.along), strict=True):
        if not _is_whole(around, axis, run):
            place = axis, run[0], run[-1] + 1, run.step
            part, is_view = calls(_aten.slice_scatter.default, around, part, *place), False
    if is_view:  # results have memory of their own
        part = calls(_aten.clone.default, part, memory_format=torch.contiguous_format)
    _put(node, calls, part, indices)


def _add_rows(node: fx.Node) -> None:
    """The gradient of rows of an embedding that are counted, each of which is there once."""
    gradient, index, rows, padding, _scaled = node.args
    value, run = gradient.meta["val"], _run(index, rows)  # type: ignore[union-attr]
    if run is None or type(padding) is not int or padding in run:
        return
    calls, columns = Calls(node), value.shape[-1]
    if not isinstance(columns, int):
        return
    zeros = calls(_aten.full.default, [rows, columns], 0, dtype=value.dtype, device=value.device)
    at = index.meta["val"].dim()  # type: ignore[union-attr]
    ones = [dim for dim in range(at) if value.shape[dim] == 1]
    part = _with_dimensions(calls, gradient, ones, [0] if len(run) == 1 else [])  # type: ignore[arg-type]
    if len(run) != rows:
        place = 0, run[0], run[-1] + 1, run.step
        part = calls(_aten.slice_scatter.default, zeros, part, *place)
    else:
        part = calls(_aten.clone.default, part, memory_format=torch.contiguous_format)
    _put(node, calls, part, [index])  # type: ignore[list-item]


def _put(node: fx.Node, calls: Calls, result: fx.Node, indices: Sequence[fx.Node | None]) -> None:
    if calls.replace_by(result):
        for index in {index: None for index in indices if index is not None}:
            let_go(index)
