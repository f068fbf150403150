"""The benchmark of attention: its cases, the kernels of them, and its table."""

import pytest
from check import H200
from tvm import tirx

from bench.attention import CASES, attention_of, kernel_of, shapes_of, table


@pytest.mark.parametrize("text", CASES)
def test_every_case_has_a_kernel(text):
    attention = attention_of(text)
    assert isinstance(kernel_of(attention, H200), tirx.PrimFunc)
    assert attention.tensors == len(shapes_of(attention))


def test_a_table():
    rows = {"1,2,2,1,8,16": {"bytes": 0.1, "predicted": 2.0, "ours": 2.25, "cuDNN": 7.0}}
    assert table(rows).splitlines()[-1] == "| 1,2,2,1,8,16 | 0.1 | 2.0 | 2.2 | 7.0 | – |"
