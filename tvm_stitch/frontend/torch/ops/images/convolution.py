"""Convolutions and their gradients.

Where a call says so, images and weights come, and go, with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Dim,
    Expr,
    dims,
    dtype,
    is_float,
    rank,
)
from tvm_stitch.frontend.torch.layout import channels_last, inverse
from tvm_stitch.frontend.torch.ops.images.window import per_dimension

_op = relax.op
_AXES = {1: "W", 2: "HW", 3: "DHW"}


def _convolution(
    call: Call,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Expr:
    spatial = _spatial(call.dtype, x)
    numbers = (stride, padding, dilation, output_padding)
    strides, before, apart, beyond = (per_dimension(given, spatial) for given in numbers)
    how: dict[str, Any] = {
        "strides": strides, "padding": before * 2, "dilation": apart, "groups": groups,
    }  # fmt: skip
    if transposed:
        if any(each != 1 for each in apart):
            raise TorchError("a transposed convolution with dilation")
        result = _transposed(call, x, weight, {**how, "output_padding": beyond})
    else:
        result = _plain(call, x, weight, how)
    if bias is None:
        return result
    behind = () if call.channels_last else (1,) * spatial
    return call.emit(_op.add(result, call.emit(_op.reshape(bias, (*dims(bias), *behind)))))


def _spatial(of: str, x: Expr) -> int:
    """Along how many dimensions a convolution goes."""
    spatial = rank(x) - 2
    if spatial not in _AXES or not is_float(of):
        raise TorchError(f"a convolution of {of} along {spatial} dimensions")
    return spatial


def _plain(call: Call, x: Expr, weight: Expr, how: dict[str, Any]) -> Expr:
    spatial = rank(x) - 2
    if call.channels_last:
        axes = _AXES[spatial]
        how = {**how, "data_layout": f"N{axes}C", "kernel_layout": f"O{axes}I"}
    return call.emit(getattr(_op.nn, f"conv{spatial}d")(x, weight, **how))


def _transposed(call: Call, x: Expr, weight: Expr, how: dict[str, Any]) -> Expr:
    """Relax writes these with channels first only, and TVM has no kernel of them with dilation."""
    convolve = getattr(_op.nn, f"conv{rank(x) - 2}d_transpose")
    if not call.channels_last:
        return call.emit(convolve(x, weight, **how))
    last = channels_last(rank(x))
    x, weight = (call.emit(_op.permute_dims(each, list(inverse(last)))) for each in (x, weight))
    return call.emit(_op.permute_dims(call.emit(convolve(x, weight, **how)), list(last)))


def _gradients(
    call: Call,
    gradient: Expr,
    x: Expr,
    weight: Expr,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Expr | None, Expr | None, None]:
    """Those for the images and the weights, as far as they are asked for; a bias's is apart."""
    spatial = _spatial(dtype(gradient), x)
    if groups != 1:
        raise TorchError("gradients of a convolution in groups")
    strides, before, apart = (
        per_dimension(given, spatial) for given in (stride, padding, dilation)
    )
    how = {"strides": strides, "padding": before * 2, "dilation": apart}
    # Windows move over the larger planes: of a transposed convolution, those of the result.
    planes, steps = (gradient, x) if transposed else (x, gradient)
    first = 1 if call.channels_last else 2
    sides = (dims(each)[first : first + spatial] for each in (planes, weight))
    left = tuple(map(_left_over, *sides, strides, before, apart))
    of_x, of_weight, _of_bias = output_mask
    if not of_x:
        images = None
    elif transposed:
        images = _plain(call, gradient, weight, how)
    else:
        images = _transposed(call, gradient, weight, {**how, "output_padding": left})
    return images, _of_weights(call, planes, steps, how, left) if of_weight else None, None


def _left_over(extent: Dim, size: Dim, stride: int, before: int, apart: int) -> int:
    """How many rows there are behind the last window, padding included."""
    if stride == 1:
        return 0
    if not isinstance(extent, int) or not isinstance(size, int):
        raise TorchError("gradients of windows in steps over planes of sizes that change")
    return (extent + 2 * before - apart * (size - 1) - 1) % stride


def _of_weights(
    call: Call, planes: Expr, steps: Expr, how: dict[str, Any], left: Sequence[int]
) -> Expr:
    """A convolution over the batch: channels are its batch, and steps lie between its elements.

    What no window reads is no part of it: padding, and then rows of the planes.
    """
    before, spatial = how["padding"][: len(left)], len(left)
    first, axes = 1 if call.channels_last else 2, _AXES[spatial]
    unread = [max(rows - pad, 0) for rows, pad in zip(left, before, strict=True)]
    after = [pad - rows + cut for rows, pad, cut in zip(left, before, unread, strict=True)]
    if any(unread):
        places = [first + n for n in range(spatial)]
        ends = [dims(planes)[place] - cut for place, cut in zip(places, unread, strict=True)]
        planes = call.emit(_op.strided_slice(planes, places, [0] * spatial, ends))
    data, kernel = (f"C{axes}N", f"I{axes}O") if call.channels_last else (f"CN{axes}", f"IO{axes}")
    return call.emit(
        getattr(_op.nn, f"conv{spatial}d")(
            planes, steps, strides=how["dilation"], padding=[*before, *after],
            dilation=how["strides"], data_layout=data, kernel_layout=kernel, out_layout=data,
        )
    )  # fmt: skip


OPERATORS: dict[str, Converter] = {
    "convolution": _convolution,
    "convolution_backward": _gradients,
}
