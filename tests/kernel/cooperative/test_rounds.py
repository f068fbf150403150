"""Rounds: stages that share no rows, in one kernel with more than one barrier of the grid."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from across_rows import (
    batch_norm,
    divided_by_their_norm,
    group_norm,
    programs_of,
    shares_of_groups,
    softmax_over_rows,
)
from check import H200, TOGETHER, check, plan_of, the_kernel
from tvm import relax, te, tirx
from tvm.relax import op
from zoo import Case, graph, graph_of, softmax

from tvm_stitch import simt, transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.stages.stage import Refused

pytestmark = pytest.mark.usefixtures("grid_barriers")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A device of two multiprocessors, where blocks iterate often."""

    def found(target):
        return replace(device_of(target), multiprocessors=2)

    monkeypatch.setattr(transform, "device_of", found)


def rows_then_columns_then_rows(rows: int, columns: int) -> Case:
    """Rows are normalised, columns of the result summed, and rows of what is left reduced."""

    def build(emit, x):
        moved = emit(op.subtract(x, emit(op.max(x, axis=1, keepdims=True))))
        over = emit(op.mean(moved, axis=0, keepdims=True))
        return emit(op.sum(emit(op.exp(emit(op.subtract(moved, over)))), axis=1))

    def expected(x):
        moved = x - x.max(axis=1, keepdims=True)
        return np.exp(moved - moved.mean(axis=0, keepdims=True)).sum(axis=1)

    return graph("float32", [(rows, columns)], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(24, 512, 3), (20, 231, 5), (4, 1030, 2)])
def test_rows_that_wait_for_groups_of_them(dtype, sizes):
    check(shares_of_groups(dtype, *sizes), options=TOGETHER, orders=2)


def test_rows_that_nothing_waits_for_need_no_barrier():
    def build(emit, x):
        rows = emit(op.reshape(emit(op.sum(x, axis=1)), (256, 10)))
        return emit(op.sum(rows, axis=1))

    case = graph("float32", [(2560, 512)], build, lambda x: x.sum(1).reshape(256, 10).sum(1))
    assert len(plan_of(case.module, options=TOGETHER).groups) == 2


@pytest.mark.spread(2)
@pytest.mark.parametrize("shape", [(4096, 1), (1000, 7), (160, 33), (36, 128), (40, 1027)])
def test_softmax_over_the_rows(shape):
    check(softmax_over_rows(shape), options=TOGETHER, orders=2)


