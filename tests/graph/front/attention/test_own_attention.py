"""Attention of few queries becomes a kernel of ours, with cuDNN or without."""

import math

import numpy as np
import pytest
from library_stand_in import stand_in
from tvm import relax, tirx
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
    batch, own, keys, depth = x.ty.shape.values
    own = int(own)
    if own == heads:
        return x
    wide = (batch, own, heads // own, keys, depth)
    spread = emit(op.broadcast_to(emit(op.expand_dims(x, 2)), wide))
    return emit(op.reshape(spread, (batch, heads, keys, depth)))


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


def growing(
    heads=8, depth=64, lengths=("n", "n"), mask=False, dtype="float16", more=False, batch=1
):
    """A query with all keys and values of a cache, perhaps and those of one token more.

    Lengths, and the batch, are numbers or the names of symbols.
    """
    symbols = {name: tirx.Var(name, "int64") for name in (*lengths, batch) if isinstance(name, str)}
    b, n, m = (symbols.get(size, size) for size in (batch, *lengths))
    token = (b, 2, 1, depth)
    shapes = [(b, heads, 1, depth), (b, 2, n, depth), (b, 2, m, depth)]
    shapes += [(b, 1, 1, n)] * mask + [token, token] * more

    def function(emit, q, *given):
        cache, (masks, tokens) = given[:2], (given[2:], ()) if mask else ((), given[2:])
        if more:  # of which TVM, and so a reference in float64, computes no attention
            cache = [emit(op.concat(pair, axis=2)) for pair in zip(cache, tokens, strict=True)]
        return _attended(emit, q, *(_repeated(emit, each, heads) for each in cache), *masks)

    return _module(shapes, dtype, function)


def halves(depth=32):
    """Keys and values in one tensor, as they are."""
    n = tirx.Var("n", "int64")

    def function(emit, q, both):
        parts = emit(op.split(both, 2, axis=0))
        return _attended(emit, q, *(emit(relax.TupleGetItem(parts, half)) for half in (0, 1)))

    return _module([(1, 4, 1, depth), (2, 4, n, depth)], "float16", function)


def _attended(emit, q, k, v, *mask):
    rows = [emit(op.permute_dims(each, [0, 2, 1, 3])) for each in (q, k, v)]
    return emit(op.nn.relu(emit(op.nn.attention(*rows, *mask))))


def _module(shapes, dtype, function):
    params = [
        relax.Var(f"p{number}", relax.TensorType(shape, dtype))
        for number, shape in enumerate(shapes)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(function(builder.emit, *params))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.spread(2)
@pytest.mark.parametrize("keys", (1, 40, 1100))
@pytest.mark.parametrize(
    "make",
    [
        growing,
        lambda: growing(depth=32, dtype="bfloat16", mask=True),
        lambda: growing(heads=2, depth=128),
        halves,
    ],
    ids=("shared heads", "mask", "deep", "halves"),
)
def test_of_keys_that_are_counted_at_run_time(_library, make, keys):
    mod = make()
    found = tvm_stitch.verify(mod, H200, random_inputs(mod, 0, {"n": keys}), orders=2)
    assert found.ok and not found.not_run and not found.default, str(found)
    assert found.kernels.count("attention") == 1


@pytest.mark.spread(2)
@pytest.mark.parametrize("batch", (1, 3))
@pytest.mark.parametrize(
    ("lengths", "mask"),
    [(("n", "n"), False), (("n", "n"), True), ((333, 333), True)],
    ids=("keys", "mask", "known keys"),
)
def test_of_batches_of_any_size(_library, lengths, mask, batch):
    mod = growing(batch="b", lengths=lengths, mask=mask, depth=32)
    counted = {"n": 40} if "n" in lengths else {}
    arrays = random_inputs(mod, 0, {**counted, "b": batch})
    found = tvm_stitch.verify(mod, H200, arrays, orders=2)
    assert found.ok and not found.not_run and not found.default, str(found)
    assert found.kernels.count("attention") == 1


def test_what_the_report_says_of_counted_keys(_without_library):
    (found,) = (each for each in kernels(growing(more=True)) if "softmax" in each.ops)
    assert "any number of keys" in found.why and "cluster of 8 blocks" in found.mapping
    assert found.bytes_min == 2 * (2 * 8 * 64 + 2 * 2 * 1024 * 64)
    assert 2 < found.predicted_us < 6


@pytest.mark.parametrize(
    "make", [lambda: growing(lengths=("n", "m")), lambda: growing(heads=34)], ids=("unlike", "many")
)
def test_what_is_not_taken_of_counted_keys(_library, make):
    assert not any("one pass" in each.why for each in kernels(make()))
