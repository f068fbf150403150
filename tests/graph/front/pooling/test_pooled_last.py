"""Pooling with channels last: of small windows side by side, neighbours load vectors."""

from itertools import product

import numpy as np
import pytest
from check import H200, check, cuda_of, primfuncs
from tvm import relax
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch import explain

# Window, stride, padding and dilation of every axis.
WINDOWS = [
    ((2, 2), (2, 2), 0, 1),
    ((1, 3), (1, 3), 0, 1),
    ((3, 3), (3, 3), 0, 1),
    ((3, 3), (2, 2), 1, 1),
    ((2, 2), (2, 2), 1, 1),
    ((2, 2), (2, 2), 0, 2),
]


def pooled(x, kind, size, stride, padding, dilation, counts):
    """Windows of the axes between the first and the last, in float64."""
    extents = x.shape[1:-1]
    shape = [
        (extent + 2 * padding - dilation * (n - 1) - 1) // step + 1
        for extent, n, step in zip(extents, size, stride, strict=True)
    ]
    found = np.empty((x.shape[0], *shape, x.shape[-1]))
    for window in np.ndindex(*shape):
        held = []
        for step in product(*map(range, size)):
            starts = (w * each - padding for w, each in zip(window, stride, strict=True))
            at = [start + s * dilation for start, s in zip(starts, step, strict=True)]
            if all(0 <= place < extent for place, extent in zip(at, extents, strict=True)):
                held.append(x[(slice(None), *at)])
        if kind == "max":
            found[(slice(None), *window)] = np.max(held, 0)
        else:
            number = np.prod(size) if counts else len(held)
            found[(slice(None), *window)] = np.sum(held, 0) / number
    return found


def pooling(kind, dtype, shape, size, stride, padding, dilation=1, counts=False) -> Case:
    """Between stages of an element."""
    rank = len(size)

    def build(emit, x):
        layout = "N" + "DHW"[-rank:] + "C"
        call = getattr(op.nn, f"{kind}_pool{rank}d")
        how = [*stride], [padding] * rank, [dilation] * rank
        found = call(emit(op.tanh(x)), [*size], *how, False, counts, layout=layout)
        return emit(op.add(emit(found), relax.const(1, dtype)))

    def expected(x):
        return pooled(np.tanh(x), kind, size, stride, padding, dilation, counts) + 1

    return graph(dtype, [shape], build, expected)


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind, counts", [("avg", False), ("avg", True), ("max", False)])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_images(window, kind, counts, dtype):
    check(pooling(kind, dtype, (2, 9, 7, 24), *window, counts), orders=2)


@pytest.mark.parametrize("channels", [1, 7, 8, 33])
@pytest.mark.parametrize("size", [(2,), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_sequences_and_volumes(kind, size, channels):
    check(pooling(kind, "float16", (2, *(5,) * len(size), channels), size, size, 0), orders=2)


@pytest.mark.parametrize("dtype, vector", [("float32", "float4"), ("float16", "uint4")])
def test_neighbouring_channels_are_loaded_as_vectors(dtype, vector):
    case = pooling("avg", dtype, (32, 56, 56, 64), (2, 2), (2, 2), 0)
    (kernel,) = explain(case.module, H200).kernels
    assert len(kernel.ops) >= 3
    (function,) = primfuncs(case.module).values()
    text = cuda_of(function)
    assert text.count(f"*({vector}*)(x") >= 4 or text.count(f"= *({vector}*)") >= 4
