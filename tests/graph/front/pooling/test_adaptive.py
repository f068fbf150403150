"""Shares of images that differ in size are one kernel, as equal ones are."""

import numpy as np
import pytest
from check import check
from tvm import relax
from tvm.relax import op
from zoo import Case, graph

SIZES = [((7, 7), (3, 3)), ((5, 6), (3, 3)), ((3, 5), (7, 2)), ((1, 31), (1, 7)), ((33, 9), (4, 9))]


def means(x, size):
    """Of the shares of the last axes."""
    found = np.empty((*x.shape[: -len(size)], *size))
    whole = x.shape[-len(size) :]
    for at in np.ndindex(*size):
        share = tuple(
            slice(n * extent // parts, -(-(n + 1) * extent // parts))
            for n, extent, parts in zip(at, whole, size, strict=True)
        )
        axes = tuple(range(-len(size), 0))
        found[(..., *at)] = x[(..., *share)].mean(axes)
    return found


def adaptive(dtype, shape, size, layout=None) -> Case:
    """Between stages of an element."""
    layout = layout or "NC" + "DHW"[-len(size) :]

    def build(emit, x):
        shares = getattr(op.nn, f"adaptive_avg_pool{len(size)}d")
        pooled = emit(shares(emit(op.nn.relu(x)), list(size), layout))
        return emit(op.add(pooled, relax.const(1, dtype)))

    def expected(x):
        is_last = layout.endswith("C")
        x = np.moveaxis(x, -1, 1) if is_last else x
        found = means(np.maximum(x, 0), size) + 1
        return np.moveaxis(found, 1, -1) if is_last else found

    return graph(dtype, [shape], build, expected)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("plane, size", SIZES)
def test_planes(plane, size, dtype):
    check(adaptive(dtype, (2, 3, *plane), size), orders=2)


def test_channels_that_come_last():
    check(adaptive("float32", (2, 7, 5, 8), (3, 2), "NHWC"), orders=2)


@pytest.mark.parametrize("size, shape", [((3,), (2, 5, 1000)), ((2, 3, 2), (1, 2, 3, 7, 5))])
def test_signals_and_volumes(size, shape):
    check(adaptive("float16", shape, size), orders=2)


def test_large_images():
    check(adaptive("float16", (2, 8, 56, 57), (7, 5)), orders=2)
