"""Blocks of rounds are as many as fit beside each other, whatever shared memory is asked for."""

import pytest
import tvm
from across_rows import softmax_over_rows
from check import H200, TOGETHER, stitched
from tvm.relax import op
from zoo import graph

from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.codegen.footprint import (
    STATIC_SHARED,
    all_asked_for,
    dynamic_left,
    is_not_asked_for,
)
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.emit import emit
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.spaces import rounds

DEVICE = device_of(H200)


@pytest.mark.parametrize("static", [0, 64, 16896, STATIC_SHARED])
@pytest.mark.parametrize("room", [20_000, 49_152, 57_000, 232_448])
def test_what_is_left_fits_however_it_is_asked_for(static, room):
    most = dynamic_left(static, room)
    for dynamic in range(0, most + 1, 64):
        assert all_asked_for(static, dynamic) <= max(room, static)
        if is_not_asked_for(static, dynamic):
            assert all_asked_for(static, dynamic) > static + dynamic


def shares_of_columns(rows, columns):
    """A softmax along rows, divided by its sums over them: both kinds of shared memory."""

    def build(emit, x):
        weights = emit(op.nn.softmax(x))
        return emit(op.divide(weights, emit(op.sum(weights, axis=0, keepdims=True))))

    return graph("float32", [(rows, columns)], build, lambda *_: ())


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [softmax_over_rows((8192, 1024)), shares_of_columns(4096, 1024)], ids=["one", "both"]
)
def test_legal_schedules_are_resident(case):
    """As many blocks as a multiprocessor may have leave each of them least."""
    module = stitched(case.module, options=TOGETHER, before="StitchSchedule")
    (function,) = (
        function
        for _, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc) and has_rounds(read_programs(function))
    )
    programs = read_programs(function)
    found = [*rounds.schedules(programs, choose(programs, DEVICE), DEVICE)]
    crowded = [each for each in found if each.min_blocks_per_sm == 4]
    assert len(crowded) > 8
    for schedule in crowded[:: max(1, len(crowded) // 40)]:
        assert check_kernel(emit(function, programs, schedule), DEVICE) is None, schedule


def has_rounds(programs):
    return not isinstance(programs, Refused) and any(program.round for program in programs)