def test_an_axis_in_the_middle():
    check(softmax_over_rows((3, 64, 40), axis=1), options=TOGETHER, orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("shape", [(128, 48), (6, 9, 5, 31)])
def test_batch_norm(shape, dtype):
    check(batch_norm(dtype, shape), options=TOGETHER, orders=2)


@pytest.mark.parametrize("dtype, sizes", [("float32", (2, 99, 5, 7)), ("float16", (3, 64, 4, 10))])
def test_group_norm_of_channels_that_come_last(dtype, sizes):
    check(group_norm(dtype, *sizes), options=TOGETHER, orders=2)


def test_no_thread_is_idle_beside_partials_of_groups():
    """Forty vectors a row, in blocks of twelve of them; a warp has a group's partials."""
    case = group_norm("float16", 3, 404, 32, 10)
    programs, schedule = programs_of(case)
    alike = {(m.threads, m.rows) for p, m in zip(programs, schedule.parts, strict=True)
             if p.space.row_segment is not None}  # fmt: skip
    assert alike == {(40, 12)} and schedule.block_threads == 480
    check(case, options=TOGETHER, orders=2)


@pytest.mark.parametrize("channels, threads", [(728, (91, 13)), (736, (92, 23))])
def test_partials_of_channels_that_fit_no_sectors_lie_side_by_side(monkeypatch, channels, threads):
    """Many of a column at once, in blocks that have no whole warps."""
    check(batch_norm("float16", (403, channels)), options=TOGETHER, orders=2)
    monkeypatch.setattr(transform, "device_of", device_of)
    programs, schedule = programs_of(batch_norm("float16", (5776, channels)))
    sums = [m for p, m in zip(programs, schedule.parts, strict=True) if p.column_reductions]
    assert (sums[0].threads, sums[-1].threads) == threads
    assert schedule.block_threads == 5 * threads[0] and sums[-1].rows >= 20


@pytest.mark.parametrize(
    "dtype, sizes",
    [("float16", (1, 4096, 32, 10)), ("float16", (8, 1024, 32, 20)), ("float32", (4, 2304, 8, 5))],
)
def test_long_rows_of_partials_are_no_reason_for_more_kernels(monkeypatch, dtype, sizes):
    """A warp is too little for them: then blocks have a power of two of threads."""
    monkeypatch.setattr(transform, "device_of", device_of)
    programs, schedule = programs_of(group_norm(dtype, *sizes))
    assert any(program.space.row_segment is None for program in programs)
    assert schedule.block_threads == 512


def test_gradients_of_overlapping_windows_are_found_once():
    """Which of two places an element comes from, memory says: then a round reads what was found."""
    rows, columns = 200, 48

    def gradient(places, given):
        def element(row, column):
            def of(window):
                inside = tirx.all(window >= 0, window < rows // 2)
                is_this = places[window, column] == row - 2 * window
                value = tirx.Select(is_this, given[window, column], tirx.const(0.0, "float32"))
                return tirx.if_then_else(inside, value, tirx.const(0.0, "float32"))

            return of(row // 2) + of(row // 2 - 1)

        return te.compute((rows, columns), element)

    def build(emit, places, given):
        found = emit(relax.BlockBuilder.current().call_te(gradient, places, given))
        return emit(op.subtract(found, emit(op.mean(found, axis=0, keepdims=True))))

    def expected(places, given):
        found = np.zeros((rows + 1, columns))
        at = 2 * np.arange(rows // 2)[:, None] + places.astype(int)
        np.add.at(found, (at, np.arange(columns)[None]), given)
        return found[:rows] - found[:rows].mean(axis=0)

    picked = np.random.default_rng(0).integers(0, 3, (rows // 2, columns)).astype("int8")
    inputs = [(picked.shape, "int8", picked), (picked.shape, "float32", None)]
    check(graph_of(inputs, build, expected), kernels=2, options=TOGETHER, orders=2)


def test_a_common_norm_of_many_partials():
    """Of tensors that fall into several partials each, and of one that cannot."""
    shapes = (32, 1024), (33,), (1,), (9973,)
    check(divided_by_their_norm(*shapes), options=TOGETHER, orders=1)


def test_rows_and_columns_in_turn():
    check(rows_then_columns_then_rows(120, 64), options=TOGETHER, orders=2)


def test_sums_that_are_only_added_up_are_one():
    programs, _ = programs_of(divided_by_their_norm((32, 1024), (3, 8192), (64, 100)))
    (total,) = (program for program in programs if program.round == 1)
    assert len(total.row_reductions) == 1
    ((_, partials),) = total.joined
    assert [int(buffer.ty.shape[0]) for buffer in partials] == [4, 3, 1]


def test_rounds_share_their_launch_with_nothing_else():
    programs, schedule = programs_of(softmax_over_rows((4096, 64)))
    device = device_of(H200)
    rounds = StitchedKernel(device, NO_BOUNDS, programs, schedule)
    others, _ = programs_of(softmax("float32", 64, 100))
    alone = StitchedKernel(device, NO_BOUNDS, others, choose(others, device))
    refused = rounds.joined([alone])
    assert isinstance(refused, Refused)
    assert "programs in rounds fill a kernel of their own" in refused.reason


def test_a_row_segment_gives_a_partial():
    programs, schedule = programs_of(softmax_over_rows((4096, 64)))
    assert [program.round for program in programs] == [0, 1, 2]
    assert [int(program.space.row_segments) for program in programs[:2]] == [256, 1]
    assert schedule.scheme == "global"
    assert schedule.blocks == schedule.min_blocks_per_sm * 132


def test_every_order_gives_the_same_bits():
    case = softmax_over_rows((160, 40))
    kernel = the_kernel(case.module, options=TOGETHER)
    function = simt.Function(kernel, H200)
    found = set()
    for seed in range(3):
        shapes = [tuple(map(int, param.ty.shape)) for param in kernel.params]
        arrays = [np.zeros(shape, "float32") for shape in shapes]
        arrays[0][...] = case.arrays[0]
        assert not function(arrays, seed=seed).hazards
        found.add(arrays[1].tobytes())
    assert len(found) == 1
    assert np.all(arrays[1] > 0)


def test_schedules_that_would_hang_are_refused():
    """A grid is refused whose blocks are not all resident; and rounds without a grid."""
    programs, schedule = programs_of(softmax_over_rows((4096, 64)))
    device = device_of(H200)
    assert legal(programs, schedule, device) is None
    assert Schedule.from_json(schedule.to_json()) == schedule
    for wrong, why in (
        (replace(schedule, blocks=schedule.blocks + 1), "not all are resident"),
        (replace(schedule, min_blocks_per_sm=9), "has room for"),
        (replace(schedule, blocks=0), "not all resident"),
    ):
        refused = legal(programs, wrong, device)
        assert isinstance(refused, Refused)
        assert why in refused.reason


def test_little_is_left_to_kernels_of_its_own():
    """A barrier of the grid costs more than so few elements are worth."""
    plan = plan_of(softmax_over_rows((8, 16)).module, options=TOGETHER)
    assert len(plan.groups) > 1


def test_too_large_to_cross():
    """Columns as many as elements: what crosses a barrier would be as large as a tensor."""
    plan = plan_of(softmax_over_rows((2, 4096)).module, options=TOGETHER)
    assert len(plan.groups) > 1


def test_every_other_round_over_a_large_tensor_is_reversed():
    """What a round read last is still in the L2; rounds over small tensors change nothing."""
    kernel = the_kernel(softmax_over_rows((4096, 64)).module, options=TOGETHER)
    reversals: list[bool] = []

    def visit(loop: tvm.tirx.For) -> None:
        if loop.loop_var.name != "iteration":
            return
        from_the_end: list[object] = []

        def note(difference: tvm.tirx.Sub) -> None:
            from_the_end.extend([difference] if difference.b.same_as(loop.loop_var) else [])

        tvm_ffi.structural_walk(loop.body, (tvm.tirx.Sub, note))
        reversals.append(bool(from_the_end))

    tvm_ffi.structural_walk(kernel.body, (tvm.tirx.For, visit), order="pre")
    assert reversals == [False, True, True, True]  # the second round iterates over its partials
