"""Loads behind a condition that is likely come before it, whatever else stands there."""

import pytest
import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.placed_loads import is_likely, with_likely_loads_first
from tvm_stitch.stages.stage import dtype_of

TABLE = tirx.decl_buffer((64,), "float32", "table")
OWN = tirx.decl_buffer((4,), "float32", "own", scope="local")
PLACE, HOLDS, ALSO = tirx.Var("n", "int32"), tirx.Var("holds", "bool"), tirx.Var("also", "bool")
NOTHING = tirx.const(0.0, "float32")


def load(number: int):
    return TABLE[(PLACE * 8 + number).astype("int64")]


def changed(value):
    return with_likely_loads_first(tirx.Evaluate(value)).value


def lets(value):
    """What is named around a value, from the outside, and the value."""
    found = []
    while isinstance(value, tirx.Let):
        found.append((value.var, value.value))
        value = value.body
    return found, value


def loads(value):
    found = []
    tvm_ffi.structural_walk(value, (tvm.ir.TensorLoad, found.append))
    return found


def test_what_is_loaded_if_something_likely_holds_is_loaded_before():
    found, select = lets(changed(tirx.Select(tirx.likely(HOLDS), load(1) + 1.0, NOTHING)))
    (place, index), (ahead, value) = found
    assert (place.name, dtype_of(index)) == ("place", "int32")
    assert ahead.name == "ahead" and loads(value) == [value]
    assert isinstance(select, tirx.Select) and not loads(select) and not is_likely(select.condition)


def test_of_several_conditions_within_each_other_none_is_before_a_load():
    inner = tirx.Select(tirx.likely(ALSO), load(1), NOTHING)
    found, select = lets(changed(tirx.Select(tirx.likely(HOLDS), inner * load(2), load(3))))
    assert sum(var.name == "ahead" for var, _ in found) == 3 and not loads(select)
    known = {PLACE, TABLE}
    for var, value in found:
        assert known.issuperset(tirx.analysis.undefined_vars(value))
        known.add(var)


@pytest.mark.parametrize("condition", [HOLDS, tirx.all(HOLDS, ALSO)])
def test_other_conditions_are_left_alone(condition):
    value = tirx.Select(condition, load(1), NOTHING)
    assert tvm_ffi.structural_equal(changed(value), value)


def test_what_a_thread_has_in_registers_stays():
    own = OWN[tirx.IntImm("int64", 1)]
    found, select = lets(changed(tirx.Select(tirx.likely(HOLDS), own, NOTHING)))
    assert not found and loads(select) == [own]
