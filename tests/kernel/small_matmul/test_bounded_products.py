"""Small products of columns and depth that only run time knows, where a bound says they are few."""

import json
from dataclasses import replace

import numpy as np
import pytest
from check import H200, is_stitched, stitched, the_kernel
from tvm import relax
from tvm.relax import op
from twins import Twin
from twins_verified import verify

import tvm_stitch
from tvm_stitch import Options, transform
from tvm_stitch.errors import InputError
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.kernel.stated_sizes import STATED_SIZES_ATTRIBUTE
from tvm_stitch.kernel.stitched import limits_stated
from tvm_stitch.reference import random_inputs
from tvm_stitch.verify import stitched_for_cpu

SIZES = ({"b": 3, "s": 7}, {"b": 1, "s": 1}, {"b": 2, "s": 33}, {"b": 1, "s": 64})


def _attention(emit, q, k, v, mask=None):
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    scaled = emit(op.multiply(scores, relax.const(0.25, q.ty.dtype.dtype)))
    masked = scaled if mask is None else emit(op.add(scaled, mask))
    return emit(op.matmul(emit(op.nn.softmax(masked)), v))


def of_keys(emit, of, q, k, v):
    """A few queries, and as many keys as it likes."""
    return _attention(emit, q, k, v)


def masked(emit, of, q, k, v, mask):
    return _attention(emit, q, k, v, mask)


def causal(emit, of, q, k, v):
    hidden = relax.const(-1e4, "float32")
    mask = emit(op.triu(emit(op.full((of["s"], of["s"]), hidden)), 1))
    return _attention(emit, q, k, v, mask)


def of_a_cache(emit, of, q, past_k, k, past_v, v):
    """One new token after a bounded number of others."""
    keys = emit(op.concat([past_k, k], axis=2))
    return _attention(emit, q, keys, emit(op.concat([past_v, v], axis=2)))


def weighted(emit, of, x, w):
    return emit(op.nn.relu(emit(op.matmul(x, w))))


CASES = {
    "keys": Twin(lambda b, s: [(b, 4, 5, 16), *[(b, 4, s, 16)] * 2], of_keys, SIZES),
    "queries and keys": Twin(lambda b, s: [(b, 2, s, 12)] * 3, of_keys, SIZES),
    "of halves": Twin(lambda b, s: [(b, 2, s, 16)] * 3, of_keys, SIZES, dtype="float16"),
    "masked": Twin(lambda b, s: [*[(b, 2, s, 16)] * 3, (b, 1, s, s)], masked, SIZES),
    "causal": Twin(lambda b, s: [(b, 2, s, 16)] * 3, causal, SIZES),
    "columns": Twin(lambda b, s: [(b, 9, 24), (b, 24, s)], weighted, SIZES),
    "depth": Twin(lambda b, s: [(b, 9, s), (b, s, 20)], weighted, SIZES),
    "halved": Twin(
        lambda b, s: [(b, 2, 5, 16), *[(b, 2, 2 * s, 16)] * 2],
        of_keys,
        ({"b": 3, "s": 7}, {"b": 1, "s": 1}, {"b": 2, "s": 32}),
    ),
    "a cache": Twin(
        lambda b, s: [(b, 2, 1, 16), *[(b, 2, s, 16), (b, 2, 1, 16)] * 2],
        of_a_cache,
        ({"b": 3, "s": 7}, {"b": 1, "s": 1}, {"b": 2, "s": 63}),
    ),
}


# What is one launch without: of results that are written as wide as they are, and of one query.
OTHERWISE = ("columns", "a cache")


def bounded(name: str, **bounds: int) -> Twin:
    twin = CASES[name]
    most = max(sizes["s"] for sizes in twin.sizes)
    return replace(twin, bounds=bounds or {"s": most})


QUICK = ("of halves", "columns", "depth")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)
def test_one_kernel_as_of_known_sizes(name):
    """In several orders of its threads, which read nothing beyond what there is."""
    twin = bounded(name)
    assert tvm_stitch.explain(twin.symbolic, H200).launches == 1
    if name not in OTHERWISE:
        assert limits_stated(the_kernel(twin.symbolic, H200)) == twin.bounds
    verify(twin, *twin.sizes, orders=3)


@pytest.mark.parametrize("name", ("keys", "halved"))
def test_the_host_refuses_more(name):
    twin = bounded(name)
    runner = Runner(stitched_for_cpu(twin.symbolic, H200), H200)
    most, batch = twin.bounds["s"], 1
    arrays = random_inputs(twin.symbolic, 0, {"b": batch, "s": most})
    runner.run(arrays, 0)
    shapes = [*twin.shapes(batch, most + 1), (batch, most + 1)]
    with pytest.raises(InputError, match=f"has room for products of s = {most} at most"):
        runner.run([np.zeros(shape, "float32") for shape in shapes], 0)


@pytest.mark.slow
def test_sizes_that_are_stated_have_the_static_kernel():
    twin = bounded("keys")
    options = Options(extents={"b": (3,), "s": (7, 64)})
    kernel = the_kernel(twin.symbolic, H200, options)
    stated = json.loads(str(kernel.attrs[STATED_SIZES_ATTRIBUTE]))
    assert [each["sizes"] for each in stated] == [{"b": 3, "s": 7}, {"b": 3, "s": 64}]
    verify(twin, *twin.sizes, options=options)


def test_records_of_others_are_not_asked(tmp_path):
    database = tmp_path / "records.jsonl"
    database.touch()
    module = stitched(bounded("keys").symbolic, before="StitchSchedule")
    with H200:
        found = transform.StitchSchedule(H200, str(database))(module)
    kernels = [limits_stated(each) for each in found.functions.values() if is_stitched(each)]
    assert kernels == [{"s": 64}]


def test_the_report_says_for_how_many():
    (kernel,) = tvm_stitch.explain(bounded("keys").symbolic, H200).kernels
    assert "for s of at most 64" in kernel.mapping and "small matrix products" in kernel.why


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [({"s": 128}, "sums over 128 elements, more than 64"), ({"b": 9}, "known at run time only")],
)
def test_others_say_why_not(bounds, reason):
    report = tvm_stitch.explain(bounded("keys", **bounds).symbolic, H200)
    assert report.launches == 3
    assert reason in " ".join(fallback.reason for fallback in report.fallbacks)
