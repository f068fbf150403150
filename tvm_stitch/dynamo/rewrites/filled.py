"""Memory that is only filled, with a number or with a tensor, is made filled.

In: a functional graph with FakeTensors. Out: the same graph with fewer calls. PyTorch writes a
number beside a tensor, the margin of a loss or a gradient of one, as `full_like` of an `empty`
tensor: memory as large as the tensor's, which PyTorch would allocate for our part to read nothing
of. A number that is written into a slice is a tensor of its own on the CPU, which PyTorch would
copy to a GPU at every call. Before it writes into a gradient, autograd copies that into
memory that it asks the gradient for: PyTorch's operator between two parts, which would be one.
Caches begin as a vector of no elements, which PyTorch skips where others are joined to it: what is
joined to nothing else is a copy (28 us by `cat` on an H200, for 8 MB of keys). Must not know what
becomes of the graph.
"""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tvm_stitch.frontend.torch.layout import is_laid

_aten = torch.ops.aten
_EMPTY = (_aten.empty_permuted.default, _aten.empty.memory_format)
_EMPTY_BESIDE = _aten.new_empty_strided.default
_COPY = _aten.copy.default
_FILLED = (_aten.full_like.default, _aten.fill.Scalar)
_WRITES = (_aten.fill.Tensor, _COPY)
_SCATTERS = (_aten.slice_scatter.default, _aten.select_scatter.default)
_JOINED = _aten.cat.default
_LIFTED = _aten.lift_fresh_copy.default


def with_filled(graph: fx.Graph) -> None:
    """Put `full` where a tensor without values is filled, `clone` where it is with a tensor."""
    for target in _EMPTY:
        for empty in graph.find_nodes(op="call_function", target=target):
            for fill in [user for user in empty.users if _fills(user, empty)]:
                _replace(graph, fill, empty.args[0], fill.args[1])
            if not empty.users:
                graph.erase_node(empty)
    for empty in graph.find_nodes(op="call_function", target=_EMPTY_BESIDE):
        for copy in [user for user in empty.users if _is_whole_copy(user, empty)]:
            copy.target, copy.args = _aten.clone.default, (copy.args[1],)
            copy.kwargs = {"memory_format": torch.contiguous_format}
        if not empty.users:
            graph.erase_node(empty)
    for joined in graph.find_nodes(op="call_function", target=_JOINED):
        _join_what_there_is(joined)
    for lifted in graph.find_nodes(op="call_function", target=_LIFTED):
        number = _number(lifted)
        for write in [user for user in lifted.users if _writes(user, lifted)]:
            if number is not None:
                _replace(graph, write, list(write.meta["val"].shape), number)
        if not lifted.users:
            graph.erase_node(lifted)


def _fills(call: fx.Node, empty: fx.Node) -> bool:
    """Whether a call asks nothing of the memory, and its result lies as its dimensions do."""
    if call.target not in _FILLED or call.args[0] is not empty:
        return False
    return isinstance(call.args[1], (bool, int, float)) and _lies_plain(call)


def _is_whole_copy(call: fx.Node, empty: fx.Node) -> bool:
    """Whether a call copies a tensor as it is, and its result lies as its dimensions do."""
    if call.target is not _COPY or call.args[0] is not empty or len(call.args) > 2:
        return False
    value, source = call.meta["val"], call.args[1].meta["val"]  # type: ignore[union-attr]
    alike = value.dtype is source.dtype and str(value.shape) == str(source.shape)
    return alike and value.device == source.device and _lies_plain(call)


def _join_what_there_is(call: fx.Node) -> None:
    """Leave out what a call of `cat` skips; with one tensor left it is a copy."""
    tensors, value = call.args[0], call.meta["val"]
    assert isinstance(tensors, (list, tuple))
    kept = [each for each in tensors if not _is_skipped(each.meta["val"], value)]  # type: ignore[union-attr]
    if not kept or len(kept) == len(tensors):
        return
    (first, *others), alike = kept, kept[0].meta["val"].dtype is value.dtype  # type: ignore[union-attr]
    if others:
        call.update_arg(0, kept)
    elif alike and _lies_plain(call):
        call.target, call.args = _aten.clone.default, (first,)
        call.kwargs = {"memory_format": torch.contiguous_format}


def _is_skipped(tensor: torch.Tensor, joined: torch.Tensor) -> bool:
    """Whether a tensor is a vector of no elements among others of more dimensions."""
    return joined.dim() > 1 and tensor.dim() == 1 and str(tensor.shape[0]) == "0"


def _writes(call: fx.Node, lifted: fx.Node) -> bool:
    """Whether a call makes a tensor of known sizes of a number, whatever was there.

    PyTorch 2.11 traces what is written into a slice with the slice's gaps, which nobody sees.
    """
    if call.target not in _WRITES or call.args[0] is lifted:
        return False
    is_known = all(isinstance(extent, int) for extent in call.meta["val"].shape)
    return is_known and (_lies_plain(call) or all(user.target in _SCATTERS for user in call.users))


def _lies_plain(call: fx.Node) -> bool:
    value = call.meta["val"]
    return is_laid(value, tuple(range(value.dim())))


def _number(lifted: fx.Node) -> bool | int | float | None:
    """The number that a constant of the graph's is, if it is a single one."""
    constant = lifted.args[0]
    assert isinstance(constant, fx.Node)
    if constant.op != "get_attr":
        return None
    tensor = attrgetter(str(constant.target))(constant.graph.owning_module)
    if not isinstance(tensor, torch.Tensor) or tensor.dim() or tensor.device.type != "cpu":
        return None
    with unset_fake_temporarily():
        number = tensor.item()
    return number if isinstance(number, (bool, int, float)) else None


def _replace(graph: fx.Graph, fill: fx.Node, size: object, number: object) -> None:
    value = fill.meta["val"]
    with graph.inserting_before(fill):
        full = graph.call_function(
            _aten.full.default,
            (size, number),
            {"dtype": value.dtype, "device": value.device},
        )
    with value.fake_mode:
        full.meta = fill.meta | {"val": value.new_empty(value.shape)}
    fill.replace_all_uses_with(full)
    graph.erase_node(fill)
