"""The graphs of the zoo: one kernel each, right in every thread order, in three dtypes."""

import numpy as np
import pytest
import tvm
from check import DTYPES, H200, check, stitched
from lowered import run_lowered
from zoo import ZOO


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ZOO)
def test_one_kernel_and_right(name, dtype):
    verified = check(ZOO[name](dtype))
    assert len(verified.kernels) == 1


@pytest.mark.parametrize("name", ZOO)
def test_right_where_tvm_merges_buffers(name):
    """In tvm.compile with the pipeline as a drop-in, TVM's StorageRewrite has its way."""
    case = ZOO[name]("float32")
    as_it_is = tvm.transform.PassContext()
    outputs = run_lowered(stitched(case.module), case.arrays, H200, as_it_is, check=True)
    for output, exact in zip(outputs, case.expected, strict=True):
        assert np.abs(output - exact).max() < 2e-5 * np.abs(exact).max()
