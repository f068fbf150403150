"""Short rows of which all are on their way at once."""

from dataclasses import replace

import pytest
from check import H200, check, program_of, schedule_of, the_kernel
from zoo import layer_norm, residual_rms_norm, softmax

from tvm_stitch import transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import choose, choose_both, side_by_side

# Rows of 256 halves: 16 threads for each, in batches of 4, are a wave of one multiprocessor.
WAVE = 256


@pytest.fixture(autouse=True)
def one_multiprocessor(monkeypatch):
    """A device that a few rows fill."""
    small = replace(device_of(H200), multiprocessors=1)
    monkeypatch.setattr(transform, "device_of", lambda target: small)


def batch_of(case) -> int:
    (mapping,) = schedule_of(the_kernel(case.module)).parts
    return mapping.batch


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
    choices = [choose_both((p,), small) for p in programs]
    assert [choice.alone.parts[0].batch for choice in choices] == [4, 4]
    packed = side_by_side(programs, [part for choice in choices for part in choice.packed])
    assert [part.batch for part in packed.parts] == [1, 1]
    assert packed == choose(programs, small)


def test_what_was_asked_before_changes_nothing():
    def asked() -> tuple:
        programs = tuple(program_of(softmax("bfloat16", WAVE, 256).module) for _ in range(2))
        return programs, transform.device_of(H200)

    programs, small = asked()
    alone = choose((programs[0],), small).parts[0]
    after = side_by_side(programs, [alone, alone])
    programs, small = asked()
    assert side_by_side(programs, [alone, alone]) == after
    assert choose(programs, small) == choose(asked()[0], small)
