"""Few long rows and many have kernels of their own; the host picks by how many there are."""

import numpy as np
import pytest
from check import H200, check, program_of, schedule_of, the_kernel
from symbolic_rows import COLUMNS, ROWS, run_softmax
from tvm.relax import op
from zoo import graph, softmax

from tvm_stitch import Options, simt
from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.stages.stage import Refused

MOST = 64  # rows that are few on 132 multiprocessors: between 16 and two for each


def kernel_of(rows, columns, options=None, target=H200):
    return the_kernel(softmax("float32", rows, columns).module, target, options)


def variants(kernel) -> list[Schedule]:
    found, schedule = [], schedule_of(kernel)
    while schedule is not None:
        found.append(schedule)
        schedule = schedule.longer
    return found


def test_a_few_long_rows_get_more_threads():
    few, many = variants(kernel_of((ROWS, 5), 4096))
    assert (few.most_rows, many.most_rows) == (MOST, 0)
    assert few.block_threads > many.block_threads
    static = schedule_of(kernel_of(16, 4096))
    assert few.parts == static.parts


def test_short_rows_have_one_kernel():
    assert len(variants(kernel_of((ROWS, 5), 256))) == 1


def test_ranges_lie_between_the_sizes_that_are_named():
    found = variants(kernel_of((ROWS, 5), 4096, Options(extents={"n": (1, 100, 10_000)})))
    assert [each.most_rows for each in found] in ([10, 1000, 0], [1000, 0])
    (only,) = variants(kernel_of((ROWS, 5), 4096, Options(extents={"n": (64,)})))
    assert only == schedule_of(kernel_of(64, 4096))


def test_schedules_keep_their_ranges_in_json():
    schedule = schedule_of(kernel_of((ROWS, 5), 4096))
    text = schedule.to_json()
    assert '"most_rows": 64' in text and Schedule.from_json(text) == schedule


def test_a_range_without_another_is_refused():
    case = softmax("float32", (ROWS, 5), 4096)
    few = variants(the_kernel(case.module, H200))[0]
    alone = Schedule(few.parts, most_rows=MOST)
    refused = legal((program_of(case.module),), alone, device_of(H200), NO_BOUNDS)
    assert refused == Refused("no kernel for more than 64 rows")


@pytest.fixture(scope="module")
def function():
    with lowering_context():
        return simt.Function(kernel_of((ROWS, 5), 4096), H200)


@pytest.mark.parametrize("rows", (1, MOST - 1, MOST, MOST + 1))
def test_right_around_the_limit(function, rows):
    run_softmax(function, rows, 4096)


@pytest.mark.slow
def test_a_grid_of_rows_and_lengths():
    options = Options(extents={"n": (4, 500), "m": (4096,)})
    kernel = kernel_of((ROWS, 5), (COLUMNS, 50), options)
    with lowering_context():
        function = simt.Function(kernel, H200)
    for rows in (1, 40, 60):
        for columns in (1, 1000, 4096, 4097, 20_000):
            run_softmax(function, rows, columns)


def test_nothing_follows_what_takes_rows_of_any_length():
    """Such as a sum behind a maximum in one pass: the host has nothing to ask before it."""
    case = graph(
        "float32",
        [((ROWS, 3), (COLUMNS, 3000))],
        lambda emit, x: emit(
            op.sum(emit(op.exp(emit(op.subtract(x, emit(op.max(x, -1, keepdims=True)))))), -1)
        ),
        lambda x: np.exp(x - x.max(-1, keepdims=True)).sum(-1),
    )
    options = Options(extents={"m": (60_000,)})
    found = variants(the_kernel(case.module, H200, options))
    assert [each.parts[0].any_length for each in found] == [False, True]
    check(case, options=options)
