"""Powers mean what they do in C, though TVM's CUDA knows of no base below 0."""

import itertools

import numpy as np
import pytest
from check import DTYPES, check
from tvm import relax
from tvm.relax import op
from zoo import graph_of

NUMBERS = [-np.inf, -3.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan]
PAIRS = np.array(list(itertools.product(NUMBERS, NUMBERS))).T


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_two_operands(dtype):
    base, exponent = PAIRS
    inputs = [(base.shape, dtype, base), (exponent.shape, dtype, exponent)]
    with np.errstate(all="ignore"):
        check(graph_of(inputs, lambda emit, x, y: emit(op.power(x, y)), np.power))


@pytest.mark.spread(2)
@pytest.mark.parametrize("exponent", [0.0, 4.0, 5.0, -3.0, 2.5, -0.3, np.inf])
def test_of_a_constant_exponent(exponent):
    def build(emit, x):
        return emit(op.add(emit(op.power(x, relax.const(exponent, "float32"))), x))

    with np.errstate(all="ignore"):
        check(graph_of([((13,), "float32", np.array(NUMBERS))], build, lambda x: x**exponent + x))
