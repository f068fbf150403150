"""Losses as gathers, products and reductions."""

from __future__ import annotations

from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax import op
from tvm.tirx import IntImm

from tvm_stitch.graph.front.decompose.stages import Stages, dtype_of, rank_of, shape_of


def cross_entropy_with_logits(call: Call, stage: Stages) -> Expr:
    """-sum(predictions * labels), divided by the batch where there is one."""
    predictions, labels = (stage.widen(argument) for argument in call.args)
    products = stage(op.multiply, predictions, labels)
    rank = rank_of(predictions)
    if rank == 1:
        total = stage(op.sum, products)
    else:
        # Sample by sample first: rows that are stitched to whatever made the predictions.
        total = stage(op.mean, stage(op.sum, products, axis=list(range(1, rank))))
    return stage.result(dtype_of(call), op.negative, total)


def nll_loss(call: Call, stage: Stages) -> Expr | None:
    """-predictions[n, target] * weight[target], summed, averaged by weight, or as it is."""
    predictions, targets = call.args[:2]
    if dtype_of(targets) not in ("int32", "int64"):
        return None
    zero = relax.const(0, dtype_of(targets))
    ignored = relax.const(int(call.attrs.ignore_index), dtype_of(targets))
    is_counted = stage(op.not_equal, targets, ignored)
    # An ignored target may be no class at all, and must not be looked up.
    classes = stage(op.where, is_counted, targets, zero)

    picked = _picked(predictions, classes, stage)
    nothing = relax.const(0.0, dtype_of(picked))
    if len(call.args) == 3:
        weights = stage(op.take, stage.widen(call.args[2]), classes, axis=0, mode="fast")
        picked = stage(op.multiply, picked, weights)
        counts = stage(op.where, is_counted, weights, nothing)
    else:
        counts = stage(op.astype, is_counted, dtype=dtype_of(picked))
    losses = stage(op.where, is_counted, stage(op.negative, picked), nothing)

    reduction = call.attrs.reduction
    if reduction == "none":
        return stage.cast(losses, dtype_of(call))
    if rank_of(targets) > 0:
        losses, counts = stage(op.sum, losses), stage(op.sum, counts)
    if reduction == "sum":
        return stage.cast(losses, dtype_of(call))
    return stage.result(dtype_of(call), op.divide, losses, counts)


def _picked(predictions: Expr, classes: Expr, stage: Stages) -> Expr:
    """The prediction for the class of every sample."""
    shape = shape_of(predictions)
    axis = 0 if len(shape) == 1 else 1
    if len(shape) == 2 and isinstance(shape[1], IntImm) and stage.made_by(predictions) in _ROWS:
        # The row is being computed right here: masking it costs nothing, a gather would have to
        # write it out and come back for one element.
        match = stage(op.one_hot, classes, on_value=1, off_value=0, depth=int(shape[1]))
        zero = relax.const(0.0, dtype_of(predictions))
        chosen = stage(op.where, stage(op.astype, match, dtype="bool"), predictions, zero)
        return stage(op.sum, stage.widen(chosen), axis=1)
    column = stage(op.expand_dims, classes, axis=axis)
    chosen = stage(op.squeeze, stage(op.gather_elements, predictions, column, axis=axis), axis=axis)
    return stage.widen(chosen)


_ROWS = frozenset({"relax.nn.log_softmax", "relax.nn.softmax", "relax.log"})
