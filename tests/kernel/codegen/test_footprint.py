"""What a mapping is said to take of a multiprocessor, and what its kernel does take."""

from dataclasses import replace

import pytest
from check import H200, primfuncs
from products import attention, lstm_cell
from tuning_runs import DEVICE, KINDS, chosen, softmax_of_columns, workload
from tvm import te, topi
from zoo import ZOO

from tvm_stitch.device import preset
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.codegen.footprint import (
    ALIGNED,
    Footprint,
    not_resident,
    registers_left,
    shared_left,
)
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.ir.mapping import Panel, Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.stages.stage import Refused


def fits(programs, schedule) -> bool:
    """Whether the check of the emitted kernel finds no more shared memory than was said."""
    device = replace(DEVICE, shared_block=footprint_of(programs, schedule).shared)
    return StitchedKernel(device, NO_BOUNDS, programs, schedule).check() is None


@pytest.mark.parametrize("name", ZOO)
def test_kernels_take_no_more_shared_memory_than_said(name):
    module = ZOO[name]("float16").module
    for function in primfuncs(module, H200, before="StitchSchedule").values():
        programs = read_programs(function)
        schedule = programs if isinstance(programs, Refused) else choose(programs, DEVICE)
        if not isinstance(schedule, Refused):
            assert schedule.blocks or fits(programs, schedule)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "rounds" not in kind])
def test_every_kind_says_what_it_takes(kind):
    found = workload(*KINDS[kind]())
    assert fits(found.programs, chosen(found))


@pytest.mark.parametrize(
    "case", (attention("float32", 2, 2, 32, 16), lstm_cell("float32", 64, 16, 16))
)
def test_products_say_what_they_take(case):
    (function,) = primfuncs(case.module, before="StitchSchedule").values()
    programs = read_programs(function)
    assert fits(programs, choose(programs, DEVICE))


@pytest.mark.parametrize("cluster, batch", ((1, 1), (2, 1), (4, 4)))
def test_threads_and_blocks_meet_in_as_much_as_is_said(cluster, batch):
    """A word for each group of neighbours in each block of a cluster, and its barriers."""
    found, steps = workload(*softmax_of_columns(3, 100, 48)), -(-100 // (8 * cluster))
    part = Panel(8, 8, 1, steps, batch=batch, adjacent=batch > 1, cluster=cluster)
    schedule = Schedule((part,))
    said = footprint_of(found.programs, schedule).shared
    assert said == 2 * batch * cluster * 64 + (ALIGNED if cluster > 1 else 0)
    for shared, enough in ((said, True), (said - ALIGNED, False)):
        device = replace(DEVICE, shared_block=shared)
        kernel = StitchedKernel(device, NO_BOUNDS, found.programs, schedule)
        assert (kernel.check() is None) == enough


def test_registers_come_by_eight_and_are_not_endless():
    assert Footprint(256, 33, 0).blocks_per_sm(DEVICE) == Footprint(256, 40, 0).blocks_per_sm(
        DEVICE
    )
    assert Footprint(32, 256, 0).blocks_per_sm(DEVICE) == 0
    assert Footprint(1024, 0, 0).blocks_per_sm(DEVICE) == 2
    assert Footprint(32, 0, DEVICE.shared_total // 2).blocks_per_sm(DEVICE) == 1


@pytest.mark.parametrize("name, most", (("H200", 32), ("RTX 3090", 16), ("L40S", 24)))
def test_a_multiprocessor_has_no_more_blocks_than_it_can_count(name, most):
    assert Footprint(32, 0, 0).blocks_per_sm(preset(name)) == most


def test_what_is_expected_may_do_without_spare_registers():
    """What a barrier rests on may not."""
    taken = Footprint(256, 44, 0, spare=12)
    assert (taken.blocks_per_sm(DEVICE), taken.expected_blocks(DEVICE)) == (5, 8)
    assert Footprint(256, 300, 0, spare=12).expected_blocks(DEVICE) == 1


def test_parts_side_by_side_share_a_block_s_memory():
    found = [te.placeholder((64, 20000), "float32", name) for name in "xyz"]
    sums = [topi.multiply(x, topi.sum(x, axis=1, keepdims=True)) for x in found]
    programs = read_programs(te.create_prim_func([*found, *sums]))
    part = Rows(256, 1, 4, 20, residence="shared", recompute=True)
    assert legal(programs[:1], Schedule((part,)), DEVICE) is None
    refused = legal(programs, Schedule((part,) * 3), DEVICE)
    assert refused is not None and "its parts need" in refused.reason


def test_what_is_left_for_each_block_is_what_so_many_of_them_take():
    """The budget and the count of blocks are one arithmetic."""
    for blocks in (1, 2, 3, 5, 8):
        shared = shared_left(DEVICE, blocks)
        assert Footprint(128, 0, shared).blocks_per_sm(DEVICE) == blocks or blocks == 1
        if blocks > 1:
            assert Footprint(128, 0, shared + 1).blocks_per_sm(DEVICE) < blocks
        registers = registers_left(256 * blocks)
        assert Footprint(256, registers, 0).blocks_per_sm(DEVICE) >= blocks


@pytest.mark.parametrize(
    "blocks, each, said",
    (
        (264, 2, None),
        (265, 2, "not all are resident"),
        (8, 3, "has room for 2"),
        (0, 0, "room for"),
    ),
)
def test_blocks_that_meet_are_resident_or_refused(blocks, each, said):
    found = next(not_resident(blocks, each, 2, DEVICE), None)
    assert found is None if said is None else said in found
