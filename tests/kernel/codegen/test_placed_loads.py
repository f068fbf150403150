"""Loads behind a condition that is likely come before it, whatever else stands there."""

import pytest
import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.placed_loads import (
    KEPT,
    bits_of,
    can_be_predicated,
    chosen_at_once,
    is_likely,
    load_if,
    with_likely_loads_first,
)
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


def text(value):
    return str(tirx.Evaluate(value))


def own(number):
    return OWN[tirx.IntImm("int64", number)]


BOTH = tirx.all(HOLDS, ALSO)


def test_what_is_chosen_of_registers_is_no_branch():
    inner = tirx.Select(own(0) > 0.5, own(1), NOTHING)
    found = text(chosen_at_once(tirx.if_then_else(BOTH, inner, NOTHING) + 1.0))
    assert found.count('"tvm_stitch_choose"') == 2
    assert "if_then_else" not in found and "Select" not in found and "holds & also" in found


@pytest.mark.parametrize(
    "condition, value",
    [(HOLDS, own(0)), (BOTH, load(1)), (BOTH, tirx.sqrt(own(0))), (BOTH, NOTHING + 1.0)],
    ids=["one condition", "memory", "a function", "nothing of registers"],
)
def test_other_choices_stay_as_they_are(condition, value):
    choice = tirx.if_then_else(condition, value, NOTHING)
    assert chosen_at_once(choice).same_as(choice)


@pytest.mark.parametrize(
    "dtype, number, bits",
    [
        ("float32", 1.0, 0x3F800000),
        ("float16", float("-inf"), 0xFC00FC00),
        ("bfloat16", 1.0, 0x3F803F80),
        ("float16", 0.0, 0),
    ],
)
def test_what_fills_registers(dtype, number, bits):
    assert bits_of(dtype, tirx.const(number, dtype)) == bits


def test_what_fills_what_is_not_used():
    """Registers that only a predicated load defines are none at all where it does not load."""
    assert bits_of("float16", None) == 0
    assert bits_of("float16", KEPT) == KEPT
    assert bits_of("int8", tirx.const(1, "int8")) is None


def test_loads_behind_conditions():
    where = tirx.Var("where", "int64")
    given = (BOTH, TABLE.ptr_to([where]), OWN.ptr_to([tirx.IntImm("int64", 0)]), 4, "float32")
    kept, filled = text(load_if(*given, KEPT)), text(load_if(*given, 0))
    assert "@exists ld.global.v4.b32" in kept and "mov.b32" not in kept and "+r" in kept
    assert filled.count("mov.b32") == 4 and "holds & also" in filled


@pytest.mark.parametrize(
    "dtype, lanes, into, possible",
    [
        ("float16", 8, 16, True),
        ("float16", 8, 12, False),
        ("int8", 8, 8, True),
        ("float32", 8, 0, False),
        ("float16", 1, 0, False),
    ],
)
def test_what_can_be_loaded_so(dtype, lanes, into, possible):
    assert can_be_predicated(dtype, lanes, tirx.IntImm("int64", into)) == possible
