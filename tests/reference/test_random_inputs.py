"""Inputs by chance: the same for the same seed, and such that a module can take them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op
from typed import module

from tvm_stitch.errors import InputError
from tvm_stitch.reference import random_inputs, reference


def test_random_inputs_repeat_and_have_the_shapes_and_dtypes_of_the_parameters():
    n = tvm.tirx.Var("n", "int64")
    mod = module(
        lambda x, y, b: relax.Tuple([x, y, b]),
        ((n, 8), "bfloat16"),
        ((n * 2,), "float32"),
        ((4,), "bool"),
    )
    x, y, b = random_inputs(mod, seed=3, sizes={"n": 7})
    assert (x.shape, x.dtype.name) == ((7, 8), "bfloat16")
    assert (y.shape, y.dtype) == ((14,), "float32")
    assert b.dtype == bool
    again = random_inputs(mod, seed=3, sizes={"n": 7})
    other = random_inputs(mod, seed=4, sizes={"n": 7})
    assert all(np.array_equal(a, b) for a, b in zip([x, y, b], again, strict=True))
    assert not np.array_equal(y, other[1])
    assert random_inputs(mod)[0].shape == (5, 8)
    reference(mod, again)


def test_random_sizes_are_checked():
    n = tvm.tirx.Var("n", "int64")
    mod = module(op.exp, ((n, 8), "float32"))
    with pytest.raises(InputError, match=r"no symbolic extent is called 'm'; the module has .'n'."):
        random_inputs(mod, sizes={"m": 3})
    with pytest.raises(InputError, match=r"at least 1, got {'n': 0}"):
        random_inputs(mod, sizes={"n": 0})


def test_random_integers_are_valid_where_they_look_something_up():
    mod = module(
        lambda table, i: op.take(table, i, axis=0), ((9, 50), "float32"), ((1000,), "int64")
    )
    table, indices = random_inputs(mod)
    assert set(indices) == set(range(9))
    np.testing.assert_array_equal(reference(mod, [table, indices])[0], table[indices])

    values = random_inputs(module(lambda i: op.add(i, i), ((100,), "int32")))[0]
    assert set(values) == {0, 1}


def test_random_variances_are_positive():
    builder = relax.BlockBuilder()
    names = ["b_bn_running_var", "exp_avg_sq", "value"]
    parameters = [relax.Var(name, relax.TensorType((500,), "float32")) for name in names]
    with builder.function("main", parameters):
        builder.emit_func_output(relax.Tuple(parameters))
    variance, square, value = random_inputs(builder.get())
    assert variance.min() > 0
    assert square.min() > 0
    assert value.min() < 0


def test_random_inputs_of_roots_and_logarithms_are_positive():
    def adam(parameter, gradient, mean, square, logged):
        decayed = op.multiply(square, relax.const(0.999, "float32"))
        grown = op.multiply(op.multiply(gradient, gradient), relax.const(0.001, "float32"))
        step = op.divide(mean, op.sqrt(op.add(decayed, grown)))
        return relax.Tuple([op.subtract(parameter, step), op.log(logged)])

    mod = module(adam, *[((500,), "float32")] * 5)
    inputs = random_inputs(mod)
    assert [bool(value.min() > 0) for value in inputs] == [False, False, False, True, True]
    assert all(np.isfinite(output).all() for output in reference(mod, inputs))
