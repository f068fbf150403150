"""What is said of neighbours is so: told from all of their places, one by one."""

import pytest
import tvm
from tvm import tirx
from tvm.sym import Analyzer

from tvm_stitch.kernel.analysis.contiguity import lies_side_by_side
from tvm_stitch.stages.indices import may_follow
from tvm_stitch.stages.stage import constant, substitute
from tvm_stitch.stages.visit import mapped

COLUMN, ROW = tirx.Var("column", "int64"), tirx.Var("row", "int64")
QUOTIENT, LANE = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
LENGTH = 96


def number(value):
    return tirx.IntImm("int64", value)


def looked_up(place):
    """What nothing is known of."""
    return tirx.call_pure_extern("int64", "looked_up", place)


def div(a, b):
    return tirx.floordiv(a, number(b))


def mod(a, b):
    return tirx.floormod(a, number(b))


INDICES = {
    "column": COLUMN,
    "behind a row": ROW * 96 + COLUMN + 3,
    "every second": COLUMN * 2,
    "for several": div(COLUMN, 8),
    "broken at 12": div(COLUMN, 12) * 24 + mod(COLUMN, 12),
    "broken at 16": div(COLUMN, 16) * 24 + mod(COLUMN, 16),
    "behind a slice": div(mod(COLUMN, 48) + 16, 32) * 1000 + mod(COLUMN, 16),
    "behind one of four": div(mod(COLUMN, 48) + 20, 32) * 1000 + mod(COLUMN, 16),
    "back again": div(COLUMN, 16) * 16 + mod(COLUMN, 16),
    "turned": mod(COLUMN, 12) * 8 + div(COLUMN, 12),
    "looked up for 8": looked_up(div(COLUMN, 8)) * 8 + mod(COLUMN, 8),
    "looked up for 12": looked_up(div(COLUMN, 12) - div(mod(COLUMN, 12), 12)) * 12
    + mod(COLUMN, 12),
    "looked up for each": looked_up(COLUMN) + COLUMN,
    "looked up": looked_up(COLUMN),
    "of a row": looked_up(ROW) + COLUMN,
    "the smaller": tirx.min(COLUMN, number(40)),
    "chosen": tirx.if_then_else(number(8) <= COLUMN, COLUMN - 8, COLUMN),
    "nowhere": number(7),
}


def value(index, column):
    """At a place of the fifth row; of what nothing is known, something that is not a neighbour."""
    found = substitute(index, {COLUMN: number(column), ROW: number(5)})

    def known(call):
        if getattr(call.op, "name", "") != "tirx.call_pure_extern":
            return call
        return number(1000 * (1 + constant(Analyzer().simplify(call.args[1]))) ** 2)

    return constant(Analyzer().simplify(mapped(found, (tvm.ir.Call, known))))


@pytest.mark.parametrize("vector", [2, 4, 8])
@pytest.mark.parametrize("name", INDICES)
def test_lanes_lie_side_by_side_where_all_do(name, vector):
    index, analyzer = INDICES[name], Analyzer()
    analyzer.bind(LANE, tvm.ir.Range(0, vector))
    analyzer.bind(QUOTIENT, tvm.ir.Range(0, LENGTH // vector))
    found = lies_side_by_side(index, COLUMN, QUOTIENT * vector, LANE, analyzer)
    is_so = all(
        value(index, start + lane) == value(index, start) + lane
        for start in range(0, LENGTH, vector)
        for lane in range(vector)
    )
    assert found == (is_so and name != "chosen")  # of branches nothing is proved


def test_a_few_values_deny_what_is_not_so():
    assert may_follow(ROW * 96 + COLUMN, COLUMN, (1, 7), (ROW,))
    assert may_follow(div(COLUMN, 12) * 24 + mod(COLUMN, 12), COLUMN, (1, 7))
    assert not may_follow(COLUMN * 2, COLUMN, (1,))
    assert not may_follow(looked_up(COLUMN), COLUMN, (1,))
