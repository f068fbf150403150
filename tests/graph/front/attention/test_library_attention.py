"""Attention becomes a call of cuDNN however it is written, reads heads in place, and is right."""

import math

import ml_dtypes
import numpy as np
import pytest
from library_stand_in import stand_in
from tvm import relax, tirx
from tvm.relax import op

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.graph.back.launches import outside_calls
from tvm_stitch.graph.front.attention import FusedAttention, rewrite
from tvm_stitch.library import locate
from tvm_stitch.library.attention import BOTTOM_RIGHT, NAME, NO_MASK, TOP_LEFT, decoded
from tvm_stitch.library.numpy_attention import attend
from tvm_stitch.plan.plan import Fallback
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

TARGET = full_target("nvidia/nvidia-h100")
CLOSE = {"float16": 4e-3, "bfloat16": 3e-2}
B, H, D = 2, 3, 8


@pytest.fixture(autouse=True)
def _worthwhile(monkeypatch):
    monkeypatch.setattr(rewrite, "refused_as_slower", lambda *_: None)


def module(body, *shapes, dtype="float16"):
    """A function of tensors of these shapes, or of shapes and types."""
    typed = [(each, dtype) if not isinstance(each[0], tuple) else each for each in shapes]
    params = [relax.Var(f"p{n}", relax.TensorType(s, d)) for n, (s, d) in enumerate(typed)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            found = body(builder.emit, *params)
            output = builder.emit_output(found)
        builder.emit_func_output(output)
    return builder.get()


def heads(emit, x, count=H):
    """(batch, rows, heads * depth) as (batch, heads, rows, depth)."""
    batch, rows, width = (int(extent) for extent in x.ty.shape.values)
    return emit(
        op.permute_dims(emit(op.reshape(x, (batch, rows, count, width // count))), [0, 2, 1, 3])
    )


def joined(emit, x):
    batch, count, rows, depth = (int(extent) for extent in x.ty.shape.values)
    return emit(op.reshape(emit(op.permute_dims(x, [0, 2, 1, 3])), (batch, rows, count * depth)))


def half_product(emit, a, b):
    return emit(op.astype(emit(op.matmul(a, b, out_dtype="float32")), a.ty.dtype.dtype))


def plain(emit, q, k, v, mask=None, product=half_product):
    q, k, v = (heads(emit, x) for x in (q, k, v))
    scores = product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
    dtype = scores.ty.dtype.dtype
    scores = emit(op.divide(scores, relax.const(math.sqrt(D), dtype)))
    if mask is not None:
        scores = emit(op.add(scores, mask))
    return joined(emit, product(emit, emit(op.nn.softmax(scores, -1)), v))


def shapes(queries=7, keys=9, key_heads=H, batch=B):
    return (batch, queries, H * D), *[(batch, keys, key_heads * D)] * 2


def asked(mod):
    """The calls of cuDNN with the names of what they read, and why there are no more."""
    heard = []
    changed = FusedAttention(device_of(TARGET), lambda *each: heard.append(each))(mod)
    calls = [
        binding.value
        for block in changed["main"].body.blocks
        for binding in block.bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_dps_packed"
    ]
    read = [[each.name for each in call.args[1].fields[:-1]] for call in calls]
    numbers = [[int(n) for n in call.args[1].fields[-1].values] for call in calls]
    return [(decoded(n), r) for n, r in zip(numbers, read, strict=True)], [w for _, w in heard]


def check(mod, reads=None, arrays=None, dtype="float16"):
    """The module is one call, which reads its inputs where they lie, and is what it was."""
    calls, reasons = asked(mod)
    assert not reasons and len(calls) == 1
    attention, names = calls[0]
    if reads is not None:
        assert names == reads
    arrays = arrays or random_inputs(mod, 0)
    given = {param.name: a for param, a in zip(mod["main"].params, arrays, strict=True)}
    (want,) = reference(mod, arrays)
    found = np.zeros(want.size)
    attend(attention, [np.asarray(given[name]) for name in names], found)
    error = np.abs(found.reshape(want.shape) - want)
    assert not np.isnan(found).any()
    assert np.nanmax(error) <= CLOSE[dtype] * np.nanmax(np.abs(want))
    return attention


def why(mod):
    calls, (reason,) = asked(mod)
    assert not calls
    return reason


@pytest.mark.parametrize(("queries", "keys"), [(7, 9), (1, 31), (33, 33), (31, 1)])
def test_as_models_write_it(queries, keys):
    found = check(module(plain, *shapes(queries, keys)), ["p0", "p1", "p2"])
    assert (found.batch, found.heads, found.queries, found.keys) == (B, H, queries, keys)
    assert found.scale == pytest.approx(1 / math.sqrt(D), rel=1e-3) and found.mask == NO_MASK


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "mask", [(7, 9), (B, 1, 1, 9), (1, H, 7, 9), (B, H, 7, 9), (9,), (B, 1, 7, 9)]
)
def test_masks_that_are_added(mask):
    check(module(plain, *shapes(), mask), ["p0", "p1", "p2", "p3"])


def test_products_of_flattened_batches():
    def body(emit, q, k, v, mask):
        q, k, v = (heads(emit, x) for x in (q, k, v))
        k = emit(op.permute_dims(k, [0, 1, 3, 2]))
        q, k, v = (
            emit(op.reshape(x, (B * H, *(int(e) for e in x.ty.shape.values[2:]))))
            for x in (q, k, v)
        )
        scores = emit(op.reshape(half_product(emit, q, k), (B, H, 7, 9)))
        wide = emit(op.astype(scores, "float32"))
        scaled = emit(op.multiply(wide, relax.const(0.4, "float32")))
        scores = emit(op.add(emit(op.astype(scaled, "float16")), mask))
        weights = emit(op.nn.softmax(emit(op.astype(scores, "float32")), -1))
        weights = emit(op.reshape(emit(op.astype(weights, "float16")), (B * H, 7, 9)))
        return joined(emit, emit(op.reshape(half_product(emit, weights, v), (B, H, 7, D))))

    check(module(body, *shapes(), (B, 1, 1, 9)), ["p0", "p1", "p2", "p3"])


def test_heads_that_stay_apart():
    def body(emit, q, k, v):
        scores = half_product(emit, q, k)
        return half_product(emit, emit(op.nn.softmax(scores, -1)), v)

    four = module(body, (B, H, 7, D), (B, H, D, 9), (B, H, 9, D))
    assert why(four) == "heads do not lie as cuDNN reads them"  # keys are turned in memory

    def turned(emit, q, k, v):
        return body(emit, q, emit(op.permute_dims(k, [0, 2, 1])), v)

    found = check(module(turned, (6, 7, D), (6, 9, D), (6, 9, D)), ["p0", "p1", "p2"])
    assert (found.batch, found.heads, found.scale) == (1, 6, 1.0)


def written_out(emit, q, k, v, bias, unlike=None):
    """A softmax as stages; with what its sum is unlike where that is divided by."""
    q, k, v = (heads(emit, x) for x in (q, k, v))
    s = emit(op.astype(half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2]))), "float32"))
    s = emit(op.add(s, emit(op.astype(bias, "float32"))))
    e = emit(op.exp(emit(op.subtract(s, emit(op.max(s, [-1], keepdims=True))))))
    total = emit(op.sum(e, [-1], keepdims=True))
    if unlike is not None:
        zero, one = (relax.const(each, "float32") for each in (unlike, 1.0))
        total = emit(op.where(emit(op.equal(total, zero)), one, total))
    weights = emit(op.astype(emit(op.divide(e, total)), "float16"))
    return joined(emit, half_product(emit, weights, v))


