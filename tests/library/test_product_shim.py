"""The shim multiplies what it is told to, and says what is wrong: against a stand-in library."""

import threading
from functools import partial

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from library_stand_in import folder, made_by_threads, stand_in

from tvm_stitch.library import locate, shim

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# What rounding of the output allows, the factors being rounded already.
CLOSE = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}
ACTIVATIONS = {0: lambda x: x, 1: lambda x: np.maximum(x, 0), 2: lambda x: gelu(x)}


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.fixture
def seen(monkeypatch):
    with stand_in(monkeypatch) as found:
        yield found


def tensor(array):
    """An array for TVM's FFI, which shares its memory."""
    if array.dtype == ml_dtypes.bfloat16:
        return tvm.runtime.tensor(array)
    return tvm_ffi.from_dlpack(array)


def multiply(
    left, right, output="float32", bias=None, residual=None, activation=0,
    left_by_depth=True, right_by_depth=False, workspace=64, scale=1.0, timed=False,
    in_place=False, tf32=False,
):  # fmt: skip
    """left [batch, rows, depth] by right [batch, depth, columns], laid out as is said.

    In place, what is added is where the result comes to be.
    """
    (batch, rows, depth), columns = left.shape, right.shape[-1]
    left = left if left_by_depth else left.swapaxes(1, 2)
    right = right.swapaxes(1, 2) if right_by_depth else right
    arrays = [np.ascontiguousarray(left), np.ascontiguousarray(right), bias, residual]
    result = tensor(np.full((batch, rows, columns), 7, TYPES[output]))
    tensors = [None if array is None else tensor(array) for array in arrays]
    if in_place:
        result = tensors[3]
    shim.function("matmul")(
        *tensors, result, tensor(np.zeros(workspace, np.uint8)),
        left.itemsize * 8, np.dtype(TYPES[output]).itemsize * 8, left.dtype == TYPES["bfloat16"],
        1, batch, rows, columns, depth,
        0, int(left_by_depth), left.shape[2], rows * depth, 0,
        0, int(right_by_depth), right.shape[2], depth * columns, 0,
        columns, rows * columns, 0, activation, tf32, timed, scale,
    )  # fmt: skip
    return (result.numpy() if hasattr(result, "numpy") else np.from_dlpack(result)).astype(float)


