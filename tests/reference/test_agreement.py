"""How far an element may be off: by its dtype, and by what rounding can do to it."""

import numpy as np
import pytest
from check import DTYPES, H200
from tvm import relax
from tvm.relax import op
from zoo import graph, graph_of, rounded, softmax

from tvm_stitch import verify
from tvm_stitch.reference import reference
from tvm_stitch.reference.agreement import SHARE, judge
from tvm_stitch.reference.rounding import RoundedAtRandom

NAN, INF = np.nan, np.inf


def wrong(got, exact, runs=(), dtype="float32"):
    """Which elements are judged wrong."""
    arrays = [np.asarray(each, "float64") for each in (got, exact, *runs)]
    return judge(arrays[0], arrays[1], arrays[2:], dtype).wrong.tolist()


def runs_of(case, count=8, **settings):
    """Outputs of runs that rounded at random, one list a run."""
    machine = RoundedAtRandom(case.module, **settings)
    return [machine.run(case.arrays, seed) for seed in range(count)]


# The rule


def test_one_large_element_does_not_hide_the_rest():
    assert wrong([1e9, 1.001, 1.0], [1e9, 1.0, 1.0]) == [False, True, False]


@pytest.mark.parametrize(
    "dtype, unit", [("float32", 2**-24), ("float16", 2**-11), ("bfloat16", 2**-8)]
)
def test_a_few_units_of_roundoff(dtype, unit):
    exact = np.array([1.0, -3.0, 1e-3])
    assert wrong(exact * (1 + 3.9 * unit), exact, (), dtype) == [False] * 3
    assert wrong(exact * (1 + 5 * unit), exact, (), dtype) == [True] * 3


def test_what_is_no_finite_number_agrees_in_place():
    exact = [NAN, INF, -INF, 1.0, NAN, 1.0, INF, INF]
    assert wrong([NAN, INF, -INF, NAN, 1.0, INF, -INF, NAN], exact) == [False] * 3 + [True] * 5


def test_what_is_too_large_for_the_dtype_is_infinite():
    exact = [1e6, -1e6, 1e6, 1e6, 65504, 65519, 60000]
    got = [INF, -INF, -INF, 65504, 65504, INF, INF]
    assert wrong(got, exact, (), "float16") == [False, False, True, True, False, False, True]


def test_what_is_too_small_may_be_flushed():
    assert wrong([0, 0, 1e-30], [1e-39, 1e-30, 1e-39]) == [False, True, True]


def test_either_side_of_a_jump_counts():
    runs = [[2.0, 2.0], [3.0, 2.0], [2.0, 2.0]]
    assert wrong([3.0, 3.0], [2.0, 2.0], runs) == [False, True]
    assert judge(
        np.array([3, 3, 4]), np.array([2, 2, 2]), [np.array([3, 2, 3])], "int64"
    ).wrong.tolist() == [
        False,
        True,
        True,
    ]


def test_any_number_of_candidates():
    exact, got = np.zeros(3), np.array([0.0, 99.0, 7.0], "float32")
    runs = [np.full(3, float(n)) for n in range(100)]
    assert judge(got, exact, runs, "float32").error.tolist() == [0.0, 0.0, 0.0]


def test_what_rounding_moves_far_is_bound_all_the_same():
    """Nothing is allowed because the runs know nothing."""
    exact, runs = [1.0, 1.0], [[1e9, NAN], [-1e9, INF], [0.0, 1.0]]
    assert wrong([2.6e8 + 1e9, INF], exact, [], "float32") == [True, True]
    found = judge(np.array([5e8, 2.0]), np.array(exact), [np.array(run) for run in runs], "float32")
    assert np.isfinite(found.allowed).all()
    assert (found.allowed <= SHARE * 1e9 * 1.001).all() and found.wrong.tolist() == [True, True]


# The runs


