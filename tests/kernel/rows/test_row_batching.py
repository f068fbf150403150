"""Short rows of which all are on their way at once."""

from dataclasses import replace

import pytest
from check import H200, check, program_of, schedule_of, the_kernel
from depthwise import convolved
from tvm.relax import op
from zoo import Case, graph, layer_norm, norm64, residual_rms_norm, softmax

from tvm_stitch import transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel

# Rows of 256 halves: 16 threads for each, in batches of 4, are a wave of one multiprocessor.
WAVE = 256


@pytest.fixture(autouse=True)
def one_multiprocessor(monkeypatch):
    """A device that a few rows fill."""
    small = replace(device_of(H200), multiprocessors=1)
    monkeypatch.setattr(transform, "device_of", lambda target: small)


def kernel_of(program: Program) -> StitchedKernel:
    """The kernel of a program that has it to itself."""
    small = transform.device_of(H200)
    return StitchedKernel(small, NO_BOUNDS, (program,), choose((program,), small))


def batch_of(case) -> int:
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    return mapping.batch


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows", [WAVE // 2 + 1, 200, WAVE])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_wave_of_softmax(dtype, rows):
    case = softmax(dtype, rows, 256)
    assert batch_of(case) == 4
    check(case)


def test_weights_take_registers_that_rows_would_have():
    case = layer_norm("bfloat16", WAVE, 256)
    assert batch_of(case) == 8
    check(case)


@pytest.mark.parametrize("rows", [WAVE // 2, WAVE + 1])
def test_fewer_need_no_batch_and_more_are_several_waves(rows):
    assert batch_of(softmax("bfloat16", rows, 256)) == 1


@pytest.mark.parametrize("columns", [255, 1000])
def test_rows_that_no_threads_share_evenly_go_one_by_one(columns):
    assert batch_of(softmax("bfloat16", WAVE * 256 // columns, columns)) == 1


def test_two_inputs_leave_a_thread_fewer_columns():
    case = residual_rms_norm("bfloat16", WAVE // 2, 256)
    assert batch_of(case) == 4
    check(case)


def test_beside_others_a_wave_is_not_its_own():
    programs = tuple(program_of(softmax("bfloat16", WAVE, 256).module) for _ in range(2))
    small = transform.device_of(H200)
    kernels = [kernel_of(p) for p in programs]
    assert [kernel.schedule.parts[0].batch for kernel in kernels] == [4, 4]
    packed = kernels[0].joined(kernels[1:])
    assert [part.batch for part in packed.schedule.parts] == [1, 1]
    assert packed.schedule == choose(programs, small)


def test_what_was_asked_before_changes_nothing():
    def asked() -> tuple:
        programs = tuple(program_of(softmax("bfloat16", WAVE, 256).module) for _ in range(2))
        return programs, transform.device_of(H200)

    programs, small = asked()
    choose((programs[0],), small)
    assert choose(programs, small) == choose(asked()[0], small)


def test_a_wave_is_legal():
    """Of eight rows at once, where two weights leave a thread few columns of each."""
    (program,) = (program_of(layer_norm("bfloat16", WAVE, 256).module),)
    schedule = choose((program,), transform.device_of(H200))
    assert schedule.parts[0].batch == 8
    assert legal((program,), schedule, transform.device_of(H200)) is None


def norm_behind(shape: tuple[int, ...], window: tuple[int, int]) -> Case:
    """A layer norm of channels behind a depthwise convolution of them."""
    channels, padding = shape[-1], tuple(size // 2 for size in window)

    def build(emit, x, w, g, b):
        how = {"padding": padding, "groups": channels}
        y = emit(op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWOI", **how))
        return emit(op.nn.layer_norm(y, g, b, axes=-1))

    def expected(x, w, g, b):
        return norm64(convolved(x, w, (1, 1), padding, (1, 1))) * g + b

    shapes = [shape, (*window, channels, 1), (channels,), (channels,)]
    return graph("float16", shapes, build, expected)


def test_many_weights_are_not_loaded_ahead_nor_by_many_rows_of_a_thread():
    """Those of nine taps: 66 us on an H200 for 32 x 56 x 56 x 64, where others take 25."""
    case = norm_behind((4, 16, 16, 32), (3, 3))
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert not mapping.prefetch_weights and mapping.batch < 8
    check(case)


@pytest.mark.parametrize(
    "width, channels, window, rows",
    (
        (9, 512, (1, 11), 4),  # a last block of fewer
        (8, 1024, (3, 3), 4),
        (8, 512, (1, 5), 2),  # of too few lines
        (40, 64, (1, 11), 16),  # which are as many anyhow
    ),
)
def test_blocks_have_rows_that_read_the_same_lines(width, channels, window, rows):
    case = norm_behind((1, 1, width, channels), window)
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    assert mapping.rows == rows
    check(case, orders=2)