def factors(dtype, batch=1, rows=5, depth=7, columns=3):
    random = np.random.default_rng(0)
    left, right = (
        random.normal(size=(batch, rows, depth)),
        random.normal(size=(batch, depth, columns)),
    )
    return left.astype(TYPES[dtype]), right.astype(TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("left_by_depth", [True, False])
@pytest.mark.parametrize("right_by_depth", [True, False])
@pytest.mark.parametrize("batch", [1, 4])
def test_layouts(seen, dtype, left_by_depth, right_by_depth, batch):
    left, right = factors(dtype, batch)
    found = multiply(left, right, dtype, left_by_depth=left_by_depth, right_by_depth=right_by_depth)
    exact = left.astype(float) @ right.astype(float)
    assert found == pytest.approx(exact, rel=CLOSE[dtype], abs=CLOSE[dtype])


@pytest.mark.parametrize(
    ("dtype", "output"),
    [("float16", "float16"), ("bfloat16", "bfloat16"), *((dtype, "float32") for dtype in TYPES)],
)
def test_types_of_output(seen, dtype, output):
    left, right = factors(dtype)
    exact = left.astype(float) @ right.astype(float)
    assert multiply(left, right, output) == pytest.approx(exact, rel=CLOSE[output], abs=1e-3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("with_residual", [True, False])
def test_epilogues(seen, dtype, activation, with_bias, with_residual):
    left, right = factors(dtype, 2)
    random = np.random.default_rng(1)
    bias = random.normal(size=3).astype(TYPES[dtype]) if with_bias else None
    residual = random.normal(size=(2, 5, 3)).astype(TYPES[dtype]) if with_residual else None
    found = multiply(left, right, dtype, bias, residual, activation)
    exact = left.astype(float) @ right.astype(float)
    exact = exact + (bias.astype(float) if with_bias else 0)
    exact = ACTIVATIONS[activation](exact + (residual.astype(float) if with_residual else 0))
    assert found == pytest.approx(exact, rel=CLOSE[dtype], abs=CLOSE[dtype])


def test_factors_of_float32_are_rounded_to_tf32_on_request(seen):
    """Products are kept apart by that, and what multiplies by NumPy rounds alike."""
    left, right = factors("float32", depth=64)
    exact = left.astype(float) @ right.astype(float)
    rounded = rounded_to_tf32(left) @ rounded_to_tf32(right)
    assert np.abs(rounded - exact).max() > 1e-4
    for tf32, expected in ((False, exact), (True, rounded), (False, exact)):
        assert multiply(left, right, tf32=tf32) == pytest.approx(expected, abs=1e-5)


def rounded_to_tf32(array):
    """With 10 bits of mantissa behind the first, in float64."""
    mantissa, exponent = np.frexp(array.astype(float))
    return np.ldexp(np.floor(np.ldexp(mantissa, 11) + 0.5), exponent - 11)


def test_the_clock_chooses_an_algorithm_where_it_is_asked_to(seen, captures):
    """Of those that the library says are possible, and that can run; each is run four times."""
    left, right = factors("float32", rows=6)
    exact = left.astype(float) @ right.astype(float)
    for timed, algorithm in ((False, 42), (True, 43)):
        before = seen.multiplied
        assert multiply(left, right, timed=timed) == pytest.approx(exact, rel=1e-5, abs=1e-5)
        assert seen.algorithm == algorithm
        assert seen.multiplied == before + (2 * 4 + 1 + 1 if timed else 1)
        multiply(left, right, timed=timed)
        assert seen.algorithm == algorithm and seen.multiplied == before + (11 if timed else 2)


def test_a_long_product_keeps_what_the_heuristics_chose(seen, captures, monkeypatch):
    """What it takes for a while is not what a few calls take."""
    monkeypatch.setenv("STAND_IN_SLOW", "1")
    left, right = factors("float32", rows=9)
    before = seen.multiplied
    multiply(left, right, timed=True)
    assert seen.algorithm == 42 and seen.multiplied == before + 4 + 1


def test_what_is_captured_is_timed_later(seen, captures):
    left, right = factors("float32", rows=8)
    captures.value = 1
    multiply(left, right, timed=True)
    assert seen.algorithm == 42
    captures.value = 0
    multiply(left, right, timed=True)
    assert seen.algorithm == 43


def test_what_is_added_in_place_is_added_once(seen, captures):
    left, right = factors("float32", rows=9)
    residual = np.ones((1, 9, 3), "float32")
    found = multiply(left, right, residual=residual, timed=True, in_place=True)
    exact = left.astype(float) @ right.astype(float) + 1
    assert found == pytest.approx(exact, rel=1e-5, abs=1e-5) and seen.algorithm == 42


def test_an_algorithm_is_chosen_once_for_each_product_and_thread(seen):
    left, right = factors("float32")
    multiply(left, right)
    before = seen.chosen, seen.created
    multiply(left, right)
    assert (seen.chosen, seen.created) == before
    other = threading.Thread(target=multiply, args=(left, right))
    other.start()
    other.join()
    assert (seen.chosen, seen.created) == (before[0] + 1, before[1] + 1)
    multiply(*factors("float32", rows=6))
    assert seen.chosen == before[0] + 2


def test_a_thread_has_what_one_before_has_left(seen):
    left, right = factors("float32", rows=11)
    multiply(left, right)
    run = partial(multiply, left, right)
    assert not made_by_threads(lambda: (seen.chosen, seen.created), run)


def test_partial_sums_stay_in_float32_and_workspace_is_what_it_is_given(seen):
    multiply(*factors("float16", rows=9), "float16", workspace=1 << 12)
    assert (seen.reduction, seen.workspace) == (2, 1 << 12)


def test_the_stream_is_the_callers(seen):
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cpu", 0), 0x5EA):
        multiply(*factors("float32"))
    assert seen.stream == 0x5EA
    multiply(*factors("float32"))
    assert seen.stream == 0


def test_errors_say_what_the_library_says_of_which_product(seen, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "matmul")
    said = r"4 times 5x7 by 7x3, float16 to float16, bias, GELU\): the requested functionality"
    with pytest.raises(RuntimeError, match=said):
        multiply(*factors("float16", 4), "float16", np.zeros(3, np.float16), activation=2)
    monkeypatch.setenv("STAND_IN_FAILS", "heuristic")
    with pytest.raises(RuntimeError, match="no algorithm for this product: 8x7 by 7x3"):
        multiply(*factors("float32", rows=8))


def test_tensors_that_do_not_fit_are_refused(seen):
    left, right = factors("float32")
    with pytest.raises(ValueError, match="other sizes than their product: 5x7 by 7x3"):
        multiply(left, right, bias=np.zeros(4, np.float32))
    with pytest.raises(TypeError, match="of another type than its product: 5x7 by 7x3, float32"):
        multiply(left, right.astype(np.float16))


def test_heads_that_lie_side_by_side_take_a_call_each(seen):
    batch, length, heads, size = 2, 6, 3, 4
    random = np.random.default_rng(2)
    q, k = (random.normal(size=(batch, length, heads, size)).astype(np.float32) for _ in range(2))
    result = tensor(np.zeros((batch, heads, length, length), np.float32))
    whole, line = length * heads * size, heads * size
    place = 0, 1, line, whole, size
    before = seen.multiplied
    shim.function("matmul")(
        tensor(q), tensor(k), None, None, result, tensor(np.zeros(64, np.uint8)), 32, 32, False,
        heads, batch, length, length, size, *place, *place,
        length, heads * length**2, length**2, 0, False, False, 1.0,
    )  # fmt: skip
    assert seen.multiplied == before + heads
    exact = np.einsum("bihd,bjhd->bhij", q.astype(float), k.astype(float))
    assert np.from_dlpack(result) == pytest.approx(exact, rel=1e-5, abs=1e-5)


def test_rows_of_a_batch_that_lie_by_turns(seen):
    """As of sentences that are transposed: words first, and back again."""
    batch, rows, depth, columns = 3, 5, 7, 4
    random = np.random.default_rng(3)
    left = random.normal(size=(rows, batch, depth)).astype(np.float32)
    right = random.normal(size=(depth, columns)).astype(np.float32)
    residual = random.normal(size=(rows, batch, columns)).astype(np.float32)
    result = tensor(np.zeros((rows, batch, columns), np.float32))
    shim.function("matmul")(
        tensor(left), tensor(right), None, tensor(residual), result,
        tensor(np.zeros(64, np.uint8)), 32, 32, False, 1, batch, rows, columns, depth,
        0, 1, batch * depth, depth, 0, 0, 0, columns, 0, 0,
        batch * columns, columns, 0, 0, False, False, 1.0,
    )  # fmt: skip
    exact = left.astype(float) @ right.astype(float) + residual
    assert np.from_dlpack(result) == pytest.approx(exact, rel=1e-5, abs=1e-5)


def test_a_scale(seen):
    left, right = factors("float32")
    found = multiply(left, right, bias=np.ones(3, np.float32), scale=0.125)
    assert found == pytest.approx(left.astype(float) @ right.astype(float) / 8 + 1, rel=1e-5)


def test_nothing_to_multiply(seen):
    assert multiply(*factors("float32", rows=0)).shape == (1, 0, 3)


def test_a_missing_library_says_what_to_install(monkeypatch, tmp_path):
    for folder_, reason in ((str(tmp_path), "cannot be opened here: pip"), ("off", ".* forbids")):
        monkeypatch.setenv(locate.FOLDER, folder_)
        shim.use_found(shim.load())
        with pytest.raises(RuntimeError, match=f"calls cuBLASLt, which {reason}"):
            multiply(*factors("float32"))
    assert "pip install nvidia-cublas" in shim.unusable(locate.CUBLASLT)


def test_a_folder_is_searched_alone(monkeypatch, tmp_path):
    monkeypatch.setenv(locate.FOLDER, str(tmp_path))
    assert locate.find(locate.CUBLASLT) is None
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    assert locate.find(locate.CUBLASLT) == folder() / "libcublasLt.so.13"
    monkeypatch.setenv(locate.FOLDER, str(tmp_path / "none"))
    with pytest.raises(locate.InputError, match="must name a folder"):
        locate.find(locate.CUBLASLT)


def test_the_loaders_path_is_searched(monkeypatch):
    monkeypatch.delenv(locate.FOLDER)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    assert locate.find(locate.CUBLASLT) is not None
