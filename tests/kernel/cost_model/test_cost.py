"""The cost model: what must cost more does; how close it comes is asked of measured kernels."""

from dataclasses import replace

import pytest
from check import A100, H200
from tvm import te, tirx, topi

from tvm_stitch.device import device_of, preset
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.cost_model.kernel_model import (
    floor_us,
    predicted,
    predicted_us,
    schedule_at,
)
from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.plan.search.dlight_baseline import default_kernel, default_us, fused
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused

DEVICE = device_of(H200)


def tensor(*shape, dtype="float32", name="x"):
    return te.placeholder(shape, dtype, name)


def programs(*tensors):
    found = read_programs(te.create_prim_func(list(tensors)))
    assert not isinstance(found, Refused), found
    return found


def cost(*tensors, device=DEVICE, **changes):
    found = programs(*tensors)
    schedule = choose(found, device)
    schedule = replace(schedule, parts=tuple(replace(p, **changes) for p in schedule.parts))
    return predicted(found, schedule, device)


def softmax(rows, columns, dtype="float32"):
    x = tensor(rows, columns, dtype=dtype)
    return x, topi.nn.softmax(x)


def added(elements, dtype="float32"):
    x, y = tensor(elements, dtype=dtype), tensor(elements, dtype=dtype, name="y")
    return x, y, topi.add(x, y)


@pytest.mark.parametrize("make", [lambda n: added(n << 10), lambda n: softmax(n, 1024)])
def test_more_bytes_cost_more(make):
    times = [cost(*make(n)).us for n in (1, 16, 256, 4096, 65536)]
    assert times == sorted(times) and times[-1] > 10 * times[0]


def test_neighbours_that_read_lines_apart_take_a_cycle_each():
    """Unless a tile serves them: the transpose that is chosen moves its bytes."""
    x = tensor(4096, 4096)
    found = programs(x, topi.transpose(x))
    flat = predicted(found, Schedule((Flat(256, 8, 1),)), DEVICE)
    cycles = flat.issue_us * 1e-6 * DEVICE.clock * DEVICE.multiprocessors
    assert 4096 * 4096 * 0.9 < cycles < 4096 * 4096 * 1.2
    assert cost(x, topi.transpose(x)).us < 1.5 * floor_us(found, DEVICE)


def test_half_the_bytes_of_a_large_tensor_take_half_the_time():
    wide, narrow = cost(*added(1 << 28)).us, cost(*added(1 << 28, "float16")).us
    assert narrow == pytest.approx(wide / 2, rel=0.1)


def test_a_large_copy_takes_little_more_than_the_floor():
    tensors = added(1 << 28)
    floor = floor_us(programs(*tensors), DEVICE)
    assert floor < cost(*tensors).us < 1.15 * floor


def test_what_moves_nothing_costs_a_launch():
    assert DEVICE.timing.launch_us < cost(*added(64)).us < 4


def test_two_launches_cost_more_than_one():
    """Of the same work: a kernel for each half of it, or one for both."""
    x, y = tensor(1 << 14), tensor(1 << 14, name="y")
    one = cost(x, y, topi.exp(x), topi.exp(y)).us
    assert one < cost(x, topi.exp(x)).us + cost(y, topi.exp(y)).us


def test_a_pass_more_costs_more():
    """Softmax reduces twice where a sum of exponentials reduces once; their inputs are equal."""
    x = tensor(4096, 2048)
    once = cost(x, topi.exp(topi.sum(x, axis=1)))
    twice = cost(x, topi.sum(topi.exp(topi.subtract(x, topi.max(x, 1, keepdims=True))), axis=1))
    assert twice.us > once.us and twice.latency_us > once.latency_us


def test_computing_again_takes_instructions():
    x = tensor(4096, 2048)
    exps = topi.tanh(topi.exp(x))
    tensors = x, topi.divide(exps, topi.sum(exps, axis=1, keepdims=True))
    again, kept = cost(*tensors, recompute=True), cost(*tensors, recompute=False)
    assert again.issue_us > kept.issue_us


def test_rows_that_are_read_again_cost_more():
    tensors = softmax(4096, 16384)
    assert cost(*tensors, residence="nowhere").us > cost(*tensors).us


def test_rows_of_any_length_cost_what_their_length_takes():
    tensors = softmax(4096, 16384)
    anything = cost(*tensors, residence="nowhere", steps=0)
    assert anything == cost(*tensors, residence="nowhere")


def test_single_elements_cost_more_accesses_than_vectors():
    tensors = added(1 << 24)
    (part,) = choose(programs(*tensors), DEVICE).parts
    scalars = cost(*tensors, vector=1, steps=part.steps * part.vector)
    assert part.vector > 1 and scalars.issue_us > cost(*tensors).issue_us


def test_a_sum_over_the_rows_waits_for_the_whole_grid():
    x = tensor(8192, 1024)
    found = programs(x, topi.sum(x, axis=0))
    schedule = choose(found, DEVICE)
    assert schedule.scheme == "global"
    slow = replace(DEVICE, timing=replace(DEVICE.timing, grid_us=DEVICE.timing.grid_us + 5))
    us = predicted_us(found, schedule, DEVICE)
    assert predicted_us(found, schedule, slow) == pytest.approx(us + 5)


