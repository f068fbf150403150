"""When writing an operator out as stages is worth it.

Comes in: a call of a compound operator. Goes out: yes or no, from its attributes, dtype and rank.
"""

from __future__ import annotations

from tvm.ir import Call

from tvm_stitch.graph.front.decompose.stages import (
    are_trailing,
    dtype_of,
    normalized_axes,
    rank_of,
    shape_of,
)

_LEGALISED_WELL = {
    "relax.nn.layer_norm": {"float16", "float32"},
    "relax.nn.group_norm": {"float16", "float32"},
    "relax.nn.instance_norm": {"float32"},
    "relax.nn.rms_norm": {"float16", "bfloat16", "float32", "float64"},
}
"""The dtypes in which TVM's own legalisation of a norm works. It refuses layer and group norm in
bfloat16 and float64, and counts the elements of an instance norm in float16, where 256 x 256 is
infinite. Everything else reduces in the dtype of its data, which a half type is too narrow for."""

_LEGALISED_WELL_ELSEWHERE = {"float32", "float64"}


def worth_decomposing(call: Call) -> bool:
    """Whether this compound operator should be written out as stages.

    An element-wise operator always: its stages fuse again whatever comes after. One that reduces
    over trailing axes always: its rows lie contiguous, which is what stitching is best at, and
    the default path has a schedule for every stage. Batch norm always: of its training form the
    default path makes one block with one thread a channel, of its separate means a block a
    channel. Group norm always: with channels last, 8 x 64 x 64 x 320 halves take the default path
    1742 us on an H200, nearly all of it in a kernel of one block. Any other only where TVM's own
    legalisation refuses the dtype or accumulates in half precision: there, being right comes
    first. Otherwise it stays whole, because kernels for its separate stages would read strided
    memory more often than the one that TVM makes of it.
    """
    axes = reduction_axes(call)
    if not axes or call.op.name == "relax.nn.batch_norm":
        return True
    if are_trailing(axes, shape_of(call.args[0])) or call.op.name == "relax.nn.group_norm":
        return True
    dtypes = _LEGALISED_WELL.get(call.op.name, _LEGALISED_WELL_ELSEWHERE)
    return dtype_of(call.args[0]) not in dtypes


def legalised_well(call: Call) -> bool:
    """Whether TVM's own legalisation of an operator left whole works in the dtype of its data."""
    dtype = dtype_of(call.args[0])
    return dtype in _LEGALISED_WELL.get(call.op.name, {dtype})


def reduction_axes(call: Call) -> list[int]:
    """The axes of its first argument that an operator reduces over; none if it is element-wise."""
    name, attributes, rank = call.op.name, call.attrs, rank_of(call.args[0])
    if name in ("relax.nn.softmax", "relax.nn.log_softmax"):
        return normalized_axes([attributes.axis], rank)
    if name in ("relax.nn.layer_norm", "relax.nn.rms_norm", "relax.nn.instance_norm"):
        return normalized_axes(attributes.axes, rank)
    if name == "relax.nn.group_norm":
        # The group is a part of the channel axis.
        return normalized_axes([attributes.channel_axis, *attributes.axes], rank)
    if name == "relax.nn.batch_norm":
        channel = int(attributes.axis) % rank
        return [axis for axis in range(rank) if axis != channel] if attributes.training else []
    if name in _STATISTICS:
        return normalized_axes(attributes.axis, rank)
    if name == "relax.nn.nll_loss":
        return [] if rank == 1 else [1]
    if name == "relax.nn.cross_entropy_with_logits":
        return list(range(rank))
    return []


_STATISTICS = {"relax.sum", "relax.prod", "relax.mean", "relax.variance", "relax.std"}
