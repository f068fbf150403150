"""The graphs of the zoo: one kernel each, right in every thread order, in three dtypes."""

import pytest
from check import DTYPES, check
from zoo import ZOO


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ZOO)
def test_one_kernel_and_right(name, dtype):
    verified = check(ZOO[name](dtype))
    assert len(verified.kernels) == 1
