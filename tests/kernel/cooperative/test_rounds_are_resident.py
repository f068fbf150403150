"""Blocks of rounds are as many as fit beside each other, whatever shared memory is asked for."""

import pytest
import tvm
from across_rows import shares_of_groups, softmax_over_rows
from check import H200, TOGETHER, stitched

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [softmax_over_rows((8192, 1024)), shares_of_groups("bfloat16", 16384, 2048, 2048)],
    ids=["softmax", "shares"],
)
def test_every_legal_schedule_is_resident(case):
    module = stitched(case.module, options=TOGETHER, before="StitchSchedule")
    (function,) = (f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    programs = read_programs(function)
    chosen = choose(programs, DEVICE)
    assert chosen.blocks > 1
    found = [*rounds.schedules(programs, chosen, DEVICE)]
    assert len(found) > 20
    for schedule in found[:: len(found) // 16]:
        assert check_kernel(emit(function, programs, schedule), DEVICE) is None, schedule
