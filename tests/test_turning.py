"""Kernels over one large tensor turn at its end."""

from dataclasses import replace

import pytest
from check import H200, check, cuda_of, is_stitched, primfuncs
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch import transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel.way_back import TURNED, way_back

GROUP = 8
SMALL_L2 = replace(device_of(H200), l2_size=64)


@pytest.fixture
def small_l2(monkeypatch):
    """A device whose L2 holds none of the tensors here."""
    monkeypatch.setattr(transform, "device_of", lambda target: SMALL_L2)


def rows_and_groups(rows, columns: int) -> Case:
    """Sums of rows and maxima of groups: two kernels that read the same."""

    def build(emit, x):
        groups = emit(op.reshape(x, (rows, columns // GROUP, GROUP)))
        return emit(op.sum(x, axis=1)), emit(op.max(groups, axis=2))

    def expected(x):
        return x.sum(1), x.reshape(-1, columns // GROUP, GROUP).max(2)

    shape = ((rows, 5), columns) if isinstance(rows, tirx.Var) else (rows, columns)
    return graph("float32", [shape], build, expected)


def turned(case: Case) -> list[bool]:
    """Of each kernel, in the order of their calls, whether it goes the way back."""
    kernels = primfuncs(case.module).values()
    return [TURNED in kernel.attrs for kernel in kernels if is_stitched(kernel)]


@pytest.mark.parametrize("rows", [1, 7, 33, 260])
def test_the_second_kernel_goes_the_way_back(rows, small_l2):
    case = rows_and_groups(rows, 136)
    assert sorted(turned(case)) == [False, True]
    check(case, kernels=2)


def test_what_the_l2_holds_needs_no_turn():
    assert turned(rows_and_groups(33, 136)) == [False, False]


def test_a_grid_of_unknown_size_stays_as_it_is(small_l2):
    case = rows_and_groups(tirx.Var("n", "int64"), 136)
    assert not any(turned(case))
    check(case, kernels=2)


def test_kernels_that_share_nothing_large_stay_as_they_are(small_l2):
    def build(emit, x, y):
        return emit(op.sum(x, axis=1)), emit(op.max(y, axis=0))

    case = graph("float32", [(40, 100), (40, 100)], build, lambda x, y: (x.sum(1), y.max(0)))
    assert not any(turned(case))


def test_blocks_are_counted_from_the_last():
    (kernel, *_) = filter(is_stitched, primfuncs(rows_and_groups(260, 136).module).values())
    back = way_back(kernel)
    assert back is not None and TURNED in back.attrs
    assert cuda_of(kernel) != cuda_of(back)
    twice = way_back(back)
    assert twice is not None and cuda_of(twice) == cuda_of(kernel)


def test_the_report_says_so(small_l2):
    report = tvm_stitch.explain(rows_and_groups(260, 136).module, H200)
    assert sum("from the last block to the first" in each.mapping for each in report.kernels) == 1
