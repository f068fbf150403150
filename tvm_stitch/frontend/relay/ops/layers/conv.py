"""Convolutions and their transposes, in one, two and three dimensions.

Relay's layouts reduce to one: data as N, C and the spatial axes, weights as O, I and the spatial
axes (I, O for the transposes). Two plain layouts that Relax computes without a rearrangement
(N...C with the weights in any order) are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import Expr, OpCall, OperatorFunction, dims, dtype, is_float

_op = relax.op
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_CONV: dict[int, Callable[..., Expr]] = {
    1: _op.nn.conv1d,
    2: _op.nn.conv2d,
    3: _op.nn.conv3d,
}


def padding_of(call: OpCall, count: int, default: int = 0) -> list[int]:
    """Padding written as one number, one an axis, or one a side; here one a side."""
    padding = call.attrs.integers("padding") or [default]
    if len(padding) == 1:
        return padding * (2 * count)
    if len(padding) == count:
        return padding * 2
    if len(padding) == 2 * count:
        return padding
    raise RelayError(f"padding {padding} does not fit {count} spatial axes")


def per_axis(call: OpCall, name: str, count: int, default: int = 1) -> list[int]:
    """An attribute that has one number an axis, or one for all."""
    values = call.attrs.integers(name) or [default]
    if len(values) == 1:
        values = values * count
    if len(values) != count:
        raise RelayError(f"{name} {values} does not fit {count} spatial axes")
    return values


def conv(call: OpCall, count: int, data: Expr, weight: Expr, out_dtype: str | None = None) -> Expr:
    """A convolution with the call's attributes, of the given data and weights."""
    spatial, attrs = _SPATIAL[count], call.attrs
    data_layout = attrs.text("data_layout", "NC" + spatial)
    kernel_layout = attrs.text("kernel_layout", "OI" + spatial)
    out_layout = attrs.text("out_layout") or data_layout
    for which, name in ((data_layout, "data_layout"), (out_layout, "out_layout")):
        layouts.check(which, "NC" + spatial, name)
    layouts.check(kernel_layout, "OI" + spatial, "kernel_layout")
    compute_layout = data_layout if layouts.is_plain(data_layout) else "NC" + spatial
    data = layouts.rearrange(call, data, data_layout, compute_layout)
    groups = attrs.integer("groups", 1)
    weight, kernel_layout = _weights(
        call, weight, kernel_layout, spatial, groups, dims(data)[compute_layout.index("C")]
    )
    _check_kernel(call, weight, kernel_layout, spatial)
    result = call.emit(
        _CONV[count](
            data,
            weight,
            strides=per_axis(call, "strides", count),
            padding=padding_of(call, count),
            dilation=per_axis(call, "dilation", count),
            groups=groups,
            data_layout=compute_layout,
            kernel_layout=kernel_layout,
            out_dtype=out_dtype or attrs.text("out_dtype") or dtype(data),
        )
    )
    return layouts.rearrange(call, result, compute_layout, out_layout)


def _weights(
    call: OpCall, weight: Expr, layout: str, spatial: str, groups: int, channels: Any
) -> tuple[Expr, str]:
    """Weights as Relax wants them, and their layout.

    For a depthwise convolution with a multiplier Relay took weights of (channels, multiplier);
    everybody else has (channels * multiplier, 1).
    """
    if not layouts.is_plain(layout):
        weight = layouts.rearrange(call, weight, layout, "OI" + spatial)
        layout = "OI" + spatial
    shape = dims(weight)
    outer, inner = shape[layout.index("O")], shape[layout.index("I")]
    if groups > 1 and outer == groups == channels and inner != 1:
        weight = layouts.rearrange(call, weight, layout, "OI" + spatial)
        kernel = [shape[layout.index(axis)] for axis in spatial]
        return call.emit(_op.reshape(weight, [outer * inner, 1, *kernel])), "OI" + spatial
    return weight, layout


def _check_kernel(call: OpCall, weight: Expr, layout: str, spatial: str) -> None:
    """The attributes that repeat the weights' shape have to agree with it."""
    shape = dims(weight)
    channels, kernel = call.attrs.integer("channels"), call.attrs.integers("kernel_size")
    found = [shape[layout.index(axis)] for axis in spatial]
    if channels is not None and channels != shape[layout.index("O")]:
        raise RelayError(
            f"channels={channels}, but the weights of shape {shape} ({layout}) have "
            f"{shape[layout.index('O')]}"
        )
    if kernel and len(kernel) == 1:
        kernel = kernel * len(spatial)
    if kernel and kernel != found:
        raise RelayError(f"kernel_size={kernel}, but the weights' is {found}")


