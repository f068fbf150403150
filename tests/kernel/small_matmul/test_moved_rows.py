"""Values of rows beside a small product, in another order than the rows."""

import numpy as np
import pytest
from check import TOGETHER, check
from tvm import tirx
from tvm.relax import op
from zoo import graph


@pytest.mark.parametrize("rows", (9, (tirx.Var("n", "int64"), 9)))
def test_one_value_of_each_row_in_another_order(rows):
    """Rows have a place for theirs; the variance of moved rows is moved by another kernel."""

    def build(emit, x, w):
        own = emit(op.abs(x))
        variance = emit(op.variance(own, axis=[2], keepdims=True))
        return emit(op.permute_dims(variance, axes=[1, 0, 2])), emit(op.matmul(own, w))

    def expected(x, w):
        own = np.abs(x)
        return own.var(2, keepdims=True).transpose(1, 0, 2), own @ w

    check(graph("float32", [(7, rows, 13), (13, 13)], build, expected), None, options=TOGETHER)