@pytest.mark.parametrize("unlike", (None, 0.0, 2.0))
def test_a_softmax_that_is_written_out(unlike):
    """Where a bias hides all keys of a query, that of PyTorch's attention is 0."""
    mod = module(lambda *given: written_out(*given, unlike), *shapes(), (7, 9))
    if unlike == 2.0:
        assert asked(mod) == ([], [])
        return
    arrays = random_inputs(mod, 0)
    if unlike is not None:
        arrays[3][2] = -np.inf
        (want,) = reference(mod, arrays)
        assert (want[:, 2] == 0).all() and not np.isnan(want).any()
    check(mod, ["p0", "p1", "p2", "p3"], arrays)


@pytest.mark.spread(2)
@pytest.mark.parametrize("mask", [None, "TopLeft", "BottomRight"])
@pytest.mark.parametrize("scale", [None, 0.2])
@pytest.mark.parametrize("bias", [False, True])
def test_the_operator_of_relax(mask, scale, bias):
    def body(emit, q, k, v, *bias):
        return emit(op.nn.attention(q, k, v, *bias, scale=scale, causal_mask=mask))

    tensors = [(B, 7, H, D), (B, 9, H, D), (B, 9, H, D)] + [(B, H, 7, 9)] * bias
    found = check(module(body, *tensors))
    assert found.mask == {None: NO_MASK, "TopLeft": TOP_LEFT, "BottomRight": BOTTOM_RIGHT}[mask]


