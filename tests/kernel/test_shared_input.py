"""Rows of different lengths over the same input, side by side in one kernel."""

import pytest
from check import DTYPES, H200, check, schedule_of, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import graph, grouped, row_and_group_statistics, softmax64

import tvm_stitch
from tvm_stitch import Options
from tvm_stitch.kernel.ir.mapping import SCHEMES


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, columns", [(1, 1000), (7, 136), (33, 1024), (1027, 8 * 31)])
def test_statistics_of_rows_and_groups(rows, columns, dtype):
    case = row_and_group_statistics(dtype, rows, columns)
    assert len(schedule_of(the_kernel(case.module)).parts) == 2
    check(case)


def test_three_lengths_with_elements_written():
    def build(emit, x):
        rows = emit(op.nn.softmax(x, axis=1))
        groups = emit(op.nn.softmax(emit(op.reshape(x, (20, 17, 8))), axis=2))
        halves = emit(op.sum(emit(op.reshape(x, (20, 2, 68))), axis=2))
        return rows, groups, halves

    def expected(x):
        return softmax64(x), softmax64(grouped(x)), grouped(x, 68).sum(2)

    case = graph("float32", [(20, 136)], build, expected)
    assert len(schedule_of(the_kernel(case.module)).parts) == 3
    check(case)


def test_threads_have_as_many_elements_in_every_part():
    case = row_and_group_statistics("float32", 4096, 2048)
    rows, groups = schedule_of(the_kernel(case.module)).parts
    assert rows.vector * rows.steps == groups.vector * groups.steps * groups.batch
    assert rows.block_threads == groups.block_threads


@pytest.mark.parametrize("rows", (1, 7, 300))
def test_rows_of_unknown_number_are_in_step_too(rows):
    """From any first so many blocks every part has its share, by numbers of run time."""
    case = row_and_group_statistics("float32", (tirx.Var("n", "int64"), rows))
    assert len(schedule_of(the_kernel(case.module)).parts) == 2
    check(case)


def test_without_blocks_of_several_parts_there_are_two_kernels():
    apart = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "independent"))
    check(row_and_group_statistics("float32"), kernels=2, options=apart)


def test_sums_over_the_rows_are_not_in_step_with_sums_along_them():
    def build(emit, x):
        groups = emit(op.reshape(x, (40, 17, 8)))
        return emit(op.sum(x, axis=0)), emit(op.max(groups, axis=2))

    case = graph("float32", [(40, 136)], build, lambda x: (x.sum(0), grouped(x).max(2)))
    check(case, kernels=None)
    assert all(
        "co-scheduled" not in each.why for each in tvm_stitch.explain(case.module, H200).kernels
    )


def test_the_report_says_so_and_counts_what_is_shared_once():
    report = tvm_stitch.explain(row_and_group_statistics("float32").module, H200)
    (kernel,) = report.kernels
    assert "rows of 2 lengths are co-scheduled" in kernel.why
    assert kernel.bytes_planned == kernel.bytes_min


def test_a_row_of_everything_is_not_in_step():
    def build(emit, x):
        return emit(op.sum(x)), emit(op.max(x, axis=1))

    case = graph("float32", [(8, 8192)], build, lambda x: (x.sum(), x.max(1)))
    check(case, kernels=None)
    assert all(
        "co-scheduled" not in each.why for each in tvm_stitch.explain(case.module, H200).kernels
    )
