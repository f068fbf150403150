"""Options.fast_math: what is replaced, what is not, and how far it is off."""

import math

import numpy as np
import pytest
import tvm
from check import DTYPES, H200, check, cuda_of, the_kernel
from tvm import relax
from tvm.relax import op
from tvm.script import tirx as T
from zoo import gelu64, graph_of

from tvm_stitch import Options
from tvm_stitch.graph.front.functions.approximate import ERF, Approximate
from tvm_stitch.tuning.workloads import find_workloads

FAST = Options(fast_math=True)
X = np.linspace(-9, 9, 7 * 33).reshape(7, 33)
FUNCTIONS = {
    "erf": (op.erf, np.vectorize(math.erf)),
    "gelu": (op.nn.gelu, gelu64),
    "sigmoid": (op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (op.nn.silu, lambda x: x / (1 + np.exp(-x))),
}


def case(name, dtype="float32", values=X):
    function, expected = FUNCTIONS[name]
    inputs = [(values.shape, dtype, values)]
    return graph_of(inputs, lambda emit, x: emit(function(x)), expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_kernel_and_right_but_for_the_hardware(name, dtype):
    check(case(name, dtype), options=FAST)


@pytest.mark.parametrize("name", ("erf", "sigmoid", "silu"))
def test_tanh_takes_the_place_of_what_costs_more(name):
    module = case(name).module
    fast, default = (cuda_of(the_kernel(module, options=o)) for o in (FAST, Options()))
    assert "tanhf(" in fast and "erff(" not in fast and "expf(" not in fast
    assert "tanhf(" not in default


def test_the_polynomial_of_erf_is_as_good_as_it_says():
    x = np.linspace(0, 20, 200_001)
    approximated = np.tanh(x * sum(c * x ** (2 * n) for n, c in enumerate(ERF)))
    error = np.abs(approximated - np.vectorize(math.erf)(x))
    assert 2.8e-6 < error.max() < 2.95e-6
    assert ERF[-1] > 0


@pytest.mark.parametrize("name", ("erf", "sigmoid"))
def test_infinities_large_and_small_numbers_and_none(name):
    check(
        case(name, values=np.array([[np.inf, -np.inf, np.nan, 80, -80, 0.0, 1e-30]])), options=FAST
    )


def test_float64_stays():
    wide = graph_of([((3, 5), "float64", None)], lambda emit, x: emit(op.erf(x)), np.abs)
    module = relax.transform.LegalizeOps()(wide.module)
    assert Approximate()(module).script() == module.script()


def test_an_operand_that_would_be_computed_five_times_stays():
    @T.prim_func(private=True, s_tir=True)
    def both(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("y"):
                v = T.axis.spatial(8, i)
                y[v] = T.erf(T.exp(x[v])) + T.sigmoid(T.exp(x[v]))

    text = Approximate()(tvm.IRModule({"both": both})).script()
    assert "T.erf" in text and "T.sigmoid" not in text and "T.tanh" in text


def test_records_of_tuning_are_of_one_or_the_other():
    module = case("silu").module
    (fast,), (default,) = (find_workloads(module, H200, o).workloads for o in (FAST, None))
    assert fast.key != default.key


def test_the_default_is_off():
    assert not Options().fast_math
