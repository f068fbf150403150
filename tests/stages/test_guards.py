"""Conditions of nested branches, as they came and as intervals, hold at the same places."""

import sys

import pytest
from tvm import te, tirx, topi
from tvm.sym import Analyzer

from tvm_stitch.stages.guards import MOST_CONDITIONS, Guard, innermost, share
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import substitute

INDEX = tirx.Var("i", "int64")


def number(value):
    return tirx.IntImm("int64", value)


KINDS = {
    "equal": lambda n: tirx.EQ(INDEX, number(n)),
    "not equal": lambda n: tirx.NE(INDEX, number(n)),
    "below": lambda n: tirx.LT(INDEX, number(n)),
    "at most": lambda n: tirx.LE(INDEX, number(n)),
    "above, mirrored": lambda n: tirx.LT(number(n), INDEX),
    "at least, mirrored": lambda n: tirx.LE(number(n), INDEX),
    "above": lambda n: tirx.GT(INDEX, number(n)),
    "at least": lambda n: tirx.GE(INDEX, number(n)),
    "not at least": lambda n: tirx.Not(tirx.GE(INDEX, number(n))),
}


def nested(kind, numbers, negated):
    guard = None
    for value in numbers:
        guard = Guard.of(KINDS[kind](value), guard, negated)
    return guard


def holds(condition, place):
    found = Analyzer().simplify(substitute(condition, {INDEX: number(place)}))
    return bool(int(found))


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_where_the_conditions_do(kind, negated):
    values = [3, 5, 7, 6]
    short = nested(kind, values, negated)
    deep = nested(kind, values * MOST_CONDITIONS, negated)
    assert deep.depth > MOST_CONDITIONS >= short.depth
    for place in range(-1, 12):
        assert holds(deep.expr, place) == holds(short.expr, place), place


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_share_of_places_where_conditions_hold(kind, negated):
    for numbers in ([5], [3, 5, 7, 6]):
        guard = nested(kind, numbers, negated).expr
        assert share(guard, {INDEX: 12}) * 12 == sum(holds(guard, place) for place in range(12))


def test_the_share_of_what_is_not_known_is_all():
    other, data = tirx.Var("j", "int64"), tirx.Var("k", "int64")
    guard = tirx.all(number(3) > INDEX, other >= number(1), data < number(5), other > INDEX)
    assert share(guard, {INDEX: 12, other: 4}) == 3 / 12 * 3 / 4


def test_conditions_on_several_indices_stand_as_they_came():
    other = tirx.Var("j", "int64")
    guard = nested("below", range(20), False)
    guard = Guard.of(tirx.LT(other, number(3)), guard)
    assert guard.within is None and str(guard.expr).count("<") == 21


def test_conditions_on_values_stand_as_they_came():
    value = tirx.Var("x", "float32")
    assert Guard.of(tirx.LT(value, tirx.const(1.0, "float32")), None).within is None


def test_the_innermost_index_is_where_all_conditions_on_it_hold():
    other = tirx.Var("j", "int64")
    conditions = tirx.LT(INDEX, number(9)), tirx.LT(other, number(3)), tirx.LE(number(5), INDEX)
    found = innermost(tirx.all(*conditions))
    assert found.index == INDEX and found.intervals == ((5, 8),)
    assert innermost(tirx.all(conditions[0], tirx.LT(INDEX, other))) is None


def test_stacks_of_many_tensors_are_read_without_recursion():
    inputs = [te.placeholder((4,), "float32", f"x{n}") for n in range(600)]
    function = te.create_prim_func([*inputs, topi.stack(inputs)])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + 100)
    try:
        (stage,) = read_stages(function)
        guards = [str(read.guard) for read in stage.reads]
    finally:
        sys.setrecursionlimit(limit)
    assert len(guards) == 600 and max(map(len, guards)) < 300


def _depth():
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
