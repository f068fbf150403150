"""Attention of few queries becomes a kernel of ours, with cuDNN or without."""

import math

import numpy as np
import pytest
from library_stand_in import stand_in
from tvm import relax
from tvm.relax import op

import tvm_stitch
from tvm_stitch.graph.back.launches import outside_calls
from tvm_stitch.library import locate
from tvm_stitch.library.attention import NAME
from tvm_stitch.reference import random_inputs
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

H200 = full_target("nvidia/nvidia-h200")


def decoding(heads=8, key_heads=2, keys=200, depth=64, queries=1, mask=None, dtype="float16"):
    """Heads of queries that share keys as models repeat them, in front of a projection's input."""
    shapes = [
        (1, queries, heads * depth),
        (1, key_heads, keys, depth),
        (1, key_heads, keys, depth),
        *([mask] if mask else []),
    ]
    types = [*[dtype] * 3, "bool"]
    params = [
        relax.Var(name, relax.TensorType(shape, of))
        for name, shape, of in zip("qkvm", shapes, types, strict=False)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(_attention(builder.emit, heads, depth, *params))
        builder.emit_func_output(output)
    return builder.get()


def _attention(emit, heads, depth, q, k, v, mask=None):
    queries = int(q.ty.shape.values[1])
    q = emit(op.permute_dims(emit(op.reshape(q, (1, queries, heads, depth))), [0, 2, 1, 3]))
    k, v = (_repeated(emit, each, heads) for each in (k, v))
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2])), out_dtype="float32"))
    scores = emit(op.multiply(scores, relax.const(1 / math.sqrt(depth), "float32")))
    if mask is not None:
        scores = emit(op.where(mask, scores, relax.const(-np.inf, "float32")))
    weights = emit(op.astype(emit(op.nn.softmax(scores, -1)), q.ty.dtype.dtype))
    result = emit(op.astype(emit(op.matmul(weights, v, out_dtype="float32")), q.ty.dtype.dtype))
    joined = emit(op.reshape(emit(op.permute_dims(result, [0, 2, 1, 3])), (queries, heads * depth)))
    return emit(op.nn.relu(joined))


def _repeated(emit, x, heads):
    _, own, keys, depth = (int(extent) for extent in x.ty.shape.values)
    if own == heads:
        return x
    spread = emit(op.broadcast_to(emit(op.expand_dims(x, 2)), (1, own, heads // own, keys, depth)))
    return emit(op.reshape(spread, (1, heads, keys, depth)))


@pytest.fixture(params=(True, False), ids=("with cuDNN", "without"))
def _library(request, monkeypatch):
    if request.param:
        with stand_in(monkeypatch, locate.CUDNN):
            yield
    else:
        monkeypatch.setenv(locate.FOLDER, locate.OFF)
        yield


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"key_heads": 8, "keys": 333, "depth": 32},
        {"queries": 3, "keys": 270, "dtype": "bfloat16"},
        {"mask": (1, 1, 1, 200)},
    ],
)
def test_right_and_by_one_kernel(_library, sizes):
    mod = decoding(**sizes)
    arrays = random_inputs(mod, 0)
    if "mask" in sizes:
        arrays[3][...] = np.arange(200) % 3 > 0
    found = tvm_stitch.verify(mod, H200, arrays, orders=2)
    assert found.ok and not found.not_run and not found.default, str(found)
    assert found.kernels.count("attention") == 1


@pytest.fixture
def _without_library(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, locate.OFF)


def kernels(mod, **options):
    return tvm_stitch.explain(mod, H200, tvm_stitch.Options(**options)).kernels


def test_what_the_report_says(_without_library):
    found = [kernel for kernel in kernels(decoding()) if "softmax" in kernel.ops]
    assert len(found) == 1
    assert found[0].scheme == "cluster" and "one pass over keys and values" in found[0].why
    assert found[0].bytes_min == 2 * (2 * 8 * 64 + 2 * 2 * 200 * 64)
    assert 2 < found[0].predicted_us < 6


def test_tiny_attention_stays_with_what_is_around_it(_without_library):
    assert not any("one pass" in each.why for each in kernels(decoding(2, 2, 7, 32)))


def test_schemes_that_are_switched_off(_without_library):
    found = kernels(decoding(), schemes=("local", "warp", "regional"))
    assert not any("one pass" in each.why for each in found)


def test_many_queries_are_the_librarys(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN):
        assert outside_calls(stitched_for_cpu(decoding(8, 8, queries=512, keys=512), H200)) == (
            NAME,
        )
        assert outside_calls(stitched_for_cpu(decoding(), H200)) == ()
