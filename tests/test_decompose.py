"""Decompose, judged by numbers: compiled for the CPU and compared with NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Call, Op
from tvm.relax import op
from tvm.relax.op import nn

from tvm_stitch.graph.decompose import Decompose
from tvm_stitch.graph.decompose.rewrite import FAMILIES

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = ["float32", "float16", "bfloat16"]
# A sum, product or mean over float32 is a stage already, and remains.
COMPOUND = set(FAMILIES) - {"relax.sum", "relax.prod", "relax.mean"}
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}


def numpy_dtype(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def module(build: Callable, shapes, dtype) -> tvm.IRModule:
    """A module whose main applies `build` to parameters of these shapes."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"p{i}", relax.TensorType(shape, dtype)) for i, shape in enumerate(shapes)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            output = builder.emit_output(build(*parameters))
        builder.emit_func_output(output)
    return builder.get()


def operators(mod: tvm.IRModule) -> list[str]:
    """The names of all operators that are called anywhere in the module."""
    names = []

    def visit(expr):
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            names.append(expr.op.name)

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return names


def run(mod: tvm.IRModule, inputs) -> list[np.ndarray]:
    machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    result = machine["main"](*[tvm.runtime.tensor(value) for value in inputs])
    outputs = list(result) if not isinstance(result, tvm.runtime.Tensor) else [result]
    return [output.numpy().astype("float64") for output in outputs]


def sample(shapes, dtype, seed=0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes]


def error(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, in units of the largest expected magnitude."""
    scale = max(1e-30, float(np.max(np.abs(expected), initial=0.0)))
    return float(np.max(np.abs(actual - expected), initial=0.0)) / scale


@dataclass(frozen=True)
class Case:
    """A compound operator and what it means in NumPy."""

    build: Callable
    meaning: Callable
    shapes: tuple
    around_one: bool = False


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


def sized(case: Case, columns: int) -> list[tuple[int, ...]]:
    return [(columns,) if shape == "row" else (3, columns) for shape in case.shapes]


def check(case: Case, shapes, dtype, seed=0):
    """Decomposed, no compound operator remains, types stay, and the numbers are float64's."""
    inputs = sample(shapes, dtype, seed)
    if case.around_one:
        inputs = [(1 + value / 32).astype(value.dtype) for value in inputs]
    mod = module(case.build, shapes, dtype)
    written = Decompose()(mod)
    assert written["main"].ret_ty == mod["main"].ret_ty
    assert not COMPOUND & set(operators(written))

    expected = case.meaning(*[value.astype("float64") for value in inputs])
    if not isinstance(expected, tuple):
        expected = (expected,)
    # One rounding to the result's dtype, and float32 on the way there.
    tolerance = 0.51 * EPSILON[dtype] + (1e-13 if dtype == "float64" else 2e-6)
    for actual, exact in zip(run(written, inputs), expected, strict=True):
        assert error(actual, np.asarray(exact)) <= tolerance


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_matches_float64(name, dtype):
    check(ROWS[name], sized(ROWS[name], 33), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 7, 1000, 1027])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_odd_rows_match_float64(name, columns, dtype):
    check(ROWS[name], sized(ROWS[name], columns), dtype)


@pytest.mark.parametrize("name", ROWS)
def test_float64_stays_float64(name):
    check(ROWS[name], sized(ROWS[name], 33), "float64")
