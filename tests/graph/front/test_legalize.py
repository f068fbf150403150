"""Functions that CUDA lacks for halves, and numbers that TVM's CUDA source cannot spell.

Every kernel is right on the CPU executor, stitched and as TVM schedules it, and NVIDIA's compiler
takes its source.
"""

import shutil
import subprocess

import numpy as np
import pytest
from check import H200, cuda_of, primfuncs_of
from lowered import run_lowered, scheduled, scheduled_by_default
from tvm import relax
from tvm.relax import op
from zoo import Case, graph_of, rounded

NVCC = shutil.which("nvcc")
HALVES = ("float16", "bfloat16")
ROUNDING = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6}


def takes(case: Case, dtype: str, folder) -> None:
    """The case is right both ways, and both compile to machine code."""
    for make in (scheduled, scheduled_by_default):
        module = make(case.module)
        for got, want in zip(run_lowered(module, case.arrays, H200), case.expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])
        for name, function in primfuncs_of(module).items():
            compiles(cuda_of(function, name=name), folder)


def compiles(source: str, folder) -> None:
    """Whether NVIDIA's compiler takes CUDA source."""
    if NVCC is None:
        return
    given = folder / "kernels.cu"
    given.write_text(source)
    command = [NVCC, "-arch=sm_90", "-ptx", "-o", str(folder / "kernels.ptx"), str(given)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def values(dtype: str, low: float, high: float, seed: int = 0) -> tuple:
    """An input of a dtype with values between two."""
    drawn = np.random.default_rng(seed).uniform(low, high, (5, 24))
    return ((5, 24), dtype, rounded(drawn, dtype))


UNARY = {
    "round": (op.round, np.rint),
    "cosh": (op.cosh, np.cosh),
    "sinh": (op.sinh, np.sinh),
    "asin": (op.asin, np.arcsin),
    "atanh": (op.atanh, np.arctanh),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("operator, exact", UNARY.values(), ids=UNARY)
def test_functions_that_halves_lack(operator, exact, dtype, tmp_path):
    limit = 0.9 if exact in (np.arcsin, np.arctanh) else 3.0
    inputs = [values(dtype, -limit, limit)]
    takes(graph_of(inputs, lambda emit, x: emit(operator(x)), exact), dtype, tmp_path)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("operator, exact", [(op.mod, np.fmod), (op.power, np.power)])
def test_functions_of_two(operator, exact, dtype, tmp_path):
    inputs = [values(dtype, 0.5, 3), values(dtype, 0.5, 2, 1)]
    takes(graph_of(inputs, lambda emit, x, y: emit(operator(x, y)), exact), dtype, tmp_path)


SPECIAL = np.array([[1.0, np.inf, -np.inf, np.nan] * 6] * 5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "operator, exact", [(op.isnan, np.isnan), (op.isinf, np.isinf), (op.isfinite, np.isfinite)]
)
def test_questions_about_halves(operator, exact, dtype, tmp_path):
    case = graph_of([((5, 24), dtype, SPECIAL)], lambda emit, x: emit(operator(x)), exact)
    takes(case, dtype, tmp_path)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", (*HALVES, "float32"))
@pytest.mark.parametrize("number", (np.inf, -np.inf, np.nan))
def test_numbers_that_are_not_finite(number, dtype, tmp_path):
    """As in a mask: where it says so, minus infinity instead of the score."""

    def build(emit, x):
        filled = emit(op.full((5, 24), relax.const(number, "float32"), dtype))
        one = relax.const(1.0, dtype)
        return emit(op.where(emit(op.greater(x, one)), filled, emit(op.add(x, one))))

    def exact(x):
        return np.where(x > 1, number, x + 1)

    takes(graph_of([values(dtype, -3, 3)], build, exact), dtype, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_rows_masked_with_infinities(dtype, tmp_path):
    """What goes on in float32 stays infinite: a row masked as a whole is not a number."""
    hidden = np.zeros((5, 24), "bool")
    hidden[0, 3:] = hidden[2] = True

    def build(emit, x, mask):
        low = relax.const(-np.inf, dtype) if dtype == "float16" else None
        low = low or emit(op.full((5, 24), relax.const(-np.inf, "float32"), dtype))
        return emit(op.nn.softmax(emit(op.where(mask, low, x))))

    def exact(x, mask):
        raised = np.exp(np.where(mask, -np.inf, x))
        with np.errstate(invalid="ignore"):
            return raised / raised.sum(1, keepdims=True)

    inputs = [values(dtype, -3, 3), ((5, 24), "bool", hidden)]
    takes(graph_of(inputs, build, exact), dtype, tmp_path)
