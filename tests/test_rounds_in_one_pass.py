"""Rounds that read their data once for all of its reductions, and once more for the result."""

from dataclasses import replace

import numpy as np
import pytest
from check import TOGETHER, check
from test_rounds import programs_of
from tvm import relax
from tvm.relax import op
from zoo import Case, graph_of

from tvm_stitch import transform
from tvm_stitch.device import device_of
from tvm_stitch.kernel import partition
from tvm_stitch.kernel.cooperative import two_stage_reduction

pytestmark = pytest.mark.usefixtures("grid_barriers")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """A device of two multiprocessors, and rows that are long for it."""

    def found(target):
        return replace(device_of(target), multiprocessors=2)

    monkeypatch.setattr(transform, "device_of", found)
    monkeypatch.setattr(partition, "LONG_ROW", 1 << 10)
    monkeypatch.setattr(two_stage_reduction, "CHUNK", 1 << 10)


def standardised(dtype: str, shape: tuple[int, ...], values: np.ndarray | None = None) -> Case:
    """Rows of mean 0 and variance 1."""

    def build(emit, x):
        h = x if dtype == "float32" else emit(op.astype(x, "float32"))
        centred = emit(op.subtract(h, emit(op.mean(h, [1], keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), [1], keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        return emit(op.astype(emit(op.multiply(centred, scale)), dtype))

    def expected(x):
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        return centred / np.sqrt(variance + np.float64(np.float32(1e-5)))

    return graph_of([(shape, dtype, values)], build, expected)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("shape", [(1, 9000), (4, 7000), (3, 7 * 1027), (2, 33 * 1000)])
def test_chunks_of_long_rows(shape, dtype):
    case = standardised(dtype, shape)
    programs, _ = programs_of(case)
    assert [program.round for program in programs] == [0, 1, 2]
    check(case, options=TOGETHER, orders=2)


@pytest.mark.parametrize("constant", (False, True))
def test_chunks_far_from_zero(constant):
    """As exact as two passes in float32; equal values have no variance."""
    rng = np.random.default_rng(0)
    values = rng.normal(3000, 0 if constant else 1, (2, 9000)).astype("float32").astype("float64")
    check(standardised("float32", values.shape, values), options=TOGETHER, orders=1)
