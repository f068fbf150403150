"""Image operators: resizing, cropping, sampling by a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import Expr, OpCall, OperatorFunction, dtype, is_float

_RESIZE: dict[int, tuple[Callable[..., Any], str]] = {
    1: (topi.image.resize1d, "NCW"),
    2: (topi.image.resize2d, "NCHW"),
    3: (topi.image.resize3d, "NCDHW"),
}
# image.resize, which resize2d replaced in 0.8, had other names for the same methods.
_METHODS = {"bilinear": "linear", "bicubic": "cubic", "trilinear": "linear"}


def resize(call: OpCall, count: int, size: list[Any], roi: list[float]) -> Expr:
    """A resize of the spatial axes to a known size."""
    attrs = call.attrs
    compute, plain = _RESIZE[count]
    layout = attrs.text("layout", plain)
    layouts.check(layout, plain, "layout")
    method = attrs.text("method", "linear")
    method = _METHODS.get(method, method)
    mode = attrs.text("coordinate_transformation_mode", "half_pixel")
    # An empty string is a choice of its own: it leaves the rounding to the mode.
    rounding = attrs.get("rounding_method", "round")
    alpha, exclude = attrs.number("cubic_alpha", -0.5), attrs.integer("cubic_exclude", 0)
    alpha = attrs.number("bicubic_alpha", alpha)
    exclude = attrs.integer("bicubic_exclude", exclude)
    outside = attrs.number("extrapolation_value", 0.0)
    out_dtype = attrs.text("out_dtype") or dtype(call[0])
    if len(size) != count or not all(isinstance(extent, int) for extent in size):
        raise RelayError(f"size {size} does not fit {count} spatial axes")
    if mode == "tf_crop_and_resize" and len(roi) != 2 * count:
        raise RelayError(f"roi {roi} does not fit {count} spatial axes")
    region = roi or [0.0] * (2 * count)
    data = layouts.rearrange(call, call[0], layout, plain)

    def expression(a: Any) -> Any:
        return compute(
            a, region, size, plain, method, mode, rounding, alpha, exclude, outside, out_dtype
        )

    return layouts.rearrange(call, call.te(expression, data), plain, layout)


def _resize(count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        size = call.attrs.integers("size") or []
        roi = [float(bound) for bound in call.attrs.get("roi", [])]
        return resize(call, count, size, roi)

    return operator


def _crop_and_resize(call: OpCall) -> Expr:
    call.expect(3)
    attrs = call.attrs
    size, layout = attrs.integers("crop_size") or [], attrs.text("layout", "NCHW")
    method, outside = attrs.text("method", "bilinear"), attrs.number("extrapolation_value", 0.0)
    out_dtype = attrs.text("out_dtype") or dtype(call[0])
    if len(size) != 2:
        raise RelayError(f"crop_size {size} is not a height and a width")
    data = layouts.rearrange(call, call[0], layout, "NCHW")

    def expression(a: Any, boxes: Any, indices: Any) -> Any:
        return topi.image.crop_and_resize(
            a, boxes, indices, size, "NCHW", method, outside, out_dtype
        )

    return layouts.rearrange(call, call.te(expression, data, call[1], call[2]), "NCHW", layout)


def _affine_grid(call: OpCall) -> Expr:
    call.expect(1)
    shape = call.attrs.integers("target_shape") or []
    return call.te(lambda a: topi.image.affine_grid(a, shape), call[0])


def _grid_sample(call: OpCall) -> Expr:
    call.expect(2)
    attrs = call.attrs
    method, layout = attrs.text("method", "bilinear"), attrs.text("layout", "NCHW")
    padding, align = attrs.text("padding_mode", "zeros"), attrs.flag("align_corners", True)
    if not is_float(dtype(call[0])):
        raise RelayError(f"the data must be floating point, not {dtype(call[0])}")

    def expression(a: Any, grid: Any) -> Any:
        return topi.image.grid_sample(a, grid, method, layout, padding, align)

    return call.te(expression, call[0], call[1])


OPERATORS: dict[str, OperatorFunction] = {
    "image.affine_grid": _affine_grid,
    "image.crop_and_resize": _crop_and_resize,
    "image.grid_sample": _grid_sample,
    "image.resize": _resize(2),
    "image.resize1d": _resize(1),
    "image.resize2d": _resize(2),
    "image.resize3d": _resize(3),
}