@pytest.mark.parametrize(("diagonal", "mask"), [(0, TOP_LEFT), (2, BOTTOM_RIGHT)])
def test_constant_masks_that_are_causal(diagonal, mask):
    seen = np.tri(7, 9, diagonal, dtype=bool)
    none = np.where(seen, 0, -np.inf).astype("float16")

    def added(emit, q, k, v):
        return plain(emit, q, k, v, relax.const(none, "float16"))

    assert check(module(added, *shapes())).mask == mask


def test_scores_where_a_condition_holds():
    def body(emit, q, k, v, seen):
        def chosen(emit, a, b):
            product = half_product(emit, a, b)
            if int(product.ty.shape.values[-1]) == D:
                return product
            return emit(op.where(seen, product, relax.const(-np.inf, "float16")))

        return plain(emit, q, k, v, product=chosen)

    mod = module(body, *shapes(), ((7, 9), "bool"))
    assert why(mod) == "scores are multiplied after a mask or by less than zero"

    def after(emit, q, k, v, seen):
        q, k, v = (heads(emit, x) for x in (q, k, v))
        scores = half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
        scores = emit(op.where(seen, scores, relax.const(-np.inf, "float16")))
        return joined(emit, half_product(emit, emit(op.nn.softmax(scores, -1)), v))

    calls, reasons = asked(module(after, *shapes(), ((7, 9), "bool")))
    assert not reasons and calls[0][1] == ["p0", "p1", "p2", "bias"]


def grouped(emit, q, k, v):
    q = heads(emit, q, 6)
    k, v = (heads(emit, x, 2) for x in (k, v))
    k, v = (
        emit(op.reshape(
            emit(op.broadcast_to(emit(op.expand_dims(x, 2)), (B, 2, 3, 9, D))), (B, 6, 9, D)
        ))
        for x in (k, v)
    )  # fmt: skip
    scores = half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
    return joined(emit, half_product(emit, emit(op.nn.softmax(scores, -1)), v))


def test_heads_of_queries_share_those_of_keys():
    mod = module(grouped, (B, 7, 6 * D), (B, 9, 2 * D), (B, 9, 2 * D))
    found = check(mod, ["p0", "p1", "p2"])
    assert (found.heads, found.key_heads) == (6, 2)


@pytest.mark.parametrize("how", ["split", "strided_slice"])
def test_slices_of_one_product_are_read_in_place(how):
    def body(emit, x):
        if how == "split":
            parts = emit(op.split(x, 3, 2))
            return plain(emit, *(emit(parts[n]) for n in range(3)))
        width = H * D
        cut = [op.strided_slice(x, [2], [n * width], [(n + 1) * width]) for n in range(3)]
        return plain(emit, *map(emit, cut))

    found = check(module(body, (B, 7, 3 * H * D)), ["p0", "p0", "p0"])
    assert [found.query.start, found.key.start, found.value.start] == [0, H * D, 2 * H * D]


def test_parts_of_a_transposed_product_are_read_in_place():
    def body(emit, x):
        cut = emit(op.permute_dims(emit(op.reshape(x, (B, 7, 3, H, D))), [2, 0, 3, 1, 4]))
        parts = emit(op.split(cut, 3, 0))
        q, k, v = (emit(op.squeeze(emit(parts[n]), [0])) for n in range(3))
        scores = half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
        return joined(emit, half_product(emit, emit(op.nn.softmax(scores, -1)), v))

    found = check(module(body, (B, 7, 3 * H * D)), ["p0", "p0", "p0"])
    assert [found.query.start, found.key.start, found.value.start] == [0, H * D, 2 * H * D]


