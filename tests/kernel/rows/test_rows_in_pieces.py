"""Rows that lie in memory in short pieces: channels come last, and a group has few of them."""

import re

import numpy as np
import pytest
import tvm
from check import DTYPES, check, cuda_of, schedule_of, the_kernel
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, norm64

from tvm_stitch import Options
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.stages.symbolic_analyzer import int64

IMAGES = tirx.Var("n", "int64")


def group_norm_last(dtype: str, batch, positions: int, groups: int, channels: int) -> Case:
    """x of [batch, positions, groups * channels], normalised by group and scaled by channel."""
    number = batch[1] if isinstance(batch, tuple) else batch
    size = batch[0] if isinstance(batch, tuple) else batch

    def build(emit, x, w, b):
        h = emit(op.astype(x, "float32"))
        h = emit(op.reshape(h, (size, positions, groups, channels)))
        centred = emit(op.subtract(h, emit(op.mean(h, [1, 3], keepdims=True))))
        square = emit(op.mean(emit(op.multiply(centred, centred)), [1, 3], keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(square, relax.const(1e-5, "float32")))))
        normal = emit(op.multiply(centred, scale))
        normal = emit(op.reshape(normal, (size, positions, groups * channels)))
        w, b = (emit(op.astype(vector, "float32")) for vector in (w, b))
        return emit(op.astype(emit(op.add(emit(op.multiply(normal, w)), b)), dtype))

    def expected(x, w, b):
        h = x.reshape(number, positions, groups, channels)
        return norm64(h, axis=(1, 3)).reshape(x.shape) * w + b

    width = groups * channels
    return graph(dtype, [(batch, positions, width), (width,), (width,)], build, expected)


# One program that reads its rows in pieces, rather than shares of them in rounds of the grid.
WITHOUT_ROUNDS = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "global"))


def group_norm_first(shape, groups: int) -> Case:
    """x of [batch, channels, *places], normalised by group and scaled by channel."""
    channels, axes = shape[1], list(range(2, len(shape)))

    def build(emit, x, w, b):
        return emit(op.nn.group_norm(x, w, b, groups, channel_axis=1, axes=axes))

    def expected(x, w, b):
        normal = norm64(x.reshape(shape[0], groups, -1)).reshape(shape)
        w, b = (vector.reshape(channels, *(1 for _ in axes)) for vector in (w, b))
        return normal * w + b

    return graph("float32", [shape, (channels,), (channels,)], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("places", [1, 2, 3, 7])
def test_weights_of_short_pieces_are_read_where_they_lie(places):
    """Channels of few places: neighbours of a row share a weight now and then."""
    check(group_norm_first((3, 12, places, places), 3))


def mapping_of(case: Case):
    (mapping,) = schedule_of(the_kernel(case.module, options=WITHOUT_ROUNDS)).parts
    return mapping


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "batch, positions, groups, channels",
    [(2, 300, 4, 10), (1, 300, 4, 10), (3, 50, 2, 12), (2, 33, 3, 9), (2, 7, 5, 40), (2, 70, 3, 8)],
)
def test_group_norm_with_channels_last(batch, positions, groups, channels, dtype):
    check(group_norm_last(dtype, batch, positions, groups, channels))


def test_any_number_of_images():
    check(group_norm_last("float16", (IMAGES, 3), 130, 4, 10))


def test_threads_that_would_break_the_pieces_idle():
    """64 threads of 2 elements: 60 take twelve pieces of ten, always the same place in each."""
    case = group_norm_last("float16", 2, 300, 4, 10)
    mapping = mapping_of(case)
    assert mapping.vector == 2 and mapping.idle == mapping.threads % 5 > 0
    body = cuda_of(the_kernel(case.module, options=WITHOUT_ROUNDS)).rpartition('extern "C"')[2]
    assert "threadIdx.x) / 5" in body  # the thread's piece, once
    assert not re.search(r"step\w*[^;=]*\) [/%] ", body)


def test_pieces_that_are_a_power_of_two_need_no_idle_threads():
    assert mapping_of(group_norm_last("float16", 2, 300, 4, 16)).idle == 0


def test_rows_in_pieces_that_wait_in_shared_memory():
    case = group_norm_last("float32", 1, 9000, 2, 5)
    assert mapping_of(case).residence == "shared"
    check(case, orders=2, options=WITHOUT_ROUNDS)


def test_one_value_of_every_row_in_pieces():
    def build(emit, x):
        mean = emit(op.mean(x, [1, 3], keepdims=True))
        return mean, emit(op.exp(emit(op.subtract(x, mean))))

    def expected(x):
        mean = x.mean((1, 3), keepdims=True)
        return mean, np.exp(x - mean)

    check(graph("float32", [(3, 40, 4, 6)], build, expected))


def test_places_in_memory_are_told_apart():
    """Every row and column has one place, and the place knows its row."""
    space = Space(*map(int64, (6, 20, 5, 3)))
    simplify = tvm.sym.Analyzer().simplify
    places = np.array(
        [[int(simplify(space.flat(int64(r), int64(c)))) for c in range(20)] for r in range(6)]
    )
    layout = np.arange(120).reshape(2, 4, 3, 5)  # outer, image, inner, run
    np.testing.assert_array_equal(places, layout.transpose(0, 2, 1, 3).reshape(6, 20))
    rows = np.array([int(simplify(space.row_of(int64(place)))) for place in range(120)])
    np.testing.assert_array_equal(rows[places], np.arange(6)[:, None].repeat(20, 1))
