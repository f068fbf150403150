"""Depthwise convolutions as cases, with their NumPy."""

from __future__ import annotations

import numpy as np
from convolved import convolved as of_channels_first
from tvm.relax import op
from zoo import Case, graph

WEIGHTS = ("OIHW", "OHWI", "HWOI")
OF_VOLUMES = ("OIDHW", "ODHWI", "DHWOI")


def convolved(x, w, strides, padding, dilation):
    """By channels last and taps first."""
    images, weights = np.moveaxis(x, -1, 1), np.moveaxis(w, (-2, -1), (0, 1))
    y = of_channels_first(images, weights, strides, padding, dilation, x.shape[-1])
    return np.moveaxis(y, 1, -1)


def depthwise(
    shape, window, dtype="float16", strides=None, padding=None, dilation=None,
    last=True, weights="OHWI", filters=1,
) -> Case:  # fmt: skip
    """A convolution of images of (batch, rows, columns, channels) with a bias and ReLU behind.

    Of so many filters for each channel. Of volumes too, by the names of their weights' axes.
    """
    padding = tuple(size // 2 for size in window) if padding is None else padding
    strides, dilation = strides or (1,) * len(window), dilation or (1,) * len(window)
    batch, *sides, channels = shape
    images = tuple(shape) if last else (batch, channels, *sides)
    made = channels * filters
    axes = "DHW"[-len(window) :]
    laid = [f"{axes}OI".index(axis) for axis in weights]
    sizes = (*window, made, 1)
    data = f"N{axes}C" if last else f"NC{axes}"
    convolution = getattr(op.nn, f"conv{len(window)}d")

    def build(emit, x, w, b):
        how = {"strides": strides, "padding": padding, "dilation": dilation, "groups": channels}
        y = emit(convolution(x, w, data_layout=data, kernel_layout=weights, **how))
        b = b if last else emit(op.reshape(b, (made, *[1] * len(window))))
        return emit(op.nn.relu(emit(op.add(y, b))))

    def expected(x, w, b):
        x = x if last else np.moveaxis(x, 1, -1)
        w = w.transpose(np.argsort(laid))
        y = np.maximum(convolved(x, w, strides, padding, dilation) + b, 0)
        return y if last else np.moveaxis(y, -1, 1)

    return graph(dtype, [images, tuple(sizes[axis] for axis in laid), (made,)], build, expected)