def test_what_is_refused():
    assert why(module(plain, *shapes(), dtype="float32")).endswith("halves only")

    def deep(emit, q, k, v):
        return emit(op.nn.attention(q, k, v))

    assert "multiple of 8 up to 256, not 12" in why(module(deep, *[(B, 7, H, 12)] * 3))
    assert "multiple of 8 up to 256, not 264" in why(module(deep, *[(B, 7, H, 264)] * 3))
    n = tirx.Var("n", "int64")
    assert why(module(deep, *[(B, n, H, D)] * 3)) == "its sizes are known at run time only"

    def causal(emit, q, k, v):
        return emit(op.nn.attention(q, k, v, causal_mask="BottomRight"))

    later = module(causal, (B, 9, H, D), (B, 7, H, D), (B, 7, H, D))
    assert why(later) == "causal attention from the last key has more queries than keys"

    def window(emit, q, k, v):
        return emit(op.nn.attention(q, k, v, causal_mask="TopLeft", window_size=3))

    assert why(module(window, *[(B, 7, H, D)] * 3)) == "cuDNN is asked for no window of keys"

    def twice(emit, q, k, v, one, other):
        def product(emit, a, b):
            found = half_product(emit, a, b)
            return found if int(found.ty.shape.values[-1]) == D else emit(op.add(found, one))

        return plain(emit, q, k, v, other, lambda emit, a, b: product(emit, a, b))

    assert why(module(twice, *shapes(), (7, 9), (9,))).startswith("scores are multiplied after")


def test_weights_that_are_read_elsewhere_stay():
    def body(emit, q, k, v):
        q, k, v = (heads(emit, x) for x in (q, k, v))
        scores = half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
        most = emit(op.max(scores))
        weights = emit(op.nn.softmax(scores, -1))
        return emit(op.add(half_product(emit, weights, v), most))

    assert why(module(body, *shapes())) == "scores or weights are read elsewhere"


def test_a_softmax_alone_is_not_spoken_of():
    def body(emit, x):
        return emit(op.nn.softmax(x, -1))

    assert asked(module(body, (7, 9))) == ([], [])


@pytest.fixture
def _library(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_pipeline_calls_it(_library, dtype):
    def body(emit, x, w, k, v, mask):
        q = half_product(emit, x, w)
        return emit(op.add(plain(emit, q, k, v, mask), x))

    width = H * D
    mod = module(body, (B, 7, width), (width, width), *shapes()[1:], (B, 1, 1, 9), dtype=dtype)
    stitched = stitched_for_cpu(mod, TARGET)
    assert outside_calls(stitched) == (NAME,)
    arrays = random_inputs(mod, 0)
    (found,) = Runner(stitched, TARGET).run(arrays, 0)
    found = found.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else found
    (want,) = reference(mod, arrays)
    assert np.abs(found.astype(float) - want).max() <= CLOSE[dtype] * np.abs(want).max()
    report = tvm_stitch.explain(mod, TARGET)
    (kernel,) = (each for each in report.kernels if each.name == "attention")
    assert "cuDNN" in kernel.why and "bias" in kernel.why
    assert kernel.ops == ("matmul", "multiply", "add", "softmax", "matmul")


def test_the_pipeline_makes_a_bias_of_a_condition(_library):
    def body(emit, q, k, v, seen):
        q, k, v = (heads(emit, x) for x in (q, k, v))
        scores = half_product(emit, q, emit(op.permute_dims(k, [0, 1, 3, 2])))
        scores = emit(op.where(seen, scores, relax.const(-np.inf, "float16")))
        return joined(emit, half_product(emit, emit(op.nn.softmax(scores, -1)), v))

    mod = module(body, *shapes(), ((7, 9), "bool"))
    arrays = random_inputs(mod, 0)
    arrays[3][:, 0] = True
    stitched = stitched_for_cpu(mod, TARGET)
    assert outside_calls(stitched) == (NAME,)
    (found,) = Runner(stitched, TARGET).run(arrays, 0)
    (want,) = reference(mod, arrays)
    assert np.abs(found - want).max() <= CLOSE["float16"] * np.abs(want).max()


def test_what_is_missed_without_the_library(_library, monkeypatch):
    monkeypatch.setattr("tvm_stitch.build.unusable", lambda _library: "there is no cuDNN")
    report = tvm_stitch.explain(module(plain, *shapes()), TARGET)
    assert Fallback("attention", "there is no cuDNN") in report.for_library
    assert "attention" not in {each.op for each in report.fallbacks}
    assert "A library would take:" in str(report)
    assert report.to_json()["for_library"][0]["op"] == "attention"
    assert not any(kernel.name == "attention" for kernel in report.kernels)
