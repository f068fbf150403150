"""Symbolic shapes stitch as their static twins do, and are right at every size."""

import pytest
import tvm
from check import H200
from twins import TWINS, Twin

import tvm_stitch
from tvm_stitch.reference import random_inputs, reference
from tvm_stitch.verify import compare, stitched_for_cpu

# Launches of the static twins that are not one kernel.
LAUNCHES = {"step with a cache": 3, "a mask for two layers": 3}
# Of symbolic ones that launch more: nobody says how long the rows may be that are summed over.
MORE = {"layer norm backward": 3}
QUICK = ("softmax of a concat", "packed sequences")


def launches(module: tvm.IRModule) -> int:
    return tvm_stitch.explain(module, H200).launches


def verify(
    twin: Twin,
    *sizes: dict[str, int],
    orders: int = 2,
    options: tvm_stitch.Options | None = None,
) -> None:
    """One compiled module is right at all of these sizes."""
    module = twin.symbolic
    stitched = stitched_for_cpu(module, H200, options)
    for each in sizes:
        arrays = random_inputs(module, 0, each)
        found = compare(module, stitched, H200, arrays, reference(module, arrays), orders)
        assert found.ok, f"{each}: {found}"


@pytest.mark.parametrize("name", TWINS)
def test_as_many_launches_as_the_static_twin(name):
    assert launches(TWINS[name].symbolic) == MORE.get(name, LAUNCHES.get(name, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_static_twins_are_what_symbolic_ones_are_measured_by(name):
    assert launches(TWINS[name].static) == LAUNCHES.get(name, 1)


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
