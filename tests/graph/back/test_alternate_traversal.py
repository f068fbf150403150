"""Kernels over one large tensor alternate their traversal."""

from dataclasses import replace

import numpy as np
import pytest
from check import H200, check, cuda_of, is_stitched, primfuncs, schedule_by, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

import tvm_stitch
from tvm_stitch import Options, transform
from tvm_stitch.device import device_of
from tvm_stitch.graph.back.reverse_blocks import REVERSED, reverse_blocks
from tvm_stitch.kernel.choose import choose as choose_default
from tvm_stitch.kernel.ir.schedule import Schedule

SMALL_L2 = replace(device_of(H200), l2_size=64)
ONE_EACH = Options(largest_kernel=1)


@pytest.fixture
def small_l2(monkeypatch):
    """A device whose L2 holds none of the tensors here."""
    monkeypatch.setattr(transform, "device_of", lambda target: SMALL_L2)


def chain(rows, columns: int) -> Case:
    """Three kernels, each of what the one before has written, if none may hold two operators."""

    def build(emit, x):
        return emit(op.sum(emit(op.nn.relu(emit(op.add(x, x)))), axis=1))

    shape = ((rows, 5), columns) if isinstance(rows, tirx.Var) else (rows, columns)
    return graph("float32", [shape], build, lambda x: np.maximum(2 * x, 0).sum(1))


def is_reversed(case: Case, options: Options = ONE_EACH) -> dict[str, bool]:
    """Of each kernel, whether its blocks are reversed."""
    kernels = primfuncs(case.module, options=options)
    return {name: REVERSED in k.attrs for name, k in kernels.items() if is_stitched(k)}


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows", [1, 7, 33, 260])
def test_every_other_kernel_is_reversed(rows, small_l2):
    case = chain(rows, 1027)
    assert is_reversed(case) == {
        "stitched_add": False,
        "stitched_relu": True,
        "stitched_sum": False,
    }
    check(case, kernels=3, options=ONE_EACH)


def test_what_the_l2_holds_needs_no_reversal():
    assert not any(is_reversed(chain(33, 1027)).values())


def test_a_grid_of_unknown_size_stays_as_it_is(small_l2):
    case = chain(tirx.Var("n", "int64"), 136)
    assert not any(is_reversed(case).values())
    check(case, kernels=3, options=ONE_EACH)


@pytest.mark.parametrize("stated", [5, 6])
def test_variants_for_stated_sizes_are_reversed(stated, small_l2):
    """The variant runs at 5 rows, the kernel for any number where 6 are stated."""
    case, options = chain(tirx.Var("n", "int64"), 136), replace(ONE_EACH, extents={"n": (stated,)})
    assert is_reversed(case, options) == {
        "stitched_add": False,
        "stitched_relu": True,
        "stitched_sum": False,
    }
    check(case, kernels=3, options=options)


def test_kernels_that_share_nothing_large_stay_as_they_are(small_l2):
    def build(emit, x, y):
        return emit(op.sum(x, axis=1)), emit(op.max(y, axis=0))

    case = graph("float32", [(40, 100), (40, 100)], build, lambda x, y: (x.sum(1), y.max(0)))
    assert not any(is_reversed(case).values())


def test_blocks_of_a_cluster_stay_in_order(small_l2, monkeypatch):
    def build(emit, x):
        return emit(op.sum(emit(op.add(x, x)), axis=1))

    case = graph("float32", [(3, 1000)], build, lambda x: 2 * x.sum(1))
    shared = {"residence": "shared", "recompute": True, "cluster": 4}

    def choose(programs, *rest):
        schedule = choose_default(programs, *rest)
        if not programs[0].reduces:
            return schedule
        mapping = replace(schedule.parts[0], threads=64, steps=1, vector=4, batch=1, **shared)
        return Schedule((mapping,))

    schedule_by(monkeypatch, choose)
    assert is_reversed(case) == {"stitched_add": False, "stitched_sum": True}
    check(case, kernels=2, options=ONE_EACH)


def test_blocks_are_counted_from_the_last():
    kernel = the_kernel(chain(260, 136).module)
    back = reverse_blocks(kernel)
    assert back is not None and REVERSED in back.attrs
    assert cuda_of(kernel) != cuda_of(back)
    twice = reverse_blocks(back)
    assert twice is not None and cuda_of(twice) == cuda_of(kernel)


def test_the_report_says_so(small_l2):
    report = tvm_stitch.explain(chain(260, 136).module, H200, ONE_EACH)
    assert sum("from the last block to the first" in each.mapping for each in report.kernels) == 1
