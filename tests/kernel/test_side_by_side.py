"""Several unrelated parts in one kernel: their blocks run between each other's."""

import numpy as np
import pytest
import tvm
from check import check
from tvm import tirx
from tvm.relax import op
from zoo import graph, softmax64

from tvm_stitch.kernel.codegen.block_order import STREAMS, in_streams
from tvm_stitch.stages.stage import constant


@pytest.mark.parametrize("count", (1, 2 * STREAMS - 1, 2 * STREAMS, 1000, 1003))
def test_every_block_takes_one_place(count):
    simplify = tvm.sym.Analyzer().simplify
    places = [
        constant(simplify(in_streams(tirx.IntImm("int32", block), tirx.IntImm("int32", count))))
        for block in range(count)
    ]
    assert sorted(places) == list(range(count))


def test_blocks_that_run_together_are_of_all_parts():
    simplify = tvm.sym.Analyzer().simplify
    first = [
        constant(simplify(in_streams(tirx.IntImm("int32", block), tirx.IntImm("int32", 1000))))
        for block in range(STREAMS)
    ]
    assert first == [number * (1000 // STREAMS) for number in range(STREAMS)]


@pytest.mark.parametrize("rows", (301, 1))
def test_parts_of_many_blocks(rows):
    def build(emit, x, y, z):
        return emit(op.nn.softmax(x)), emit(op.sum(y, axis=-1)), emit(op.exp(z))

    case = graph(
        "float32",
        [(rows, 170), (250, 33), (1027,)],
        build,
        lambda x, y, z: (softmax64(x), y.sum(-1), np.exp(z)),
    )
    check(case)
