"""The graphs of the zoo: one kernel each, right in every thread order, in three dtypes."""

import numpy as np
import pytest
import tvm
from check import H200, check, schedule_of, stitched, the_kernel
from lowered import run_lowered
from tvm.relax import op
from zoo import ZOO, Case, graph, softmax64


@pytest.mark.spread(5)
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", pytest.param("bfloat16", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if "group norm" in n else ()) for n in ZOO]
)
def test_one_kernel_and_right(name, dtype):
    verified = check(ZOO[name](dtype))
    assert len(verified.kernels) == 1


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", ZOO)
def test_right_where_tvm_merges_buffers(name):
    """In tvm.compile with the pipeline as a drop-in, TVM's StorageRewrite has its way."""
    right_where_tvm_merges_buffers(ZOO[name]("float32"))


def test_right_where_tvm_merges_buffers_of_parts():
    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.nn.softmax(y))

    def expected(x, y):
        return softmax64(x), softmax64(y)

    case = graph("float32", [(300, 1000), (200, 1500)], build, expected)
    assert len(schedule_of(the_kernel(case.module)).parts) == 2
    right_where_tvm_merges_buffers(case)


def right_where_tvm_merges_buffers(case: Case) -> None:
    as_it_is = tvm.transform.PassContext()
    outputs = run_lowered(stitched(case.module), case.arrays, H200, as_it_is, check=True)
    for output, exact in zip(outputs, case.expected, strict=True):
        assert np.abs(output - exact).max() < 2e-5 * np.abs(exact).max()
