"""Attention of few queries, as where a model decodes, and of short ones, against NumPy."""

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from check import A100, H200
from tvm import tirx

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.kernel.attention.build import (
    ATTENTION_ATTRIBUTE,
    AttentionKernels,
    emit_attention,
    read_attention,
)
from tvm_stitch.kernel.attention.tiles import AttentionTiles, choose_tiles, why_not
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.library.attention import BOTTOM_RIGHT, NO_MASK, TOP_LEFT, Attention, Bias, Place
from tvm_stitch.library.numpy_attention import attend
from tvm_stitch.library.of_counts import BATCH, KEYS
from tvm_stitch.target import full_target

DEVICE = device_of(H200)
OLD = full_target({"kind": "cuda", "arch": "sm_75"})
CLOSE = {"float16": 2e-3, "bfloat16": 2e-2}


def attention(
    heads, key_heads, queries, keys, depth, value_depth=None, batch=1, mask=NO_MASK, bias=None
) -> Attention:
    """Tensors as (batch, heads, rows, depth), the result as (batch, rows, heads, depth)."""
    value_depth = value_depth or depth
    return Attention(
        mask, 1 / math.sqrt(depth), batch, heads, key_heads, queries, keys, depth, value_depth,
        Place(0, heads * queries * depth, queries * depth, depth),
        Place(0, key_heads * keys * depth, keys * depth, depth),
        Place(0, key_heads * keys * value_depth, keys * value_depth, value_depth),
        Place(0, heads * queries * value_depth, value_depth, heads * value_depth),
        bias,
    )  # fmt: skip


def arrays_of(a: Attention, dtype: str, seed: int = 0) -> list[np.ndarray]:
    """Query, keys, values, perhaps the bias, and room for the result."""
    rng = np.random.default_rng(seed)
    shapes = [
        (a.batch, a.heads, a.queries, a.depth),
        (a.batch, a.key_heads, a.keys, a.depth),
        (a.batch, a.key_heads, a.keys, a.value_depth),
        *([(a.queries, a.keys)] if a.bias else []),
    ]
    made = [rng.standard_normal(shape).astype(kind(dtype)) for shape in shapes]
    return [*made, np.zeros((a.batch, a.queries, a.heads, a.value_depth), kind(dtype))]


def kind(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def tensors_of(arrays, dtype: str):
    return [(array.shape, dtype) for array in arrays]


def right(a: Attention, dtype="float16", tiles: AttentionTiles | None = None, arrays=None) -> None:
    """The kernel is right in shuffled orders of threads, and without hazards."""
    arrays = arrays or arrays_of(a, dtype)
    tensors = tensors_of(arrays, dtype)
    if tiles is None:
        kernel = AttentionKernels(DEVICE).kernel(a, tensors)
        assert isinstance(kernel, tirx.PrimFunc), kernel
    else:
        kernel = emit_attention(a, tensors, tiles)
    expected = arrays[-1].astype("float64")
    attend(a, [array.astype("float64") for array in arrays[:-1]], expected)
    for seed in (1, 2):
        given = [array.view(np.uint16) if dtype == "bfloat16" else array for array in arrays]
        run = tvm_stitch.simt.Function(kernel, H200, check=True)(given, seed=seed)
        assert not run.hazards, run.hazards
        found = arrays[-1].astype("float64")
        np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE[dtype])


@pytest.mark.parametrize("keys", (1, 7, 31, 33, 64, 200))
def test_one_query(keys):
    right(attention(2, 2, 1, keys, 64))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize(
    "sizes",
    [
        (4, 1, 1, 100, 128),  # grouped queries
        (8, 1, 1, 513, 64),
        (12, 1, 1, 40, 32),  # more rows than a matrix has
        (16, 1, 1, 129, 128),
        (3, 3, 5, 33, 64),  # several queries
        (4, 2, 4, 77, 96),
        (6, 2, 3, 70, 80),
    ],
)
def test_queries_that_share_keys(sizes, dtype):
    right(attention(*sizes), dtype)


@pytest.mark.parametrize("depths", [(8, 16), (40, 48), (72, 64), (128, 32), (192, 128)])
def test_depths(depths):
    depth, value_depth = depths
    right(attention(2, 1, 1, 50, depth, value_depth))


@pytest.mark.parametrize("mask", (TOP_LEFT, BOTTOM_RIGHT))
def test_masks(mask):
    right(attention(4, 2, 3, 37, 32, mask=mask))


