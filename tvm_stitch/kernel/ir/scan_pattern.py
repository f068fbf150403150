"""Running sums and products: reductions of all elements up to an element's own, or from it on.

In: a Stage. Out: what it accumulates at each element, or None. TIR says a scan as a reduction over
the elements of its row, of which those on one side of an element's own count for nothing: right
whoever computes it, and quadratic unless this is seen. Must not know threads.
"""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Stage, bind_axes, same_size, substitute

SCANNED = ("sum", "prod")


def is_scan(stage: Stage) -> bool:
    """Whether a reduction is a scan along the last axis."""
    return scan_of(stage) is not None


@memoized
def scan_of(stage: Stage) -> Stage | None:
    """The scan as an element-wise stage: what each element adds, and how that is accumulated."""
    value = stage.value
    if stage.combiner not in SCANNED or not stage.axes or not isinstance(value, tirx.Select):
        return None
    if len(stage.reduced) != 1 or not same_size(stage.reduced_size, stage.extents[-1]):
        return None
    inside, own = stage.reduced[0], stage.axes[-1]
    analyzer = bind_axes(stage)
    from_end = analyzer.can_prove_equal(value.condition, own <= inside)
    if not from_end and not analyzer.can_prove_equal(value.condition, inside <= own):
        return None
    nothing = stage.identity.astype(value.false_value.ty.dtype)
    if not tvm_ffi.structural_equal(value.false_value, nothing):
        return None
    if any(var.same_as(own) for var in tirx.analysis.undefined_vars(value.true_value)):
        return None
    return replace(
        stage,
        value=substitute(value.true_value, {inside: own}),
        reduced=(),
        reduced_extents=(),
        combiner="",
        scan=stage.combiner,
        from_end=from_end,
    )
