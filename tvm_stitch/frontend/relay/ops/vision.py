"""Detection operators: anchors, suppression of overlapping boxes, regions of interest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import Expr, OpCall, OperatorFunction, dims, rank


def _numbers(call: OpCall, name: str, default: list[float]) -> list[float]:
    value = call.attrs.get(name, default)
    value = value if isinstance(value, list) else [value]
    return [float(item) for item in value]


def _multibox_prior(call: OpCall) -> Expr:
    """Anchors for each pixel: all sizes with the first ratio, then the first size with the rest."""
    call.expect(1)
    height, width = dims(call[0])[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        raise RelayError("anchors of a symbolic image size are not read")
    sizes, ratios = _numbers(call, "sizes", [1.0]), _numbers(call, "ratios", [1.0])
    steps, offsets = _numbers(call, "steps", [-1, -1]), _numbers(call, "offsets", [0.5, 0.5])
    step_y = steps[0] if steps[0] > 0 else 1.0 / height
    step_x = steps[1] if steps[1] > 0 else 1.0 / width
    center_y, center_x = np.meshgrid(
        (np.arange(height) + offsets[0]) * step_y,
        (np.arange(width) + offsets[1]) * step_x,
        indexing="ij",
    )
    boxes = []
    for i in range(len(sizes) + len(ratios) - 1):
        size = sizes[i] if i < len(sizes) else sizes[0]
        stretch = 1.0 if i < len(sizes) else math.sqrt(ratios[i - len(sizes) + 1])
        half_w, half_h = size * height / width * stretch / 2, size / stretch / 2
        boxes.append(
            np.stack(
                [center_x - half_w, center_y - half_h, center_x + half_w, center_y + half_h], -1
            )
        )
    anchors: np.ndarray = np.stack(boxes, 2).reshape(1, -1, 4)
    if call.attrs.flag("clip"):
        anchors = np.clip(anchors, 0.0, 1.0)
    return call.emit(call.constant(anchors, "float32"))


def _get_valid_counts(call: OpCall) -> Expr:
    """The threshold was an attribute up to 0.7."""
    call.expect(1, 2)
    threshold = call.attrs.number("score_threshold", 0.0)
    if len(call) == 2:
        threshold = call.scalar(1, "the score threshold")
    identity, score = call.attrs.integer("id_index", 0), call.attrs.integer("score_index", 1)
    return call.te(lambda a: topi.vision.get_valid_counts(a, threshold, identity, score), call[0])


def _non_max_suppression(call: OpCall) -> Expr:
    """The limits were attributes up to 0.7."""
    call.expect(3, 5)
    attrs = call.attrs
    limit, overlap = attrs.integer("max_output_size", -1), attrs.number("iou_threshold", 0.5)
    if len(call) == 5:
        limit, overlap = int(call.scalar(3, "the limit")), call.scalar(4, "the overlap threshold")
    force, top = attrs.flag("force_suppress"), attrs.integer("top_k", -1)
    columns = [
        attrs.integer("coord_start", 2),
        attrs.integer("score_index", 1),
        attrs.integer("id_index", 0),
    ]
    flags = [attrs.flag("return_indices", True), attrs.flag("invalid_to_bottom")]

    def expression(data: Any, count: Any, indices: Any) -> Any:
        return topi.vision.non_max_suppression(
            data, count, indices, limit, overlap, force, top, *columns, *flags
        )

    return call.te(expression, call[0], call[1], call[2])


def _region(compute: Callable[..., Any], is_align: bool) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(2)
        attrs = call.attrs
        size, scale = attrs.integers("pooled_size") or [], attrs.number("spatial_scale", 1.0)
        size = size * 2 if len(size) == 1 else size
        layout = attrs.text("layout", "NCHW")
        layouts.check(layout, "NCHW", "layout")
        if len(size) != 2 or rank(call[1]) != 2:
            raise RelayError(f"pooled_size {size} or the shape of the regions does not fit")
        more: list[Any] = []
        if is_align:
            more = [attrs.text("mode", "avg"), attrs.integer("sample_ratio", -1)]
        data = layouts.rearrange(call, call[0], layout, "NCHW")
        result = call.te(lambda a, rois: compute(a, rois, size, scale, *more), data, call[1])
        return layouts.rearrange(call, result, "NCHW", layout)

    return operator


OPERATORS: dict[str, OperatorFunction] = {
    "vision.get_valid_counts": _get_valid_counts,
    "vision.multibox_prior": _multibox_prior,
    "vision.non_max_suppression": _non_max_suppression,
    "vision.roi_align": _region(topi.vision.roi_align, True),
    "vision.roi_pool": _region(topi.vision.roi_pool, False),
}