def test_turns_cost_as_much_as_waves():
    """Few blocks that go on to the next rows, or many that follow each other."""
    x = tensor(65536, 1024)
    found = programs(x, topi.sum(x, axis=0))
    (part,) = choose(found, DEVICE).parts
    halved = Schedule((replace(part, blocks=part.blocks // 2),))
    assert predicted_us(found, halved, DEVICE) > predicted_us(found, choose(found, DEVICE), DEVICE)


def test_rows_in_shared_memory_leave_room_for_fewer_blocks():
    tensors = softmax(4096, 30000)
    shared = cost(*tensors, residence="shared")
    assert shared.occupancy < 1 and shared.waves > 1


def test_symbolic_sizes_cost_what_representative_ones_do():
    rows = tirx.Var("rows", "int64")
    x = te.placeholder((rows, 64), "float32", "x")
    found = programs(x, topi.sum(x, axis=1))
    schedule = choose(found, DEVICE)
    few, many = (Extents((("rows", size),)) for size in (256, 1 << 20))
    assert floor_us(found, DEVICE, many) == pytest.approx(4096 * floor_us(found, DEVICE, few))
    assert predicted_us(found, schedule, DEVICE, many) > 10 * predicted_us(found, schedule, DEVICE)
    assert predicted_us(found, schedule, DEVICE, few) == predicted_us(found, schedule, DEVICE)


def test_a_row_costs_what_the_kernel_does_that_takes_it():
    columns = tirx.Var("columns", "int64")
    x = te.placeholder((64, columns), "float32", "x")
    found = programs(x, topi.nn.softmax(x))
    schedule = choose(found, DEVICE)
    taken = [schedule_at(found, schedule, Extents((("columns", n),))) for n in (9, 9999, 99999)]
    assert taken == [schedule, schedule.longer, schedule.longer.longer]


def test_a_device_of_less_bandwidth_is_slower():
    tensors = softmax(65536, 1024)
    slower = cost(*tensors, device=device_of(A100)).us / cost(*tensors).us
    assert slower == pytest.approx(preset("H200").bandwidth / preset("A100").bandwidth, rel=0.15)


def test_a_cost_says_where_the_time_goes():
    text = str(cost(*softmax(4096, 2048)))
    assert "DRAM" in text and "launch" in text and "waves" in text


# TVM's default way


def operators(*functions):
    """The stages of PrimFuncs, and the buffers of all of them: TE names make no two alike."""
    return [read_stages(te.create_prim_func(list(tensors))) for tensors in functions]


def test_default_kernels_cost_a_launch_each():
    x = tensor(1 << 10)
    (one,) = operators((x, topi.exp(x)))
    twice = default_us([one, *operators((x, topi.exp(x)))], (), DEVICE)
    assert twice == pytest.approx(2 * default_us([one], (), DEVICE))


def test_the_default_way_ends_a_group_at_a_reduction():
    x = tensor(64, 128)
    exps = topi.exp(x)
    total = topi.sum(exps, axis=1, keepdims=True)
    (stages,) = operators((x, topi.divide(exps, total)))
    separate = [(stage,) for stage in stages]
    groups = fused(separate, {stages[-1].output})
    # The exponentials are used twice: neither the sum nor the division can take them.
    assert [[stage.name for stage in group] for group in groups] == [
        [stages[0].name], [stages[1].name], [stages[2].name]
    ]  # fmt: skip


def test_what_flows_to_one_place_is_fused_by_default():
    x = tensor(64, 128)
    (stages,) = operators((x, topi.sum(topi.exp(topi.negative(x)), axis=1)))
    groups = fused([(stage,) for stage in stages], {stages[-1].output})
    assert groups == [stages]


def test_default_kernels_follow_dlight():
    x = tensor(64, 1000)
    (flat,), (rows,), (columns,) = (
        operators((x, topi.exp(x))),
        operators((x, topi.sum(x, axis=1))),
        operators((x, topi.sum(x, axis=0))),
    )
    assert default_kernel(flat)[1].block_threads == 1024
    assert default_kernel(rows)[1].threads == 512
    assert default_kernel(columns)[1].block_threads == 256


def test_default_kernels_of_symbolic_sizes_cost_what_those_of_256_do():
    x, y = te.placeholder((tirx.Var("rows", "int64"), 64), "float32", "x"), tensor(256, 64)
    open_rows, known = (operators((each, topi.exp(each))) for each in (x, y))
    assert default_us(open_rows, (), DEVICE) == default_us(known, (), DEVICE)


def test_what_was_just_written_is_read_from_the_l2():
    """At most as much as stays there: a flat GELU of 3152 x 3072 halves takes 8.6 us on an H200."""
    found = programs(*added(3152 * 3072, "float16"))
    schedule, size = choose(found, DEVICE), 3152 * 3072 * 2
    cold, warm = (predicted_us(found, schedule, DEVICE, fresh=size * n) for n in (0, 1))
    assert 0.5 * cold < warm < cold - 0.5 * size / DEVICE.bandwidth * 1e6
    most = [predicted_us(found, schedule, DEVICE, fresh=size * n) for n in (2, 100)]
    assert most[0] == most[1] < warm
