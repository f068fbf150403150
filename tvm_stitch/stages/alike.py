"""Whether stages reduce the same places, and their axes as each other's.

In: Stages, or values of one. Must not know what is reduced there.
"""

from __future__ import annotations

from tvm import ir, tirx

from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    bind_axes,
    constant,
    same_size,
)

Axes = tuple[tuple[Var, ...], tuple[Expr, ...]]  # and their extents


def matched(one: Axes, other: Axes) -> dict[Var, Expr] | None:
    """Axes as others of the same lengths, whatever axes of one element there are besides."""
    wide, own = (
        [(axis, size) for axis, size in zip(*axes, strict=True) if constant(size) != 1]
        for axes in (one, other)
    )
    if len(wide) != len(own) or any(
        not same_size(a, b) for (_, a), (_, b) in zip(wide, own, strict=True)
    ):
        return None
    zero = dict.fromkeys(one[0], tirx.IntImm("int64", 0))
    return zero | {a: b for (a, _), (b, _) in zip(wide, own, strict=True)}


def reduces_alike(stage: Stage, other: Stage) -> dict[Var, Expr] | None:
    """The axes of another reduction as those of a stage, if both reduce the same places."""
    own = matched((other.axes, other.extents), (stage.axes, stage.extents))
    inside = matched((other.reduced, other.reduced_extents), (stage.reduced, stage.reduced_extents))
    return None if own is None or inside is None else own | inside


def same_load(stage: Stage, one: Expr, other: Expr) -> bool:
    """Whether two values of a stage are loads of the same place."""
    if not isinstance(one, ir.TensorLoad) or not one.source.same_as(other.source):
        return False
    analyzer = bind_axes(stage)
    pairs = zip(one.indices, other.indices, strict=True)
    return all(analyzer.can_prove_equal(a, b) for a, b in pairs)
