"""Vectors that are loaded under a condition hold a number elsewhere: no element asks again."""

import numpy as np
import pytest
from check import check, cuda_of, schedule_by, the_kernel
from tvm import relax, te, tirx
from zoo import Case, rounded, te_module

from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.schedule import Schedule

ROWS, COLUMNS = 9, 24


@pytest.fixture(autouse=True)
def eighths(monkeypatch):
    schedule_by(monkeypatch, lambda *_: Schedule((Flat(32, 8, 1),)))


def of(make, expected, dtypes=("float16",), shapes=((ROWS, COLUMNS),), values=None) -> Case:
    """A case of one TE function; what is rounded is what it returns."""
    rng = np.random.default_rng(0)
    arrays = values or [
        rounded(rng.standard_normal(shape), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    params = [
        relax.Var(f"p{number}", relax.TensorType(array.shape, dtype))
        for number, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True))
    ]
    wide = [a.astype("float64") if a.dtype != np.int64 else a for a in map(np.asarray, arrays)]
    return Case(te_module(make, *params), tuple(arrays), (expected(*wide),))


def above(x, i, j, number, wide="float32"):
    """The element of the row above, a number in the first row."""
    return tirx.if_then_else(i >= 1, x(i - 1, j).astype(wide), tirx.const(number, wide))


def above64(x, number):
    return np.concatenate([np.full_like(x[:1], number), x[:-1]])


def conditions(case: Case) -> int:
    """Of the kernel's source, those behind the loads: of the elements."""
    source = cuda_of(the_kernel(case.module))
    return source[source.rindex("_out_ptr[8];") :].count("if (")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("number", [0.0, -np.inf, 1.5])
def test_a_number_that_the_input_can_hold(dtype, number):
    def make(x):
        return te.compute(
            (ROWS, COLUMNS),
            lambda i, j: tirx.max(above(x, i, j, number), x(i, j).astype("float32")),
            name="larger",
        )

    case = of(make, lambda x: np.maximum(above64(x, number), x), (dtype,))
    check(case, orders=2)
    assert conditions(case) == 0


@pytest.mark.parametrize("dtype, number", [("float16", 0.1), ("bfloat16", 1.0 + 2**-10)])
def test_one_that_it_cannot_hold_is_asked_for(dtype, number):
    def make(x):
        return te.compute((ROWS, COLUMNS), lambda i, j: above(x, i, j, number) * 2, name="twice")

    held = float(np.float32(number))
    case = of(make, lambda x: above64(x, held) * 2, (dtype,))
    check(case, orders=2)
    assert conditions(case) == 1


def test_two_numbers_of_one_vector_are_asked_for():
    def make(x):
        return te.compute(
            (ROWS, COLUMNS),
            lambda i, j: above(x, i, j, 1.0) + 3 * above(x, i, j, 2.0),
            name="summed",
        )

    case = of(make, lambda x: above64(x, 1.0) + 3 * above64(x, 2.0))
    check(case, orders=2)
    assert conditions(case) == 2


def test_what_is_computed_elsewhere_is_asked_for():
    def make(x):
        def element(i, j):
            here = x(i, j).astype("float32")
            return tirx.if_then_else(i >= 1, x(i - 1, j).astype("float32"), here) * 2

        return te.compute((ROWS, COLUMNS), element, name="chosen")

    case = of(make, lambda x: np.concatenate([x[:1], x[:-1]]) * 2)
    check(case, orders=2)
    assert conditions(case) == 1


def test_what_is_used_in_the_branch_is_asked_for():
    """A number takes the place of a load, not of what is made of it."""

    def make(x):
        def element(i, j):
            return tirx.if_then_else(i >= 1, tirx.exp(x(i - 1, j).astype("float32")), 0.0)

        return te.compute((ROWS, COLUMNS), element, name="powers")

    case = of(make, lambda x: np.concatenate([np.zeros_like(x[:1]), np.exp(x[:-1])]))
    check(case, orders=2)
    assert conditions(case) == 1


def test_one_vector_that_is_read_with_a_branch_and_without():
    """The second row is read by whoever is in it: its guard is another."""

    def make(x):
        def element(i, j):
            return above(x, i, j, 0.0) + x(tirx.max(i - 1, 0), j).astype("float32")

        return te.compute((ROWS, COLUMNS), element, name="both")

    case = of(make, lambda x: above64(x, 0.0) + np.concatenate([x[:1], x[:-1]]))
    check(case, orders=2)


def test_places_of_indices_are_counted_in_32_bits():
    def make(x, at):
        return te.compute((ROWS, 21), lambda i, j: x(i, at(i, j)) * 2, name="picked")

    picks = np.random.default_rng(1).integers(0, COLUMNS, (ROWS, 21))
    data = rounded(np.random.default_rng(2).standard_normal((ROWS, COLUMNS)), "float16")
    case = of(
        make,
        lambda x, at: np.take_along_axis(x, at, 1) * 2,
        ("float16", "int64"),
        values=[data, picks],
    )
    check(case, orders=2)
    assert "(int64_t)((int)threadIdx" not in cuda_of(the_kernel(case.module))


def test_indices_are_read_where_there_are_some():
    """Their place is not worked out in front of the condition: it may lie outside of them."""

    def make(x, at):
        def element(i, j):
            return tirx.if_then_else(j < 5, x(i, at(j)), tirx.const(0.0, "float16"))

        return te.compute((ROWS, COLUMNS), element, name="some")

    picks = np.random.default_rng(1).integers(0, COLUMNS, 5)
    data = rounded(np.random.default_rng(2).standard_normal((ROWS, COLUMNS)), "float16")

    def expected(x, at):
        return np.concatenate([x[:, at], np.zeros((ROWS, COLUMNS - 5))], 1)

    check(of(make, expected, ("float16", "int64"), values=[data, picks]), orders=2)


@pytest.mark.parametrize("width", [21, 27])
def test_branches_that_read_one_tensor_are_one_load(width):
    """Rolled along both axes by joining parts: an element is at one of four places."""

    def make(x):
        def element(i, j):
            lines = [
                tirx.if_then_else(j < 2, x(row, j + (width - 2)), x(row, j - 2))
                for row in (i + (ROWS - 4), i - 4)
            ]
            return tirx.if_then_else(i < 4, *lines).astype("float32") * 2

        return te.compute((ROWS, width), element, name="rolled")

    case = of(make, lambda x: np.roll(x, (4, 2), (0, 1)) * 2, shapes=((ROWS, width),))
    check(case, orders=2)
    source = cuda_of(the_kernel(case.module))
    assert source[source.rindex("_out_ptr[8];") :].count("p0_ptr[") == 1


def test_branches_of_several_tensors_or_asked_of_memory_stay():
    def make(x, y):
        def element(i, j):
            chosen = tirx.if_then_else(i < 4, x(i, j + 1), y(i, j))
            asked = tirx.if_then_else(y(i, j) > 0, x(i, j + 1), x(i, j))
            return chosen + asked

        return te.compute((ROWS, COLUMNS - 1), element, name="chosen")

    def expected(x, y):
        x, here, y = x[:, 1:], x[:, :-1], y[:, :-1]
        rows = np.arange(ROWS)[:, None]
        return np.where(rows < 4, x, y) + np.where(y > 0, x, here)

    shapes = ((ROWS, COLUMNS), (ROWS, COLUMNS))
    check(of(make, expected, ("float32", "float32"), shapes), orders=2)
