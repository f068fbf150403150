"""Quick functions are exact enough for halves, at the ends of their ranges too; casts are exact."""

import math

import numpy as np
import pytest
from check import H200, check, cuda_of, the_kernel
from tvm import relax
from zoo import graph_of, layer_norm, rounded

from tvm_stitch import simt
from tvm_stitch.build import lowering_context

op = relax.op
# Beyond both ends, where the value is one, around zero, and in between.
VALUES = np.concatenate([np.linspace(-6, 6, 1500), np.geomspace(1e-7, 60000, 500), [0.0, -0.0]])


def erf_of_halves(dtype: str, values: np.ndarray):
    values = rounded(values, dtype)

    def build(emit, x):
        return emit(op.astype(emit(op.erf(emit(op.astype(x, "float32")))), dtype))

    return graph_of([(values.shape, dtype, values)], build, np.vectorize(math.erf))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_erf_of_halves(dtype):
    case = erf_of_halves(dtype, VALUES)
    assert "tvm_stitch_erf(" in cuda_of(the_kernel(case.module))
    check(case)


def test_erf_keeps_infinities_and_nan():
    values = np.array([np.inf, -np.inf, np.nan, 1.0])
    with lowering_context():
        function = simt.Function(the_kernel(erf_of_halves("float16", values).module), H200)
    out = np.empty(4, "float16")
    assert function(values.astype("float16"), out).ok
    np.testing.assert_array_equal(out, [1, -1, np.nan, np.float16(math.erf(1))])


def test_erf_of_floats_is_cuda_s_own():
    x = rounded(VALUES, "float32")
    case = graph_of(
        [(x.shape, "float32", x)], lambda emit, x: emit(op.erf(x)), np.vectorize(math.erf)
    )
    assert "erff(" in cuda_of(the_kernel(case.module))


@pytest.mark.parametrize("columns", (1, 64, 1000, 1027))
def test_bfloat16_is_widened_by_pairs(columns):
    case = layer_norm("bfloat16", 5, columns)
    # A thread that moves one element at a time has no pairs.
    assert ("tvm_stitch_widen(" in cuda_of(the_kernel(case.module))) == (columns > 1)
    check(case)
