"""Decompose, judged by numbers: compiled for the CPU and compared with NumPy in float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import tvm
from decompose_helpers import DTYPES, Case, check, error, module, run, sample
from tvm import relax
from tvm.relax import op
from tvm.relax.op import nn

from tvm_stitch.graph.front.decompose import Decompose


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def erf(x):
    return np.vectorize(math.erf)(x)


def power(x, exponent):
    return op.power(x, relax.const(exponent, x.ty.dtype))


def sized(case: Case, columns: int) -> list[tuple[int, ...]]:
    return [(columns,) if shape == "row" else (3, columns) for shape in case.shapes]


ROWS = {
    "softmax": Case(nn.softmax, softmax, ("x",)),
    "log_softmax": Case(nn.log_softmax, log_softmax, ("x",)),
    "layer_norm": Case(
        lambda x, g, b: nn.layer_norm(x, g, b, axes=-1),
        lambda x, g, b: normal(x, -1) * g + b,
        ("x", "row", "row"),
    ),
    "rms_norm": Case(
        lambda x, g: nn.rms_norm(x, g, axes=-1),
        lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
        ("x", "row"),
    ),
    "gelu": Case(nn.gelu, lambda x: x * (0.5 + 0.5 * erf(x * math.sqrt(0.5))), ("x",)),
    "gelu_tanh": Case(
        nn.gelu_tanh,
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ("x",),
    ),
    "silu": Case(nn.silu, lambda x: x / (1 + np.exp(-x)), ("x",)),
    "selu": Case(
        nn.selu,
        lambda x: (
            1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
        ),
        ("x",),
    ),
    "softplus": Case(nn.softplus, lambda x: np.log1p(np.exp(x)), ("x",)),
    "softplus_beta": Case(
        lambda x: nn.softplus(x, beta=2.0, threshold=3.0),
        lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2),
        ("x",),
    ),
    "log_add_exp": Case(op.log_add_exp, np.logaddexp, ("x", "x")),
    "fused_multiply_add": Case(op.ewise_fma, lambda a, b, c: a * b + c, ("x", "x", "x")),
    "power_2": Case(lambda x: power(x, 2.0), lambda x: x**2, ("x",)),
    "power_3": Case(lambda x: power(x, 3.0), lambda x: x**3, ("x",)),
    "power_0.5": Case(lambda x: power(x, 0.5), np.sqrt, ("x",), around_one=True),
    "power_-0.5": Case(lambda x: power(x, -0.5), lambda x: x**-0.5, ("x",), around_one=True),
    "power_-1": Case(lambda x: power(x, -1.0), lambda x: 1 / x, ("x",), around_one=True),
    "mean": Case(lambda x: op.mean(x, -1), lambda x: x.mean(-1), ("x",)),
    "mean_all": Case(op.mean, np.mean, ("x",)),
    "sum_columns": Case(lambda x: op.sum(x, 0), lambda x: x.sum(0), ("x",)),
    "prod": Case(
        lambda x: op.prod(x, [1], True),
        lambda x: x.prod(1, keepdims=True),
        ("x",),
        around_one=True,
    ),
    "variance": Case(lambda x: op.variance(x, -1), lambda x: x.var(-1), ("x",)),
    "std": Case(lambda x: op.std(x, -1, True), lambda x: x.std(-1, keepdims=True), ("x",)),
    "cross_entropy_with_logits": Case(
        nn.cross_entropy_with_logits, lambda x, y: -(x * y).sum() / len(x), ("x", "x")
    ),
}


REDUCTIONS = ["softmax", "log_softmax", "layer_norm", "rms_norm", "mean", "prod", "variance"]


@pytest.mark.spread(18)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_matches_float64(name, dtype):
    check(ROWS[name], sized(ROWS[name], 33), dtype)


@pytest.mark.spread(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows_of_any_length_match_float64(name, dtype):
    case = ROWS[name]
    lengths = [sized(case, columns) for columns in (1, 7, 33, 1000, 1027)]
    check(case, sized(case, tvm.tirx.Var("m", "int64")), dtype, lengths)


@pytest.mark.spread(3)
@pytest.mark.parametrize("columns", [1, 1027])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_odd_rows_match_float64(name, columns):
    check(ROWS[name], sized(ROWS[name], columns), "float16")


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", ROWS)
def test_float64_stays_float64(name):
    check(ROWS[name], sized(ROWS[name], 33), "float64")


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_masked_elements_are_no_nan(name):
    case, mod = ROWS[name], module(ROWS[name].build, [(2, 33)], "float32")
    x = sample([(2, 33)], "float32")[0]
    x[:, 5:9] = -np.inf
    (actual,) = run(Decompose()(mod), [x])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(actual, case.meaning(x.astype("float64")), rtol=2e-6)


def test_log_add_exp_of_equal_infinities_and_large_values():
    mod = Decompose()(module(op.log_add_exp, [(5,), (5,)], "float32"))
    a = np.array([np.inf, -np.inf, -np.inf, 200.0, -300.0], "float32")
    b = np.array([np.inf, -np.inf, 1.0, 200.0, -300.0], "float32")
    (actual,) = run(mod, [a, b])
    np.testing.assert_allclose(actual, np.logaddexp(a.astype("float64"), b), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sigmoid_of_halves_where_the_exponential_is_too_large_for_them(dtype):
    written = Decompose()(module(op.sigmoid, [(3,)], dtype))
    x = np.array([-11.5, -14, 3])
    (actual,) = run(written, [x.astype(dtype if dtype == "float16" else ml_dtypes.bfloat16)])
    np.testing.assert_allclose(actual.astype("float64"), 1 / (1 + np.exp(-x)), 2**-7, 2**-25)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm", "variance"])
def test_no_less_exact_than_what_tvm_makes_of_it(name, dtype):
    case = ROWS[name]
    shapes = sized(case, 1027)
    mod = module(case.build, shapes, dtype)
    inputs = [(value + 3).astype(value.dtype) for value in sample(shapes, dtype)]
    expected = case.meaning(*[value.astype("float64") for value in inputs])
    (ours,), (theirs,) = run(Decompose()(mod), inputs), run(mod, inputs)
    # An ulp of float32 here or there is luck of the rounding, not exactness.
    assert error(ours, expected) <= error(theirs, expected) + 2.0**-24
