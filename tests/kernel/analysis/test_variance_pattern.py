"""Which squares are those of a variance, and which only look like them."""

import numpy as np
import pytest
import tvm
from check import program_of
from tvm import relax, te
from tvm.relax import op
from zoo import graph

from tvm_stitch.kernel.analysis.two_stage_variance import _not_negative
from tvm_stitch.kernel.analysis.variance_pattern import centre_of
from tvm_stitch.stages.stage import handle


def mean(emit, x, axis=-1):
    return emit(op.mean(x, axis, keepdims=True))


def from_mean(emit, x, of):
    return emit(op.subtract(x, mean(emit, of)))


def half_of_mean(emit, x):
    total = emit(op.sum(x, -1, keepdims=True))
    return emit(op.subtract(x, emit(op.multiply(total, relax.const(0.5 / 70, "float32")))))


CENTRED = {
    "x around its mean": lambda emit, x, y: from_mean(emit, x, x),
    "a sum around its mean": lambda emit, x, y: from_mean(emit, s := emit(op.add(x, y)), s),
}
NOT_CENTRED = {
    "x around another mean": lambda emit, x, y: from_mean(emit, x, y),
    "x around the mean of its double": lambda emit, x, y: from_mean(emit, x, emit(op.add(x, x))),
    "around half of the mean": lambda emit, x, y: half_of_mean(emit, x),
    "x around its maximum": lambda emit, x, y: emit(
        op.subtract(x, emit(op.max(x, -1, keepdims=True)))
    ),
    "the mean around x": lambda emit, x, y: emit(op.subtract(mean(emit, x), x)),
}


def is_found(centred) -> bool:
    """Whether the last sum of the squares of something has a centre."""

    def build(emit, x, y):
        apart = centred(emit, x, y)
        variance = mean(emit, emit(op.multiply(apart, apart)))
        return emit(op.add(emit(op.multiply(apart, variance)), y))

    program = program_of(graph("float32", [(6, 70), (6, 70)], build, lambda x, y: x).module)
    producer = {handle(stage.output): stage for stage in program.stages}
    sums = [stage for stage in program.stages if stage.combiner == "sum"]
    return centre_of(sums[-1], producer) is not None


@pytest.mark.parametrize("name", CENTRED)
def test_squares_around_a_mean(name):
    assert is_found(CENTRED[name])


@pytest.mark.parametrize("name", NOT_CENTRED)
def test_squares_around_something_else(name):
    assert not is_found(NOT_CENTRED[name])


def test_squares_that_partials_add_up_to_are_not_negative():
    # A GPU may compute a value twice, once with a fused multiply-add: its distance from itself is
    # not 0 then, and a standard deviation would not be a number.
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: _not_negative(x[i]), "y")
    run = tvm.compile(te.create_prim_func([x, y]), "llvm")
    given = np.array([-1e-12, 0.0, 2.5, np.nan], "float32")
    found = tvm.runtime.tensor(np.empty_like(given))
    run(tvm.runtime.tensor(given), found)
    np.testing.assert_array_equal(found.numpy(), [0.0, 0.0, 2.5, np.nan])
