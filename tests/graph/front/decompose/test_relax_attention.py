"""Relax's attention operators are written out, and compute in float32 between their products."""

import numpy as np
import pytest
from check import DTYPES, H200, HALVES, check, primfuncs
from tvm.relax import op
from zoo import graph, softmax64

from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.reference import random_inputs
from tvm_stitch.verify import stitched_for_cpu


def attended(q, k, v, bias=0.0, scale=None, causal=None):
    """In float64, over (batch, length, heads, depth)."""
    q, k, v = (each.transpose(0, 2, 1, 3) for each in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1])) + bias
    if causal:
        rows, keys = scores.shape[-2:]
        offset = 0 if causal == "TopLeft" else abs(rows - keys)
        scores = np.where(np.tri(rows, keys, offset, dtype=bool), scores, -np.inf)
    return (softmax64(scores) @ v).transpose(0, 2, 1, 3)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, keys, heads, depth, values", [(8, 8, 2, 16, 16), (7, 33, 1, 8, 24)])
def test_attention(dtype, rows, keys, heads, depth, values):
    case = graph(
        dtype,
        [(2, rows, heads, depth), (2, keys, heads, depth), (2, keys, heads, values)],
        lambda emit, q, k, v: emit(op.nn.attention(q, k, v)),
        attended,
    )
    check(case, kernels=None, orders=2)


@pytest.mark.parametrize("causal", ["TopLeft", "BottomRight"])
def test_later_keys_are_masked(causal):
    case = graph(
        "float32",
        [(1, 7, 2, 8), (1, 9, 2, 8), (1, 9, 2, 8)],
        lambda emit, q, k, v: emit(op.nn.attention(q, k, v, scale=0.3, causal_mask=causal)),
        lambda q, k, v: attended(q, k, v, scale=0.3, causal=causal),
    )
    check(case, kernels=None, orders=2)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_bias(dtype):
    case = graph(
        dtype,
        [(2, 8, 2, 16), (2, 8, 2, 16), (2, 8, 2, 16), (2, 2, 8, 8)],
        lambda emit, q, k, v, bias: emit(op.nn.attention(q, k, v, bias)),
        attended,
    )
    check(case, kernels=None, orders=2)


@pytest.mark.parametrize("causal", [None, "TopLeft"])
def test_rows_that_see_no_key_are_zeros(causal):
    """As PyTorch has it; TVM's own, and so a reference in float64, has no number there."""
    hidden = np.zeros((1, 1, 7, 9), "float32")
    hidden[..., 3, :] = hidden[..., :2, 0] = hidden[..., 5, 4:] = -np.inf

    def function(emit, q, k, v, bias):
        return emit(op.nn.attention(q, k, v, bias, causal_mask=causal))

    shapes = [(1, 7, 2, 8), (1, 9, 2, 8), (1, 9, 2, 8), hidden.shape]
    mod = graph("float32", shapes, function, attended).module
    arrays = [*random_inputs(mod, 0)[:3], hidden]
    with np.errstate(invalid="ignore"):
        exact = np.nan_to_num(attended(*(a.astype("float64") for a in arrays), causal=causal))
    assert not exact[:, 3].any() and exact[:, 4].all()
    runner = Runner(stitched_for_cpu(mod, H200), H200)
    for seed in (1, 2):
        np.testing.assert_allclose(runner.run(arrays, seed)[0], exact, rtol=0, atol=1e-5)
    assert runner.ran and not runner.hazards


def test_products_of_halves_run_on_tensor_cores():
    shape = (1, 512, 2, 64)
    case = graph("float16", [shape] * 3, lambda emit, *x: emit(op.nn.attention(*x)), attended)
    sources = [str(function.attrs) for function in primfuncs(case.module).values()]
    assert sum("tvm_stitch.tiles" in source for source in sources) == 2
