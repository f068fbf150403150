"""Pooling: by windows, global, adaptive; and upsampling, which goes the other way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import Expr, OpCall, OperatorFunction, dims, dtype
from tvm_stitch.frontend.relay.ops.layers.conv import padding_of, per_axis
from tvm_stitch.graph.front.pooling.adaptive import are_uneven, reduced_shares
from tvm_stitch.stages.stage import constant

_op = relax.op
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
# Relay's; today's topi has another default.
_CUBIC_ALPHA = -0.5
_WINDOWED: dict[tuple[str, int], Callable[..., Any]] = {
    ("max", 1): _op.nn.max_pool1d,
    ("max", 2): _op.nn.max_pool2d,
    ("max", 3): _op.nn.max_pool3d,
    ("avg", 1): _op.nn.avg_pool1d,
    ("avg", 2): _op.nn.avg_pool2d,
    ("avg", 3): _op.nn.avg_pool3d,
}


def _layout(call: OpCall, count: int) -> tuple[str, str]:
    """The layout of the data and of the result."""
    layout = call.attrs.text("layout", _LAYOUTS[count])
    out_layout = call.attrs.text("out_layout") or layout
    layouts.check(layout, _LAYOUTS[count], "layout")
    layouts.check(out_layout, _LAYOUTS[count], "out_layout")
    return layout, out_layout


def _windowed(kind: str, count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        layout, out_layout = _layout(call, count)
        plain = _LAYOUTS[count]
        if "pool_size" not in call.attrs:
            raise RelayError("attribute pool_size is needed")
        arguments = {
            "pool_size": per_axis(call, "pool_size", count),
            "strides": per_axis(call, "strides", count),
            "padding": padding_of(call, count),
            "dilation": per_axis(call, "dilation", count),
            "ceil_mode": call.attrs.flag("ceil_mode"),
            "layout": plain,
        }
        if kind == "avg":
            arguments["count_include_pad"] = call.attrs.flag("count_include_pad")
        data = layouts.rearrange(call, call[0], layout, plain)
        result = call.emit(_WINDOWED[kind, count](data, **arguments))
        return layouts.rearrange(call, result, plain, out_layout)

    return operator


def _global(function: Callable[..., Expr], count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        layout, out_layout = _layout(call, count)
        plain = layout if layouts.is_plain(layout) else _LAYOUTS[count]
        data = layouts.rearrange(call, call[0], layout, plain)
        result = call.emit(function(data, layouts.spatial_axes(plain), True))
        return layouts.rearrange(call, result, plain, out_layout)

    return operator


def _adaptive(kind: str, count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        layout, out_layout = _layout(call, count)
        plain = _LAYOUTS[count]
        data = layouts.rearrange(call, call[0], layout, plain)
        size = call.attrs.integers("output_size") or dims(data)[2:]
        size = list(size) * count if len(size) == 1 else list(size)
        if len(size) != count:
            raise RelayError(f"output_size {size} does not fit {count} spatial axes")
        if size == [1] * count:
            reduce = _op.mean if kind == "avg" else _op.max
            result = call.emit(reduce(data, layouts.spatial_axes(plain), True))
        else:
            result = call.te(lambda a: _adaptive_compute(a, size, kind, count), data)
        return layouts.rearrange(call, result, plain, out_layout)

    return operator


def _adaptive_compute(data: Any, size: list[int], kind: str, count: int) -> Any:
    axes = range(2, 2 + count)
    if are_uneven([constant(data.shape[axis]) for axis in axes], size):
        return reduced_shares(data, axes, size, kind)
    if count == 1:
        return topi.nn.adaptive_pool1d(data, size, kind, "NCW")
    if count == 2:
        return topi.nn.adaptive_pool(data, size, kind, "NCHW")
    return topi.nn.adaptive_pool3d(data, size, kind, "NCDHW")


def _upsampling(call: OpCall) -> Expr:
    call.expect(1)
    attrs = call.attrs
    scales = [attrs.number("scale_h", 1.0), attrs.number("scale_w", 1.0)]
    return upsample(call, scales)


def upsample(call: OpCall, scales: list[float]) -> Expr:
    """``nn.upsampling`` by known factors."""
    attrs = call.attrs
    layout = attrs.text("layout", "NCHW")
    layouts.check(layout, "NCHW", "layout")
    method = attrs.text("method", "nearest_neighbor")
    align = attrs.flag("align_corners")
    data = layouts.rearrange(call, call[0], layout, "NCHW")
    size = _scaled(dims(data)[2:], scales)

    method = method[2:] if method.startswith("bi") else method
    mode = "align_corners" if align else "asymmetric"

    def compute(a: Any) -> Any:
        return topi.image.resize2d(a, [0.0] * 4, size, "NCHW", method, mode, "", _CUBIC_ALPHA)

    result = call.te(compute, data)
    return layouts.rearrange(call, call.cast(result, dtype(data)), "NCHW", layout)


def _upsampling3d(call: OpCall) -> Expr:
    call.expect(1)
    attrs = call.attrs
    return upsample3d(call, [attrs.number(f"scale_{axis}", 1.0) for axis in "dhw"])


def upsample3d(call: OpCall, scales: list[float]) -> Expr:
    """``nn.upsampling3d`` by known factors."""
    attrs = call.attrs
    layout = attrs.text("layout", "NCDHW")
    layouts.check(layout, "NCDHW", "layout")
    method = attrs.text("method", "nearest_neighbor")
    mode = attrs.text("coordinate_transformation_mode", "half_pixel")
    data = layouts.rearrange(call, call[0], layout, "NCDHW")
    size = _scaled(dims(data)[2:], scales)

    method = method[3:] if method.startswith("tri") else method

    def compute(a: Any) -> Any:
        return topi.image.resize3d(a, [0.0] * 6, size, "NCDHW", method, mode, "", _CUBIC_ALPHA)

    result = call.te(compute, data)
    return layouts.rearrange(call, call.cast(result, dtype(data)), "NCDHW", layout)


def _scaled(shape: list[Any], scales: list[float]) -> list[int]:
    if not all(isinstance(extent, int) for extent in shape):
        raise RelayError("upsampling of a symbolic extent is not read")
    # C's round: halves upwards.
    return [int(extent * scale + 0.5) for extent, scale in zip(shape, scales, strict=True)]


OPERATORS: dict[str, OperatorFunction] = {
    **{f"nn.{kind}_pool{n}d": _windowed(kind, n) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{
        f"nn.adaptive_{kind}_pool{n}d": _adaptive(kind, n)
        for kind in ("max", "avg")
        for n in (1, 2, 3)
    },
    "contrib.adaptive_avg_pool2d": _adaptive("avg", 2),
    "contrib.adaptive_max_pool2d": _adaptive("max", 2),
    "nn.global_avg_pool1d": _global(_op.mean, 1),
    "nn.global_avg_pool2d": _global(_op.mean, 2),
    "nn.global_avg_pool3d": _global(_op.mean, 3),
    "nn.global_max_pool1d": _global(_op.max, 1),
    "nn.global_max_pool2d": _global(_op.max, 2),
    "nn.global_max_pool3d": _global(_op.max, 3),
    "nn.upsampling": _upsampling,
    "nn.upsampling3d": _upsampling3d,
}