def test_biases_for_all_heads_and_rows_that_see_no_key():
    a = attention(4, 2, 2, 45, 32, bias=Bias(0, 0, 0, 45, 1))
    arrays = arrays_of(a, "float16")
    arrays[3][0, 17:] = -np.inf
    arrays[3][1] = -np.inf
    right(a, arrays=arrays)


def left_padded(a: Attention, arrays) -> None:
    """The first entry's tokens begin late: rows before see nothing, and splits no key they see."""
    arrays[3][...] = np.where(np.tri(a.queries, a.keys, a.keys - a.queries, bool), 0, -np.inf)
    arrays[3][0, :, : a.keys - a.queries // 2] = -np.inf
    arrays[3][1, -1, : a.keys - 1] = -np.inf


@pytest.mark.parametrize("ahead", (False, True))
@pytest.mark.parametrize(
    "sizes, splits, warps",
    [((4, 2, 3, 300, 32), 1, 4), ((4, 1, 4, 200, 32), 8, 2), ((2, 2, 4, 17, 32), 2, 1)],
)
def test_keys_of_whole_warps_and_blocks_are_hidden(sizes, splits, warps, ahead):
    hidden_right(sizes, AttentionTiles(splits, warps, ahead))


@pytest.mark.parametrize("queries, keys", [(20, 20), (70, 90)])
@pytest.mark.parametrize("turn", (16, 32))
def test_keys_of_whole_turns_are_hidden(queries, keys, turn):
    hidden_right((2, 1, queries, keys, 32), AttentionTiles(1, 2, True, by_rows=True, turn=turn))


def hidden_right(sizes, tiles: AttentionTiles, mask=NO_MASK) -> None:
    """A bias of each entry, which hides all keys of some rows; beside it perhaps a mask."""
    *_, queries, keys, _ = sizes
    a = attention(*sizes, batch=2, mask=mask, bias=Bias(0, queries * keys, 0, keys, 1))
    arrays = arrays_of(a, "float16")
    arrays[3] = np.zeros((2, queries, keys), "float16")
    left_padded(a, arrays)
    right(a, tiles=tiles, arrays=arrays)
    assert (arrays[-1][0, 0] == 0).all() and (arrays[-1][1, 0] != 0).any()


def test_a_mask_leaves_what_a_bias_hides():
    for mask in (TOP_LEFT, BOTTOM_RIGHT):
        hidden_right((4, 2, 3, 40, 32), AttentionTiles(1, 2, False), mask)
        hidden_right((2, 2, 40, 40, 32), AttentionTiles(1, 2, True, by_rows=True), mask)


def test_the_least_number_is_no_infinity():
    """Masks of models are often of the least number there is: rows of nothing else are means."""
    a = attention(2, 2, 1, 40, 32, bias=Bias(0, 0, 0, 40, 1))
    arrays = arrays_of(a, "bfloat16")
    arrays[3][...] = ml_dtypes.finfo("bfloat16").min
    right(a, "bfloat16", arrays=arrays)


@pytest.mark.parametrize("ahead", (False, True))
@pytest.mark.parametrize("splits, warps", [(1, 1), (1, 4), (2, 2), (4, 1), (8, 2)])
def test_every_tile(splits, warps, ahead):
    """Warps of one turn, of several, and of none that has a key."""
    for keys in (9, 300):
        right(attention(4, 1, 1, keys, 64, batch=2), tiles=AttentionTiles(splits, warps, ahead))


def test_large_scores_and_what_is_no_number():
    a = attention(1, 1, 1, 70, 32)
    arrays = arrays_of(a, "float16")
    arrays[0] *= np.float16(300)
    right(a, arrays=arrays)
    arrays[1][0, 0, 60] = np.nan
    right(a, arrays=arrays)


def test_what_is_not_taken():
    for sizes, reason in (
        ((2, 2, 1, 64, 12), "heads of 12"),
        ((2, 2, 1, 64, 256), "too deep"),
    ):
        assert reason in why_not(attention(*sizes), DEVICE).reason
    turned = replace(attention(2, 2, 1, 64, 64), scale=-0.5)
    assert "the least" in why_not(turned, DEVICE).reason
    assert "tensor cores" in why_not(attention(2, 2, 1, 64, 64), device_of(OLD)).reason
    assert choose_tiles(attention(2, 2, 1, 640, 64), device_of(A100)).splits == 1


def test_a_kernel_says_what_it_computes():
    a = attention(8, 2, 1, 512, 64, batch=3, mask=BOTTOM_RIGHT)
    kernel = AttentionKernels(DEVICE).kernel(a, tensors_of(arrays_of(a, "float16"), "float16"))
    assert read_attention(kernel) == (
        replace(a, scale=np.float32(a.scale)),
        choose_tiles(a, DEVICE),
    )
    assert ATTENTION_ATTRIBUTE in kernel.attrs


@pytest.mark.parametrize(
    "batch, key_heads, keys, splits, warps",
    [(1, 8, 512, 8, 4), (1, 8, 32768, 8, 8), (64, 8, 512, 1, 8), (1, 2, 16, 1, 1)],
)
def test_blocks_for_most_multiprocessors(batch, key_heads, keys, splits, warps):
    found = choose_tiles(attention(key_heads * 4, key_heads, 1, keys, 128, batch=batch), DEVICE)
    assert (found.splits, found.warps) == (splits, warps)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize(
    "sizes",
    [
        (2, 2, 17, 17, 64),
        (2, 2, 128, 128, 64),
        (3, 3, 197, 77, 64),
        (4, 1, 33, 40, 32),  # a warp's queries are of several heads
        (2, 1, 64, 200, 128),
        (1, 1, 31, 1027, 16),
        (2, 2, 70, 70, 80),
    ],
)
def test_warps_with_queries_of_their_own(sizes, dtype):
    right(attention(*sizes), dtype)


@pytest.mark.parametrize("mask", (TOP_LEFT, BOTTOM_RIGHT))
@pytest.mark.parametrize("queries, keys", [(130, 130), (40, 100), (100, 40)])
def test_masks_of_many_queries(mask, queries, keys):
    if mask == TOP_LEFT or queries <= keys:
        right(attention(4, 2, queries, keys, 32, mask=mask))


@pytest.mark.parametrize("ahead", (False, True))
@pytest.mark.parametrize("warps", (1, 2, 4, 8))
def test_every_tile_by_rows(warps, ahead):
    for queries, keys in ((20, 9), (70, 50)):
        tiles = AttentionTiles(1, warps, ahead, by_rows=True)
        right(attention(2, 1, queries, keys, 64, batch=2), tiles=tiles)


@pytest.mark.parametrize("ahead", (False, True))
def test_turns_of_more_keys(ahead):
    for by_rows, queries in ((True, 40), (False, 2)):
        tiles = AttentionTiles(1, 2, ahead, by_rows=by_rows, turn=32)
        for keys in (20, 100):
            right(attention(4, 2, queries, keys, 64), tiles=tiles)


@pytest.mark.parametrize(
    "sizes, bias, warps, turn",
    [
        ((8, 8, 128, 128, 64), None, 2, 32),  # all blocks are resident
        ((192, 192, 128, 128, 64), None, 2, 16),
        ((600, 600, 49, 49, 32), Bias(0, 0, 49 * 49, 49, 1), 4, 32),
        ((64, 64, 64, 32, 64), None, 4, 16),
        ((4, 4, 64, 500, 128), None, 4, 16),  # too deep for more keys at once
    ],
)
def test_turns_and_warps_by_rows(sizes, bias, warps, turn):
    found = choose_tiles(attention(*sizes, bias=bias), DEVICE)
    assert (found.by_rows, found.warps, found.turn) == (True, warps, turn)


def test_only_the_last_turn_asks_for_the_last_key_and_one_turn_rescales_nothing():
    tiles = AttentionTiles(1, 2, ahead=False, by_rows=True)

    def text(keys):
        a = attention(1, 1, 20, keys, 16)
        return emit_attention(a, tensors_of(arrays_of(a, "float16"), "float16"), tiles).script()

    assert "factor" in text(32) and "factor" not in text(16)
    keys_of_a_turn = 16 // 8 + 16 // 4  # rows of keys, and of values
    assert text(40).count("T.min(") - text(32).count("T.min(") == keys_of_a_turn


def counted(*sizes, bias=None, mask=NO_MASK) -> Attention:
    """The same, of keys that are counted at run time only."""
    a = attention(*sizes, bias=bias, mask=mask)
    own = attention(*sizes[:3], 1, *sizes[4:])

    def place(of_one: Place) -> Place:
        return Place(0, KEYS * of_one.batch, KEYS * of_one.head, of_one.row)

    return replace(a, keys=KEYS, key=place(own.key), value=place(own.value))


UNLIKE = 5  # no other extent


def right_at(
    a: Attention, lengths, dtype="float16", tiles: AttentionTiles | None = None, hides=False
) -> None:
    """One kernel is right at all of these numbers of keys, of which the first query may see none,
    and the last one the last."""
    shapes = [array.shape for array in arrays_of(a.at(UNLIKE), dtype)]
    tensors = [
        (tuple(KEYS if each == UNLIKE else each for each in shape), dtype) for shape in shapes
    ]
    tiles = tiles or choose_tiles(a, DEVICE)
    kernel = emit_attention(a, tensors, tiles)
    assert check_kernel(kernel, DEVICE) is None
    assert read_attention(kernel) == (replace(a, scale=np.float32(a.scale)), tiles)
    function = tvm_stitch.simt.Function(kernel, H200, check=True)
    for length in lengths:
        arrays = arrays_of(a.at(length), dtype, seed=length)
        if hides:
            arrays[3][0] = arrays[3][-1, :-1] = -np.inf
        expected = arrays[-1].astype("float64")
        attend(a.at(length), [array.astype("float64") for array in arrays[:-1]], expected)
        given = [array.view(np.uint16) if dtype == "bfloat16" else array for array in arrays]
        run = function(given, seed=length)
        assert not run.hazards, run.hazards
        found = arrays[-1].astype("float64")
        np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE[dtype], err_msg=length)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize(
    "sizes", [(4, 2, 1, 0, 64), (16, 1, 1, 0, 128), (2, 2, 4, 0, 72, 48), (12, 12, 1, 0, 32)]
)
def test_keys_that_are_counted_at_run_time(sizes, dtype):
    """Fewer than warps, as many as a turn of all, and more than expected."""
    right_at(counted(*sizes), (1, 7, 33, 1000, 1024, 1027, 2500), dtype)


