"""Products of few rows whose weights are computed of int8, of int4 and of words of eight."""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from check import H200, HALVES
from tvm import te, tirx

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.skinny_matmul.build import (
    SkinnyKernel,
    emit_skinny,
    read_skinny,
    skinny_kernel,
)
from tvm_stitch.kernel.skinny_matmul.tiles import SkinnyTiles
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

GROUP = 32
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Kept:
    """How a model keeps its weights: as tensors, in TE, and as they are meant.

    stages: of x's dtype and the tensors, the weights; all but the last are what comes before.
    """

    name: str
    along: bool  # whether the depth lies along memory
    tensors: Callable[[int, int], list[np.ndarray]]
    computed: Callable[[str, list[te.Tensor]], te.Tensor]
    meant: Callable[[list[np.ndarray]], np.ndarray]


def _int8(depth, columns):
    return [RNG.integers(-128, 128, (columns, depth)).astype("int8")]


def _int8_across(depth, columns):
    return [RNG.integers(-128, 128, (depth, columns)).astype("int8")]


def _cast(dtype, tensors):
    (q,) = tensors
    return te.compute(q.shape, lambda *at: q[at].astype(dtype), "weights")


def _int4(depth, columns):
    """Two neighbours of a row a byte, and a scale for each group of a row."""
    bytes_ = RNG.integers(0, 256, (columns, depth // 2)).astype("uint8")
    return [bytes_, RNG.random((columns, depth // GROUP)).astype("float32")]


def _nibbles(dtype, tensors):
    q, scales = tensors
    columns, half = q.shape

    def nibble(row, at):
        byte = q[row, tirx.floordiv(at, 2)]
        low, high = byte & tirx.const(15, "uint8"), byte >> tirx.const(4, "uint8")
        return tirx.if_then_else(tirx.floormod(at, 2) < 1, low, high).astype(dtype)

    whole = te.compute((columns, half * 2), nibble, "nibbles")

    def scaled(row, at):
        value = whole[row, at].astype("float32") - 8.0
        return (value * scales[row, tirx.floordiv(at, GROUP)]).astype(dtype)

    return te.compute(whole.shape, scaled, "weights")


def _meant_int4(tensors):
    q, scales = tensors
    nibbles = np.stack([q & 15, q >> 4], -1).reshape(len(q), -1).astype("float64")
    return (nibbles - 8) * np.repeat(scales, GROUP, 1)


def _words(depth, columns):
    """Eight neighbours of a column a word, and a scale for each group of a column."""
    words = RNG.integers(-(1 << 31), 1 << 31, (depth // 8, columns)).astype("int32")
    return [words, RNG.random((depth // GROUP, columns)).astype("float32")]


def _of_words(dtype, tensors):
    q, scales = tensors

    def scaled(at, column):
        shift = (tirx.floormod(at, 8) * 4).astype("int32")
        nibble = (q[tirx.floordiv(at, 8), column] >> shift) & tirx.const(15, "int32")
        value = nibble.astype("float32") - 8.0
        return (value * scales[tirx.floordiv(at, GROUP), column]).astype(dtype)

    return te.compute((q.shape[0] * 8, q.shape[1]), scaled, "weights")


def _meant_words(tensors):
    q, scales = tensors
    nibbles = (q[:, None, :] >> (4 * np.arange(8))[None, :, None]) & 15
    return (nibbles.reshape(-1, q.shape[1]).astype("float64") - 8) * np.repeat(scales, GROUP, 0)


def _as_they_are(tensors):
    return tensors[0].astype("float64")


WAYS = (
    Kept("int8", True, _int8, _cast, _as_they_are),
    Kept("int8 across", False, _int8_across, _cast, _as_they_are),
    Kept("int4", True, _int4, _nibbles, _meant_int4),
    Kept("words", False, _words, _of_words, _meant_words),
)
OF_WAYS = pytest.mark.parametrize("kept", WAYS, ids=lambda kept: kept.name)


def function_of(kept, dtype, rows, arrays, depth, columns) -> tirx.PrimFunc:
    """The product of x by weights that are computed."""
    x = te.placeholder((rows, depth), dtype, "x")
    tensors = [te.placeholder(array.shape, str(array.dtype), "kept") for array in arrays]
    weights = kept.computed(dtype, tensors)
    k = te.reduce_axis((0, depth), "k")

    def element(i, j):
        weight = weights[j, k] if kept.along else weights[k, j]
        return te.sum(x[i, k].astype("float32") * weight.astype("float32"), k)

    return te.create_prim_func([x, *tensors, te.compute((rows, columns), element, "product")])


def rounded(array, dtype):
    """An array of halves, as the executor takes them."""
    return array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def kernel_of(function) -> SkinnyKernel | Refused:
    """The kernel of few rows that a function becomes."""
    stages = read_stages(function)
    outputs = outputs_of(function, stages)
    return skinny_kernel(stages, outputs, device_of(H200), NO_BOUNDS, SCHEMES)


@OF_WAYS
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "rows, depth, columns",
    [(3, 96, 72), (16, 544, 136), pytest.param(9, 1056, 264, marks=pytest.mark.slow)],
)
def test_odd_sizes(kept, dtype, rows, depth, columns):
    """Depths that are no whole chunks, columns that are no whole blocks; shuffled threads."""
    arrays = kept.tensors(depth, columns)
    function = function_of(kept, dtype, rows, arrays, depth, columns)
    kernel = kernel_of(function)
    assert isinstance(kernel, SkinnyKernel), kernel
    right(kept, function, kernel.tiles[0], dtype, arrays)


@pytest.mark.slow
@OF_WAYS
@pytest.mark.parametrize("columns, warps, chunks", [(16, 1, 4), (16, 8, 1), (32, 4, 1)])
def test_every_tile(kept, columns, warps, chunks):
    if kept.along and columns > 16:
        pytest.skip("blocks have 16 columns where the depth lies along memory")
    arrays = kept.tensors(544, 136)
    function = function_of(kept, "float16", 5, arrays, 544, 136)
    right(kept, function, SkinnyTiles(columns, warps, chunks), "float16", arrays)


def right(kept, function, tiles, dtype, arrays) -> None:
    """Right against float64, weights rounded as they are to be, in two orders of threads."""
    found = read_skinny(function)
    assert not isinstance(found, Refused)
    kernel = emit_skinny(function, found, [tiles])
    rows, depth = map(int, function.params[0].ty.shape)
    x = rounded(RNG.standard_normal((rows, depth)), dtype)
    weights = rounded(kept.meant(arrays), dtype).astype("float64")
    expected = x.astype("float64") @ (weights.T if kept.along else weights)
    for seed in (0, 1):
        result = np.zeros(expected.shape, "float32")
        run = tvm_stitch.simt.Function(kernel, H200, check=True)([x, *arrays, result], seed=seed)
        assert not run.hazards
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def test_weights_are_read_as_they_are_kept():
    """Of int4 a lane loads four bytes for eight weights, and a scale."""
    arrays = _int4(256, 128)
    kernel = kernel_of(function_of(WAYS[2], "bfloat16", 4, arrays, 256, 128))
    (product,) = kernel.products
    assert sorted(str(buffer.ty.dtype) for buffer in product.inputs) == [
        "bfloat16",
        "float32",
        "uint8",
    ]


def test_a_single_row_with_scales_of_groups():
    """Which those who reduce rows do not take; a single row of int8 is left to them."""
    arrays = _int4(256, 128)
    function = function_of(WAYS[2], "float16", 1, arrays, 256, 128)
    kernel = kernel_of(function)
    assert isinstance(kernel, SkinnyKernel)
    right(WAYS[2], function, kernel.tiles[0], "float16", arrays)
    plain = kernel_of(function_of(WAYS[0], "float16", 1, _int8(256, 128), 256, 128))
    assert isinstance(plain, Refused) and "reduced as rows" in plain.reason


def test_lanes_beyond_the_depth_add_nothing():
    """They compute weights of the last chunk, which may not be finite."""
    arrays = _int4(96, 64)
    arrays[1][5, -1] = np.inf
    function = function_of(WAYS[2], "float16", 2, arrays, 96, 64)
    kernel = emit_skinny(function, read_skinny(function), [SkinnyTiles(16, 4, 4)])
    x = np.ones((2, 96), "float16")
    x[:, 64:] = 0  # by which an infinite weight is not a number, once
    result = np.zeros((2, 64), "float32")
    run = tvm_stitch.simt.Function(kernel, H200, check=True)([x, *arrays, result])
    assert not run.hazards
    assert np.isfinite(np.delete(result, 5, axis=1)).all()


@pytest.mark.parametrize(
    "period, reason",
    [(3, "is not read by vectors"), (24, "depends on where it is")],
)
def test_what_a_lane_cannot_load(period, reason):
    """Scales of groups of three; tensors that take turns by what eight weights do not share."""
    depth, columns = 192, 64
    q = te.placeholder((columns, depth), "int8", "q")
    if period == 3:
        s = te.placeholder((columns, depth // 3), "float16", "s")
        of = lambda j, k: q[j, k].astype("float16") * s[j, tirx.floordiv(k, 3)]  # noqa: E731
    else:
        s = te.placeholder((columns, depth), "int8", "s")
        of = lambda j, k: tirx.if_then_else(  # noqa: E731
            tirx.floormod(k, 24) < 12, q[j, k], s[j, k]
        ).astype("float16")
    w = te.compute((columns, depth), of, "weights")
    x = te.placeholder((4, depth), "float16", "x")
    axis = te.reduce_axis((0, depth), "k")
    product = te.compute(
        (4, columns),
        lambda i, j: te.sum(x[i, axis].astype("float32") * w[j, axis].astype("float32"), axis),
        "product",
    )
    refused = kernel_of(te.create_prim_func([x, q, s, product]))
    assert isinstance(refused, Refused) and reason in refused.reason