def test_what_is_exact_stays_exact():
    values = np.arange(-100.0, 100.0).reshape(4, 50)
    case = graph_of(
        [((4, 50), "float32", values)],
        lambda emit, x: (
            emit(op.sum(emit(op.multiply(x, relax.const(0.5, "float32"))), axis=1)),
            emit(op.floor(x)),
            emit(op.nn.relu(x)),
        ),
        lambda x: ((x * 0.5).sum(1), np.floor(x), np.maximum(x, 0)),
    )
    for run in runs_of(case, 2):
        for got, want in zip(run, case.expected, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_is_off_by_the_dtype(dtype):
    case = graph(dtype, [(40, 50)], lambda emit, x: emit(op.multiply(x, x)), lambda x: x * x)
    unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    (exact,) = case.expected
    errors = np.stack([np.abs(run[0] - exact) / exact for run in runs_of(case)])
    assert errors.max() <= 2 * unit and errors.max() > unit
    assert len({run[0].tobytes() for run in runs_of(case)}) == 8
    assert runs_of(case, 1)[0][0].tobytes() == runs_of(case, 1)[0][0].tobytes()


def test_intermediate_results_overflow():
    def build(emit, x):
        return emit(op.sqrt(emit(op.multiply(x, x))))

    case = graph_of([((3,), "float16", np.array([3.0, 250.0, 300.0]))], build, np.abs)
    assert np.isfinite(runs_of(case, 1)[0][0]).tolist() == [True, True, False]


def test_sums_of_halves_are_wide_unless_the_kernel_is_not():
    values = rounded(np.random.default_rng(0).random((4, 2000)), "float16")
    case = graph_of(
        [((4, 2000), "float16", values)],
        lambda emit, x: emit(op.sum(x, axis=1)),
        lambda x: x.sum(1),
    )
    wide, narrow = (
        np.std([run[0] for run in runs_of(case, narrow_sums=sums)], axis=0)
        for sums in (False, True)
    )
    assert (narrow > 100 * wide).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_that_tvm_has_not_for_the_dtype(dtype):
    case = graph(
        dtype,
        [(4, 50), (50,), (50,)],
        lambda emit, x, w, b: emit(op.nn.layer_norm(x, w, b, axes=[-1])),
        lambda x, w, b: (
            (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b
        ),
    )
    (run,) = runs_of(case, 1)
    np.testing.assert_allclose(run[0], case.expected[0], atol=0.2)


# Both together


def cancelling():
    """What is left of large values is nothing but rounding."""

    def build(emit, x):
        mean = emit(op.mean(x, axis=1, keepdims=True))
        return emit(op.mean(emit(op.subtract(x, mean)), axis=1))

    return graph("float32", [(6, 300)], build, lambda x: 0 * x.mean(1))


def test_what_cancels_may_be_off_by_what_its_terms_are():
    found = verify(cancelling().module, H200)
    assert found.ok and 0 < found.errors[0].error <= found.errors[0].tolerance < 1e-6


def test_a_wrong_value_beside_ones_that_cancel_is_found():
    case = cancelling()
    (exact,) = reference(case.module, case.arrays)
    near = [run[0] for run in runs_of(case)]
    assert wrong(exact + 3e-9, exact, near) == [False] * 6
    assert wrong(exact + 1e-6, exact, near) == [True] * 6


def test_comparisons_that_rounding_decides():
    """x * 3 / 3 is x, or just below: either counts, on every element."""
    three = relax.const(3.0, "float32")

    def build(emit, x):
        y = emit(op.divide(emit(op.multiply(x, three)), three))
        return emit(op.floor(y)), emit(op.greater_equal(y, x)), emit(op.astype(y, "int32"))

    values = rounded(np.random.default_rng(1).random((20, 50)) * 8, "float32")
    values[:, ::2] = np.round(values[:, ::2])
    case = graph_of([((20, 50), "float32", values)], build, lambda x: ())
    assert verify(case.module, H200, case.arrays).ok


def test_a_column_of_zeros_is_not_within_the_tolerance_of_a_softmax():
    """Small elements beside large ones are compared by themselves."""
    x = np.zeros((4, 50))
    x[:, 0] = 12.0
    case = softmax("float32", 4, 50)
    (exact,) = reference(case.module, [x.astype("float32")])
    got = exact.copy()
    got[:, 1:] = 0.0
    assert np.abs(got - exact).max() < 1e-5
    assert np.array(wrong(got.ravel(), exact.ravel())).reshape(4, 50)[:, 1:].all()


def test_sums_that_only_one_order_makes_exact():
    """A kernel may sum in another order than the one whose partial sums happen to fit."""
    values = np.array([[1.0, 2.0**-23, 1.0 + 2.0**-23, -(2.0**-23)]], "float32")
    case = graph_of(
        [((1, 4), "float32", values)],
        lambda emit, x: emit(op.sum(x, axis=1)),
        lambda x: x.sum(1),
    )
    near = [run[0] for run in runs_of(case)]
    assert len({float(run[0]) for run in near}) > 1


def test_sums_that_every_order_makes_exact():
    values = np.arange(12.0).reshape(2, 6)
    case = graph_of(
        [((2, 6), "float32", values)], lambda emit, x: emit(op.sum(x, axis=1)), lambda x: x.sum(1)
    )
    for run in runs_of(case):
        np.testing.assert_array_equal(run[0], case.expected[0])
