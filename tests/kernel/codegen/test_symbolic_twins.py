"""Symbolic shapes stitch as their static twins do, and are right at every size."""

import numpy as np
import pytest
import tvm
from check import H200, primfuncs, schedule_of
from symbolic_norms import NORMS
from tvm.relax import op
from twins import TWINS as OTHERS
from twins import Twin
from twins_verified import verify

import tvm_stitch
from tvm_stitch.device import device_of
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.verify import stitched_for_cpu

TWINS = {**OTHERS, **NORMS}
# Launches of the static twins that are not one kernel.
LAUNCHES = {"step with a cache": 3, "a mask for two layers": 3, "slots": 2}
# Of symbolic ones that launch less: of sizes that nobody states one kernel in rounds is as good as
# any, and a few small slots take two kernels, where many take one.
OTHERWISE = {"step with a cache": 1, "slots": 1}
QUICK = ("softmax of a concat", "packed sequences", "instance norm, channels last")


def launches(module: tvm.IRModule, options: tvm_stitch.Options | None = None) -> int:
    return tvm_stitch.explain(module, H200, options).launches


@pytest.mark.spread(11)
@pytest.mark.parametrize("name", TWINS)
def test_as_many_launches_as_the_static_twin(name):
    twin = TWINS[name]
    assert launches(twin.symbolic, twin.options) == OTHERWISE.get(name, LAUNCHES.get(name, 1))


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", TWINS)
def test_never_more_launches_than_tvm_has(name):
    report = tvm_stitch.explain(TWINS[name].symbolic, H200, TWINS[name].options)
    assert report.launches <= report.before.launches


# What once took more launches with symbols than with numbers, and TVM's for it.
ONCE_MORE = {
    "softmax of a view": 1,
    "rows of a product": 2,
    "rows of two symbols": 2,
    "layer norm of a view": 1,
    "group norm": 1,
    "softmax of a concat": 2,
    "layer norm backward": 7,
    "batch norm in training": 5,
    "normalised": 2,
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", ONCE_MORE)
def test_one_launch_as_with_numbers(name):
    symbolic = tvm_stitch.explain(TWINS[name].symbolic, H200, TWINS[name].options)
    static = tvm_stitch.explain(TWINS[name].static, H200)
    assert (symbolic.launches, static.launches) == (1, 1)
    assert symbolic.before.launches == static.before.launches == ONCE_MORE[name]


@pytest.mark.parametrize("likely", ({}, {"n": 1 << 15}), ids=("any", "many"))
def test_a_total_of_symbolic_rows_fills_the_device(likely):
    """It took one block of 512 threads, whatever the number of rows."""
    options = tvm_stitch.Options(extents={name: (size,) for name, size in likely.items()})
    (kernel,) = primfuncs(TWINS["normalised"].symbolic, H200, options).values()
    assert schedule_of(kernel).blocks >= device_of(H200).multiprocessors


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_static_twins_are_what_symbolic_ones_are_measured_by(name):
    assert launches(TWINS[name].static) == LAUNCHES.get(name, 1)


IN_ROUNDS = (
    "standardised columns",
    "batch norm, channels last",
    "batch norm backward, channels last",
    "instance norm, channels last",
    "instance norm of volumes",
    "instance norm of volumes, backward",
    "slots",
    "softmax over rows",
)


@pytest.mark.parametrize("name", IN_ROUNDS)
@pytest.mark.slow
def test_rounds_of_rows_whose_number_only_run_time_knows(name):
    """As many of them as with known sizes: a mean and its squares are found in one."""
    (kernel,) = tvm_stitch.explain(TWINS[name].symbolic, H200, TWINS[name].options).kernels
    assert kernel.scheme == "global" and "3 rounds" in kernel.why


@pytest.mark.parametrize("shape", [(3, 0, 5, 96), (3, 5, 0, 96)])
@pytest.mark.slow
def test_chunks_without_values(shape):
    """No chunk, or chunks of nothing: no mean, and no read of a partial that is not there."""

    def build(emit, of, x):
        total = emit(op.sum(x, [1, 2, 3]))
        centred = emit(op.subtract(x, emit(op.mean(x, [1, 2, 3], keepdims=True))))
        return total, emit(op.mean(emit(op.multiply(centred, centred)), [1, 2, 3]))

    likely = {"n": 4, "d": 192, "h": 192}
    twin = Twin(lambda n, d, h: [(n, d, h, 96)], build, (likely,), likely=likely)
    runner = Runner(stitched_for_cpu(twin.symbolic, H200, twin.options), H200)
    total, variance = runner.run([np.ones(shape, "float32"), np.ones(shape[:3], "float32")], 0)
    assert not runner.hazards and runner.runs
    np.testing.assert_array_equal(total, np.zeros(3))
    np.testing.assert_array_equal(variance, np.full(3, np.nan))


@pytest.mark.parametrize("name", QUICK)
def test_right_at_one_size(name):
    verify(TWINS[name], TWINS[name].sizes[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_right_at_every_size(name):
    verify(TWINS[name], *TWINS[name].sizes)


ON_TENSOR_CORES = ("linear", "linear of tokens", "products of any batch", "scores of any length")


@pytest.mark.parametrize("name", (*ON_TENSOR_CORES, "values of any length"))
def test_products_of_halves_are_on_tensor_cores_whatever_is_symbolic(name):
    (kernel,) = tvm_stitch.explain(TWINS[name].symbolic, H200).kernels
    assert "on tensor cores" in kernel.why and kernel.predicted_us and kernel.formula
