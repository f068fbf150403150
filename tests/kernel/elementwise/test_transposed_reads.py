"""Transposed reads, by tiles in shared memory."""

import numpy as np
import pytest
from check import DTYPES, H200, check, cuda_of, program_of, schedule_of, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph, graph_of, transposed

from tvm_stitch import Options
from tvm_stitch.device import device_of
from tvm_stitch.kernel.elementwise.transposed_reads import find_tiling
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.tuning.spaces.space import Space

IMAGES = tirx.Var("n", "int64")


def tile_of(case: Case) -> int:
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    return mapping.tile


@pytest.mark.spread(3)
@pytest.mark.parametrize("rows", [8, 31, 64, 129])
@pytest.mark.parametrize("columns", [8, 33, 96, 1027])
def test_matrices(rows, columns):
    case = transposed((rows, columns), (1, 0))
    assert tile_of(case)
    check(case)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 128), (63, 1000), (1000, 63), (200, 24)])
def test_dtypes(dtype, shape):
    case = transposed(shape, (1, 0), dtype)
    assert tile_of(case)
    check(case)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "shape, axes",
    [
        ((2, 17, 3, 40), (0, 2, 3, 1)),  # heads and keys of an attention
        ((3, 9, 7, 20), (0, 3, 1, 2)),  # channels from last to first
        ((3, 20, 9, 7), (0, 2, 3, 1)),  # and back
        ((12, 5, 33), (2, 1, 0)),  # an axis stays between those that change places
        ((2, 3, 16, 8), (3, 1, 0, 2)),
    ],
)
def test_axes(shape, axes):
    case = transposed(shape, axes)
    assert tile_of(case)
    check(case)


@pytest.mark.parametrize("columns", [1, 7])
def test_a_short_axis_is_read_where_it_lies(columns):
    case = transposed((1000, columns), (1, 0))
    assert not tile_of(case)
    check(case)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("taps", [9, 25, 10, 12])
@pytest.mark.parametrize("channels", [8, 24, 40, 256, 300])
def test_short_lines_that_follow_each_other_are_one_run(dtype, taps, channels):
    """Weights of convolutions, whose taps lie innermost, with channels last."""
    case = transposed((3, channels, taps), (0, 2, 1), dtype)
    tiling = find_tiling(program_of(case.module))
    assert tile_of(case) and tiling.across == taps
    item = np.dtype(dtype if dtype != "bfloat16" else "float16").itemsize
    widest = next(n for n in (16 // item, 8 // item, 4 // item) if channels * taps % n == 0)
    assert tiling.runs == ((widest if taps % widest else 0),)
    check(case)


def test_a_run_is_loaded_by_vectors():
    source = cuda_of(the_kernel(transposed((16, 64, 9), (0, 2, 1), "float16").module))
    assert "*(uint4*)(p0_ptr" in source


def test_a_batch_of_symbolic_size():
    case = transposed(((IMAGES, 3), 40, 24), (0, 2, 1), "float16")
    assert tile_of(case)
    check(case)


def test_beside_straight_and_repeated_reads():
    def build(emit, x, y, bias):
        sum_ = emit(op.add(emit(op.permute_dims(x, (1, 0))), y))
        return emit(op.astype(emit(op.multiply(sum_, bias)), "float16"))

    case = graph("float32", [(50, 72), (72, 50), (50,)], build, lambda x, y, b: (x.T + y) * b)
    assert tile_of(case)
    check(case)


def test_two_transposed_tensors_of_different_width():
    def build(emit, x, y):
        first = emit(op.permute_dims(x, (1, 0)))
        second = emit(op.astype(emit(op.permute_dims(y, (1, 0))), "float32"))
        return emit(op.add(first, second))

    inputs = [((48, 70), "float32", None), ((48, 70), "float16", None)]
    case = graph_of(inputs, build, lambda x, y: (x + y).T)
    assert tile_of(case)
    check(case)


@pytest.mark.parametrize("dtype", ["bool", "int8"])
def test_a_transposed_mask_beside_transposed_halves(dtype):
    def build(emit, x, mask):
        kept = emit(op.astype(emit(op.permute_dims(mask, (1, 0))), "float16"))
        return emit(op.multiply(emit(op.permute_dims(x, (1, 0))), kept))

    mask = (np.arange(130 * 64) % 3 == 0).reshape(130, 64).astype(dtype)
    inputs = [((130, 64), "float16", None), ((130, 64), dtype, mask)]
    case = graph_of(inputs, build, lambda x, mask: (x * mask).T)
    assert tile_of(case)
    check(case)


def test_lines_are_read_as_vectors_and_neighbours_share_no_bank():
    source = cuda_of(the_kernel(transposed((128, 256), (1, 0), "float16").module))
    assert source.count("__syncthreads") == 1
    assert "uint4" in source


def test_without_shared_memory_it_is_read_where_it_lies():
    schemes = tuple(scheme for scheme in SCHEMES if scheme != "regional")
    case = transposed((64, 64), (1, 0))
    options = Options(schemes=schemes)
    (mapping,) = schedule_of(the_kernel(case.module, options=options)).parts
    assert not mapping.tile
    check(case, options=options)


def test_a_tuner_finds_tiles_of_other_shapes_and_none():
    program = program_of(transposed((40, 72), (1, 0)).module)
    space = Space((program,), ((0,),), device_of(H200))
    mappings = [point.schedule.parts[0] for point in space]
    assert {0, 8, 16, 32, 64} <= {mapping.tile for mapping in mappings}
    assert find_tiling(program).inner == 40


def test_unrelated_transposes_share_a_launch():
    def build(emit, x, y):
        return emit(op.permute_dims(x, (1, 0))), emit(op.permute_dims(y, (1, 0)))

    case = graph("float16", [(256, 192), (256, 256)], build, lambda x, y: (x.T, y.T))
    check(case)
