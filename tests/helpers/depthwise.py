"""Depthwise convolutions as cases, with their NumPy."""

from __future__ import annotations

import numpy as np
from convolved import convolved as of_channels_first
from tvm.relax import op
from zoo import Case, graph

WEIGHTS = {"OIHW": (2, 3, 0, 1), "OHWI": (2, 0, 1, 3), "HWOI": (0, 1, 2, 3)}  # of HWOI


def convolved(x, w, strides, padding, dilation):
    """By channels last and taps first."""
    images, weights = x.transpose(0, 3, 1, 2), w.transpose(2, 3, 0, 1)
    y = of_channels_first(images, weights, strides, padding, dilation, x.shape[3])
    return y.transpose(0, 2, 3, 1)


def depthwise(
    shape, window, dtype="float16", strides=(1, 1), padding=None, dilation=(1, 1),
    last=True, weights="OHWI", filters=1,
) -> Case:  # fmt: skip
    """A convolution of images of (batch, rows, columns, channels) with a bias and ReLU behind.

    Of so many filters for each channel.
    """
    padding = tuple(size // 2 for size in window) if padding is None else padding
    batch, rows, columns, channels = shape
    images = (batch, rows, columns, channels) if last else (batch, channels, rows, columns)
    made = channels * filters
    taps = (*window, made, 1)
    laid = tuple(taps[axis] for axis in WEIGHTS[weights])
    data = "NHWC" if last else "NCHW"

    def build(emit, x, w, b):
        how = {"strides": strides, "padding": padding, "dilation": dilation, "groups": channels}
        y = emit(op.nn.conv2d(x, w, data_layout=data, kernel_layout=weights, **how))
        b = b if last else emit(op.reshape(b, (made, 1, 1)))
        return emit(op.nn.relu(emit(op.add(y, b))))

    def expected(x, w, b):
        x = x if last else x.transpose(0, 2, 3, 1)
        w = w.transpose([WEIGHTS[weights].index(axis) for axis in range(4)])
        y = np.maximum(convolved(x, w, strides, padding, dilation) + b, 0)
        return y if last else y.transpose(0, 3, 1, 2)

    return graph(dtype, [images, laid, (made,)], build, expected)
