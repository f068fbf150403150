"""What the tests of Decompose share: building modules, running them on the CPU, judging errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Call, Op

from tvm_stitch.graph.front.decompose import Decompose
from tvm_stitch.graph.front.decompose.rewrite import FAMILIES

ml_dtypes = pytest.importorskip("ml_dtypes")

# Hundreds of small modules are compiled, and none runs long enough to repay optimising it.
CPU = tvm.target.Target({"kind": "llvm", "opt-level": 0})
DTYPES = ["float32", "float16", "bfloat16"]
# A sum, product or mean over float32 and a general power are stages already, and remain.
# What is a stage itself in float32.
STAGES = {"sum", "prod", "mean", "power", "matmul", "sigmoid"}
COMPOUND = set(FAMILIES) - {f"relax.{name}" for name in STAGES}
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


def emitted(build, shapes, dtype="float32") -> tvm.IRModule:
    """A module whose main is `build(emit, *parameters)`; what it emits has a name of its own."""
    builder = relax.BlockBuilder()
    types = [relax.TensorType(shape, dtype) for shape in shapes]
    parameters = [relax.Var(f"p{number}", ty) for number, ty in enumerate(types)]
    with builder.function("main", parameters):
        with builder.dataflow():
            results = build(builder.emit, *parameters)
            several = isinstance(results, tuple)
            outputs = [builder.emit_output(value) for value in (results if several else [results])]
        builder.emit_func_output(relax.Tuple(outputs) if several else outputs[0])
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


def compiled(mod: tvm.IRModule) -> Callable:
    """The module's main on the CPU: arrays in, a list of float64 arrays out."""
    machine = relax.VirtualMachine(tvm.compile(mod, CPU), tvm.cpu())

    def main(inputs) -> list[np.ndarray]:
        result = machine["main"](*[tvm.runtime.tensor(value) for value in inputs])
        outputs = list(result) if not isinstance(result, tvm.runtime.Tensor) else [result]
        return [output.numpy().astype("float64") for output in outputs]

    return main


def run(mod: tvm.IRModule, inputs) -> list[np.ndarray]:
    return compiled(mod)(inputs)


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


def check(case: Case, shapes, dtype, sizes=None):
    """Decomposed, no compound operator remains, types stay, and the numbers are float64's.

    `sizes` are the shapes of the inputs to run with, one set after another, where `shapes` are
    symbolic.
    """
    mod = module(case.build, shapes, dtype)
    written = Decompose()(mod)
    assert written["main"].ret_ty == mod["main"].ret_ty
    assert not COMPOUND & set(operators(written))

    main = compiled(written)
    for concrete in sizes or [shapes]:
        inputs = sample(concrete, dtype)
        if case.around_one:
            inputs = [(1 + value / 32).astype(value.dtype) for value in inputs]
        expected = case.meaning(*[value.astype("float64") for value in inputs])
        if not isinstance(expected, tuple):
            expected = (expected,)
        # One rounding to the result's dtype, and float32 on the way there.
        tolerance = 0.51 * EPSILON[dtype] + (1e-13 if dtype == "float64" else 2e-6)
        for actual, exact in zip(main(inputs), expected, strict=True):
            assert error(actual, np.asarray(exact)) <= tolerance
