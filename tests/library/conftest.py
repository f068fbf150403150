"""What the tests of the shim share."""

import ctypes

import pytest
import tvm
from library_stand_in import driver


@pytest.fixture
def captures():
    """Whether the stream is captured, as the driver that stands in says."""
    if tvm.cuda(0).exist:
        pytest.skip("this process has a driver")
    found = ctypes.c_int.in_dll(driver(), "stand_in_captures")
    yield found
    found.value = 0
