"""The shim asks cuDNN for the attention that it is told: against a stand-in library."""

import threading
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from library_stand_in import stand_in

from tvm_stitch.library import locate, shim
from tvm_stitch.library.attention import (
    BOTTOM_RIGHT,
    NO_MASK,
    TOP_LEFT,
    Attention,
    Bias,
    Place,
    decoded,
)
from tvm_stitch.library.numpy_attention import attend

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CLOSE = {"float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture
def seen(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN) as found:
        yield found


def rows_first(rows, heads, depth, start=0, whole=None):
    """(batch, rows, heads, depth), be it the part of a wider tensor from `start`."""
    width = whole or heads * depth
    return Place(start, rows * width, depth, width)


def of(mask=NO_MASK, batch=2, heads=3, key_heads=3, queries=7, keys=9, depth=8, **more):
    return Attention(
        mask, 0.3, batch, heads, key_heads, queries, keys, depth, depth,
        rows_first(queries, heads, depth), rows_first(keys, key_heads, depth),
        rows_first(keys, key_heads, depth), rows_first(queries, heads, depth), **more,
    )  # fmt: skip


def arrays_of(attention, dtype, bias=None, seed=0):
    random = np.random.default_rng(seed)
    rows = attention.batch * attention.queries * attention.heads * attention.depth
    columns = attention.batch * attention.keys * attention.key_heads * attention.depth
    sizes = [rows, columns, columns] + ([bias] if bias is not None else [])
    return [random.normal(size=size).astype(TYPES[dtype]) for size in sizes]


def tensor(array):
    return tvm.runtime.tensor(np.ascontiguousarray(array))


def call(attention, arrays, dtype, workspace=1 << 12, count=None):
    rows = attention.batch * attention.queries * attention.heads * attention.value_depth
    result = tensor(np.full(count or rows, 7, TYPES[dtype]))
    space = tensor(np.zeros(workspace, np.uint8))
    numbers = tvm_ffi.Shape(attention.encoded())
    shim.function("attention")(*map(tensor, arrays), numbers, result, space)
    return result.numpy()


def check(attention, dtype="float16", bias=None):
    arrays = arrays_of(attention, dtype, bias)
    found = call(attention, arrays, dtype)
    exact = np.zeros(found.shape)
    attend(attention, arrays, exact)
    assert np.array_equal(np.isnan(found.astype(float)), np.isnan(exact))
    assert np.nanmax(np.abs(found.astype(float) - exact)) <= CLOSE[dtype] * np.nanmax(np.abs(exact))


@pytest.mark.spread(6)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mask", [NO_MASK, TOP_LEFT, BOTTOM_RIGHT])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 31), (33, 33), (1, 1027)])
def test_lengths_and_masks(seen, dtype, mask, queries, keys):
    check(of(mask, queries=queries, keys=keys), dtype)


@pytest.mark.parametrize("key_heads", [1, 2, 6])
def test_heads_of_queries_share_those_of_keys(seen, key_heads):
    check(of(heads=6, key_heads=key_heads))


BIASES = {
    "of each score": (Bias(0, 3 * 7 * 9, 7 * 9, 9, 1), 2 * 3 * 7 * 9),
    "the same for all heads": (Bias(0, 7 * 9, 0, 9, 1), 2 * 7 * 9),
    "of the keys": (Bias(0, 9, 0, 0, 1), 2 * 9),
    "of heads": (Bias(0, 0, 7 * 9, 9, 1), 3 * 7 * 9),
    "from another place": (Bias(5, 0, 0, 9, 1), 7 * 9 + 5),
}


@pytest.mark.parametrize("name", BIASES)
def test_biases(seen, name):
    bias, count = BIASES[name]
    check(of(bias=bias), bias=count)
    check(of(TOP_LEFT, bias=bias), bias=count)


def test_rows_that_see_no_key_are_zeros(seen):
    attention = of(bias=Bias(0, 0, 0, 9, 1))
    arrays = arrays_of(attention, "float16", 7 * 9)
    arrays[3].reshape(7, 9)[2] = -np.inf
    found = call(attention, arrays, "float16").reshape(2, 7, -1)
    assert (found[:, 2] == 0).all() and (found[:, [0, 1, 3, 4, 5, 6]] != 0).all()
    arrays[0][0] = np.nan  # of the first query, which sees all
    found = call(attention, arrays, "float16").reshape(2, 7, 3, -1)
    assert np.isnan(found[0, 0, 0]).all() and np.isnan(found).sum() == 8


def test_heads_of_one_product_are_read_in_place(seen):
    wide = [rows_first(7, 3, 8, start, whole=72) for start in (0, 24, 48)]
    attention = replace(of(keys=7), query=wide[0], key=wide[1], value=wide[2])
    merged = np.random.default_rng(0).normal(size=2 * 7 * 72).astype(np.float16)
    exact = np.zeros(2 * 7 * 24)
    attend(attention, [merged] * 3, exact)
    assert np.abs(call(attention, [merged] * 3, "float16") - exact).max() < 2e-3


def test_heads_first(seen):
    heads_first = Place(0, 3 * 7 * 8, 7 * 8, 8)
    check(replace(of(keys=7), query=heads_first, output=heads_first))


def test_numbers_are_read_as_they_were_written():
    for attention in (of(), of(TOP_LEFT, bias=Bias(1, 2, 3, 4, 5)), of(key_heads=1)):
        found = decoded(attention.encoded())
        assert replace(found, scale=attention.scale) == attention
        assert found.scale == pytest.approx(attention.scale)


def test_a_way_is_found_once(seen):
    attention, arrays = of(queries=5), None
    before = seen.planned
    arrays = arrays_of(attention, "float16")
    first = call(attention, arrays, "float16")
    assert np.array_equal(first, call(attention, arrays, "float16"))
    assert seen.planned == before + 1


def test_reproducible_engines_only(seen):
    check(of(queries=3))
    assert seen.engine == 1


def test_threads_have_their_own_handles(seen):
    before, failed, all_called = seen.created, [], threading.Barrier(3, timeout=60)

    def work():
        try:
            check(of(queries=2))
            all_called.wait()  # what a thread that is over leaves behind is another's
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and seen.created == before + 3


def test_errors_say_what_and_why(seen, monkeypatch):
    attention = of(queries=4, bias=Bias(0, 0, 0, 9, 1), key_heads=1)
    arrays = arrays_of(attention, "float16", 4 * 9)
    monkeypatch.setenv("STAND_IN_FAILS", "engines")
    with pytest.raises(RuntimeError, match=r"float16, batch 2, heads 3, heads of keys 1, .*bias"):
        call(attention, arrays, "float16")
    with pytest.raises(TypeError, match="takes 6 or 7 arguments"):
        shim.function("attention")(tensor(arrays[0]))
    with pytest.raises(TypeError, match="attention with 6 arguments"):
        call(attention, arrays[:3], "float16")
    with pytest.raises(ValueError, match="not the numbers of attention"):
        shim.function("attention")(
            *map(tensor, arrays[:3]), tvm_ffi.Shape((1, 2)), *[tensor(arrays[0])] * 2
        )


def test_rows_that_begin_in_between_are_refused(seen):
    attention = replace(of(), query=rows_first(7, 3, 8, start=1))
    arrays = arrays_of(attention, "float16")
    with pytest.raises(ValueError, match="multiples of 16 bytes"):
        call(attention, arrays, "float16")
