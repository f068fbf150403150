"""Running sums along rows of any length, and along rows that no block keeps: chunk by chunk."""

import numpy as np
import pytest
from check import H200, check, primfuncs, schedule_of
from tvm import relax
from tvm.relax import op
from twins import Twin
from twins_verified import verify
from zoo import Graph

from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.schedule import Schedule

CHUNK = 4096  # columns
# Around what a block keeps of a row, in two sizes, and around the ends of chunks behind that.
SIZES = tuple({"n": n, "m": m} for n, m in [(3, 1), (1, 31), (2, 1027), (1, 4097), (2, 16385)])


def every(schedule: Schedule | None) -> list[Schedule]:
    """The schedules of a kernel by the length of rows, the shortest first."""
    return [] if schedule is None else [schedule, *every(schedule.longer)]


def chunked(module) -> list[bool]:
    (kernel,) = primfuncs(module, H200).values()
    mappings = [part for each in every(schedule_of(kernel)) for part in each.parts]
    return [isinstance(mapping, Rows) and mapping.chunked for mapping in mappings]


def around(emit, _of, x):
    """What is element-wise on both sides."""
    before = emit(op.exp(emit(op.astype(x, "float32"))))
    after = emit(op.multiply(emit(op.cumsum(before, axis=-1)), relax.const(1 / 3, "float32")))
    return emit(op.astype(after, str(x.ty.dtype)))


def backward(emit, _of, x):
    """A running sum from the end, as the gradient of another one is."""
    return emit(op.flip(emit(op.cumsum(emit(op.flip(x, 1)), axis=1)), 1))


def two(emit, _of, x):
    return emit(op.cumsum(x, axis=1)), emit(op.cumprod(emit(op.cos(x)), axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.slow
def test_any_length_is_one_kernel(dtype):
    twin = Twin(lambda n, m: [(n, m)], around, SIZES, dtype=dtype)
    assert chunked(twin.symbolic)[-1] and not chunked(twin.symbolic)[0]
    verify(twin, *SIZES, orders=1)


@pytest.mark.parametrize("build", [backward, two])
@pytest.mark.slow
def test_from_the_end_and_two_at_once(build):
    twin = Twin(lambda n, m: [(n, m)], build, SIZES)
    verify(twin, *SIZES)


@pytest.mark.slow
def test_rows_of_halves_that_begin_anywhere():
    twin = Twin(lambda n, m: [(n, 2 * m + 1)], around, SIZES, dtype="float16")
    verify(twin, *SIZES[1:], orders=1)


@pytest.mark.parametrize("columns", [17 * CHUNK, 17 * CHUNK + 7])
@pytest.mark.slow
def test_many_long_rows_of_a_known_length(columns):
    graph = Graph()
    x = graph.input("x", (32, columns), "float32", graph.rng.standard_normal((32, columns)))
    case = graph.case(lambda b, x: b(op.cumsum(x, axis=1)), np.cumsum(x.astype("float64"), axis=1))
    assert chunked(case.module) == [True]
    check(case, orders=1)


@pytest.mark.slow
def test_rows_of_a_middle_axis_of_any_length():
    sizes = SIZES[1:3]
    twin = Twin(lambda n, m: [(2, m, n)], lambda emit, _of, x: emit(op.cumsum(x, axis=1)), sizes)
    verify(twin, *twin.sizes, orders=1)


def test_a_bound_needs_no_chunks():
    twin = Twin(lambda n, m: [(n, m)], around, SIZES[:3], bounds={"m": 2048})
    assert not any(chunked(twin.symbolic))
    verify(twin, *twin.sizes, orders=1)


@pytest.mark.slow
def test_what_reduces_the_row_as_well_has_a_kernel_of_its_own():
    """A softmax needs the row's sum before the first chunk is scanned."""

    def build(emit, _of, x):
        return emit(op.cumsum(emit(op.nn.softmax(x)), axis=1))

    twin = Twin(lambda n, m: [(n, m)], build, SIZES)
    assert len(primfuncs(twin.symbolic, H200)) <= 2
    verify(twin, *SIZES, orders=1)
