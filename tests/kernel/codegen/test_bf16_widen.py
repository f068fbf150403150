"""bfloat16 elements are widened by pairs where a thread has any, and the values are the same."""

import pytest
from check import check, cuda_of, the_kernel
from zoo import layer_norm


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (1, 64, 1000, 1027))
def test_bfloat16_is_widened_by_pairs(columns):
    case = layer_norm("bfloat16", 5, columns)
    # A thread that moves one element at a time has no pairs.
    assert ("tvm_stitch_widen(" in cuda_of(the_kernel(case.module))) == (columns > 1)
    check(case)
