"""Not-a-number goes through operators whose stages could lose it.

The maximum of CUDA, and of the executor, is the other operand.
"""

import numpy as np
import pytest
from check import DTYPES, check
from tvm.relax import op
from zoo import graph_of

X = np.array([np.nan, 1.0, -1.0, 0.0, np.inf, -np.inf, 3.0, np.nan])
ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
MEANINGS = {
    "selu": (op.nn.selu, lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x))),
    "silu": (op.nn.silu, lambda x: x / (1 + np.exp(-x))),
    "softplus": (op.nn.softplus, lambda x: np.logaddexp(x, 0.0)),
    "sigmoid": (op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MEANINGS)
def test_of_one_operand(name, dtype):
    build, meaning = MEANINGS[name]
    with np.errstate(all="ignore"):
        check(graph_of([((8,), dtype, X)], lambda emit, x: emit(build(x)), meaning))


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_add_exp(dtype):
    case = graph_of(
        [((8,), dtype, X), ((8,), dtype, X[::-1])],
        lambda emit, x, y: emit(op.log_add_exp(x, y)),
        np.logaddexp,
    )
    check(case)