@pytest.mark.parametrize("ahead", (False, True))
@pytest.mark.parametrize("splits, warps", [(1, 1), (1, 4), (2, 2), (8, 2)])
def test_every_tile_of_counted_keys(splits, warps, ahead):
    tiles = AttentionTiles(splits, warps, ahead)
    right_at(counted(4, 1, 1, 0, 64), (1, 15, 16, 17, 300), tiles=tiles)


@pytest.mark.parametrize("mask", (TOP_LEFT, BOTTOM_RIGHT))
def test_masks_and_biases_of_counted_keys(mask):
    right_at(counted(4, 2, 1, 0, 32, mask=mask), (1, 40, 1100))
    right_at(counted(4, 2, 2, 0, 32, bias=Bias(0, 0, 0, KEYS, 1)), (3, 31, 1100))


def test_counted_keys_of_which_rows_see_one_or_none():
    right_at(counted(4, 2, 2, 0, 32, bias=Bias(0, 0, 0, KEYS, 1)), (1, 7, 40, 1027), hides=True)


UNLIKE_BATCH = 9  # nor is that one


@pytest.mark.parametrize(
    "sizes",
    [(4, 2, 1, 0, 64), (4, 2, 1, 200, 64), (2, 2, 40, 33, 32)],
    ids=("keys", "few", "many"),
)
def test_batches_of_any_size(sizes):
    """By keys that are counted, too; of known ones also where each warp has queries of its own."""
    keys = sizes[3]
    a = replace(attention(*sizes) if keys else counted(*sizes), batch=BATCH)
    shapes = [array.shape for array in arrays_of(a.at(UNLIKE, UNLIKE_BATCH), "float16")]
    symbols = {UNLIKE_BATCH: BATCH, **({} if keys else {UNLIKE: KEYS})}
    tensors = [(tuple(symbols.get(each, each) for each in shape), "float16") for shape in shapes]
    kernel = AttentionKernels(DEVICE).kernel(a, tensors)
    assert isinstance(kernel, tirx.PrimFunc), kernel
    function = tvm_stitch.simt.Function(kernel, H200, check=True)
    for batch, length in ((1, 7), (3, 40), (5, 1027)):
        arrays = arrays_of(a.at(length, batch), "float16", seed=length)
        expected = arrays[-1].astype("float64")
        attend(a.at(length, batch), [each.astype("float64") for each in arrays[:-1]], expected)
        run = function(arrays, seed=length)
        assert not run.hazards, run.hazards
        np.testing.assert_allclose(arrays[-1].astype("float64"), expected, rtol=0, atol=2e-3)


def test_counted_keys_are_planned_as_many_and_for_few_queries():
    found = choose_tiles(counted(32, 8, 1, 0, 128), DEVICE)
    assert (found.splits, found.warps, found.ahead) == (8, 8, True)
    assert AttentionKernels(DEVICE).us(counted(32, 8, 1, 0, 128)) < 6
    fixed = [((1, 4, 64, 64), "float16")] * 4
    found = AttentionKernels(DEVICE).kernel(counted(4, 4, 1, 0, 64), fixed)
    assert "no extent" in found.reason
    assert "17 queries" in why_not(counted(17, 1, 1, 0, 64), DEVICE).reason
