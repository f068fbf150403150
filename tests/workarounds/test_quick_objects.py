"""TVM's objects answer as before what they are, and its arrays what is in them."""

from abc import ABCMeta
from collections.abc import Sequence

import pytest
from tvm import relax, tirx
from tvm_ffi import Array, Object

import tvm_stitch  # noqa: F401

VALUES = (
    tirx.IntImm("int64", 1), tirx.Var("n", "int64"), tirx.Var("n", "int64") + 1,
    relax.Tuple([]), relax.ShapeExpr([1, 2]), Array([1]), 3, None, "text",
)  # fmt: skip


@pytest.mark.parametrize("kind", [Object, tirx.IntImm, tirx.Var, tirx.Add, relax.Expr, Array])
def test_classes_of_objects_are_what_abstract_classes_say(kind):
    said = [isinstance(value, kind) for value in VALUES]
    assert said == [ABCMeta.__instancecheck__(kind, value) for value in VALUES]
    assert any(said) and not all(said)


def test_of_what_python_registers_arrays_are_still_instances():
    assert isinstance(Array([1]), Sequence)


@pytest.mark.parametrize("given", [[], [1, 2, 3], ["a", [1, 2], None]])
def test_arrays_are_gone_through_in_order(given):
    array = Array(given)
    assert list(array) == [array[number] for number in range(len(given))]
    assert list(reversed(array)) == list(array)[::-1]
    assert [each for each, _ in zip(array, range(2), strict=False)] == list(array)[:2]
