"""Rounds whose rows are reduced both ways at once."""

import pytest
from check import TOGETHER, check
from tvm import relax, tirx
from tvm.relax import op
from zoo import graph, softmax64


@pytest.mark.slow
@pytest.mark.parametrize("rows", (5, 16))
def test_softmax_over_rows_that_are_summed_up_as_well(rows):
    """Exponentials are added up in a second pass, also where a phase behind the first has none."""

    def build(emit, x):
        moved = emit(op.subtract(x, relax.const(0.5, "float32")))
        return emit(op.nn.softmax(moved, axis=0)), emit(op.sum(moved, keepdims=True))

    def expected(x):
        return softmax64(x - 0.5, 0), (x - 0.5).sum(keepdims=True)

    shape = (tirx.Var("n", "int64"), rows), 255
    check(graph("float32", [shape], build, expected), options=TOGETHER, orders=2)