def _convolution(count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(2)
        return conv(call, count, call[0], call[1])

    return operator


_TRANSPOSE: dict[int, Callable[..., Any]] = {
    1: topi.nn.group_conv1d_transpose_ncw,
    2: topi.nn.group_conv2d_transpose_nchw,
    3: topi.nn.group_conv3d_transpose_ncdhw,
}


def conv_transpose(
    call: OpCall, count: int, data: Expr, weight: Expr, out_dtype: str | None = None
) -> Expr:
    """A transposed convolution with the call's attributes."""
    spatial, attrs = _SPATIAL[count], call.attrs
    plain = "NC" + spatial
    data_layout = attrs.text("data_layout", plain)
    kernel_layout = attrs.text("kernel_layout", "IO" + spatial)
    out_layout = attrs.text("out_layout") or data_layout
    layouts.check(data_layout, plain, "data_layout")
    layouts.check(kernel_layout, "IO" + spatial, "kernel_layout")
    data = layouts.rearrange(call, data, data_layout, plain)
    groups, channels = attrs.integer("groups", 1), dims(data)[1]
    # Up to 0.8 the default was called OIHW and meant what IOHW means: inputs first.
    if kernel_layout == "OI" + spatial and dims(weight)[0] == channels:
        kernel_layout = "IO" + spatial
    weight = layouts.rearrange(call, weight, kernel_layout, "IO" + spatial)
    if any(d != 1 for d in per_axis(call, "dilation", count)):
        raise RelayError("a dilated transposed convolution was never computed by TVM")
    wanted, shape = attrs.integer("channels"), dims(weight)
    if wanted is not None and wanted != shape[1] * groups:
        raise RelayError(
            f"channels={wanted}, but {groups} groups of weights {shape} make {shape[1] * groups}"
        )
    kernel = attrs.integers("kernel_size")
    if kernel and kernel != shape[2:] and kernel * count != shape[2:]:
        raise RelayError(f"kernel_size={kernel}, but the weights' is {shape[2:]}")
    strides, padding = per_axis(call, "strides", count), padding_of(call, count)
    extra = per_axis(call, "output_padding", count, 0)
    result_dtype = out_dtype or attrs.text("out_dtype") or dtype(data)

    def compute(a: Any, w: Any) -> Any:
        sides: Any = padding
        return _TRANSPOSE[count](
            a,
            w,
            strides if count > 1 else strides[0],
            sides,
            result_dtype,
            extra if count > 1 else extra[0],
            groups,
        )

    result = call.te(compute, data, weight)
    return layouts.rearrange(call, result, plain, out_layout)


def _transposed(count: int) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(2)
        return conv_transpose(call, count, call[0], call[1])

    return operator


def _deformable_conv2d(call: OpCall) -> Expr:
    call.expect(3)
    attrs = call.attrs
    data_layout, kernel_layout = (
        attrs.text("data_layout", "NCHW"),
        attrs.text("kernel_layout", "OIHW"),
    )
    out_layout = attrs.text("out_layout") or data_layout
    layouts.check(data_layout, "NCHW", "data_layout")
    data, offset = (layouts.rearrange(call, call[i], data_layout, "NCHW") for i in (0, 1))
    weight = layouts.rearrange(call, call[2], kernel_layout, "OIHW")
    _check_kernel(call, weight, "OIHW", "HW")
    strides, padding = per_axis(call, "strides", 2), padding_of(call, 2)
    dilation = per_axis(call, "dilation", 2)
    by_group = attrs.integer("deformable_groups", 1)
    groups = attrs.integer("groups", 1)
    out_dtype = attrs.text("out_dtype") or dtype(data)

    def compute(a: Any, o: Any, w: Any) -> Any:
        return topi.nn.deformable_conv2d_nchw(
            a, o, w, strides, padding, dilation, by_group, groups, out_dtype
        )

    return layouts.rearrange(call, call.te(compute, data, offset, weight), "NCHW", out_layout)


def _correlation(call: OpCall) -> Expr:
    call.expect(2)
    attrs = call.attrs
    if attrs.text("layout", "NCHW") != "NCHW":
        raise RelayError(f"layout {attrs.text('layout')} was never computed by TVM, only NCHW")
    sizes = [
        attrs.integer(name, 1) for name in ("kernel_size", "max_displacement", "stride1", "stride2")
    ]
    padding, multiply = padding_of(call, 2), attrs.flag("is_multiply", True)
    return call.te(
        lambda a, b: topi.nn.correlation_nchw(a, b, *sizes, padding, multiply), call[0], call[1]
    )


def _dilation2d(call: OpCall) -> Expr:
    call.expect(2)
    attrs = call.attrs
    data_layout = attrs.text("data_layout", "NCHW")
    kernel_layout = attrs.text("kernel_layout", "IHW")
    out_dtype = attrs.text("out_dtype") or dtype(call[0])
    strides, padding = per_axis(call, "strides", 2), padding_of(call, 2)
    dilations = per_axis(call, "dilations", 2)
    data = layouts.rearrange(call, call[0], data_layout, "NCHW")
    weight = layouts.rearrange(call, call[1], kernel_layout, "IHW")
    if not is_float(dtype(data)):
        raise RelayError(f"the data must be floating point, not {dtype(data)}")

    def compute(a: Any, w: Any) -> Any:
        return topi.image.dilation2d_nchw(a, w, strides, padding, dilations, out_dtype)

    return layouts.rearrange(call, call.te(compute, data, weight), "NCHW", data_layout)


OPERATORS: dict[str, OperatorFunction] = {
    "image.dilation2d": _dilation2d,
    "nn.contrib_conv2d_NCHWc": _convolution(2),
    "nn.contrib_depthwise_conv2d_NCHWc": _convolution(2),
    "nn.conv1d": _convolution(1),
    "nn.conv1d_transpose": _transposed(1),
    "nn.conv2d": _convolution(2),
    "nn.conv2d_transpose": _transposed(2),
    "nn.conv3d": _convolution(3),
    "nn.conv3d_transpose": _transposed(3),
    "nn.correlation": _correlation,
    "nn.deformable_conv2d": _deformable_conv2d,
}
