"""Rounds that read their data once for all of its reductions, and once more for the result."""

from dataclasses import replace

import numpy as np
import pytest
from across_rows import programs_of
from check import H200, TOGETHER, check, the_kernel
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, graph_of

from tvm_stitch import Options, simt, transform
from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of
from tvm_stitch.kernel.cooperative import split_reduction
from tvm_stitch.kernel.rows import kind

pytestmark = pytest.mark.usefixtures("grid_barriers")


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """A device of two multiprocessors, and rows that are long for it."""

    def found(target):
        return replace(device_of(target), multiprocessors=2)

    monkeypatch.setattr(transform, "device_of", found)
    monkeypatch.setattr(kind, "LONG_ROW", 1 << 10)
    monkeypatch.setattr(split_reduction, "CHUNK", 1 << 10)


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


@pytest.mark.spread(2)
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


@pytest.mark.spread(2)
@pytest.mark.parametrize("images", (2, 9, 70))
def test_segments_of_any_number_of_images(images):
    """Each channel's moments: of as many values as all images have, not of one for each image."""

    def build(emit, x):
        centred = emit(op.subtract(x, emit(op.mean(x, [0, 2], keepdims=True))))
        return emit(op.mean(x, [0, 2])), emit(op.mean(emit(op.multiply(centred, centred)), [0, 2]))

    shape = (tirx.Var("n", "int64"), images), 40, 24
    case = graph("float32", [shape], build, lambda x: (x.mean((0, 2)), x.var((0, 2))))
    check(case, options=TOGETHER, orders=2)


def softmax_of(shape: tuple[int, ...], axis: int, values: np.ndarray | None = None) -> Case:
    """Softmax over an axis, of given values."""

    def build(emit, x):
        moved = emit(op.exp(emit(op.subtract(x, emit(op.max(x, axis=axis, keepdims=True))))))
        return emit(op.divide(moved, emit(op.sum(moved, axis=axis, keepdims=True))))

    def expected(x):
        with np.errstate(invalid="ignore"):
            moved = np.exp(x - x.max(axis=axis, keepdims=True))
            return moved / moved.sum(axis=axis, keepdims=True)

    return graph_of([(shape, "float32", values)], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((4096, 1), 0),
        ((1000, 7), 0),
        ((160, 33), 0),
        ((40, 1027), 0),
        ((62, 8, 40), 0),
        ((3, 64, 40), 1),
        ((2, 1000, 31), 1),
        ((1, 9000), 1),
        ((3, 7 * 1027), 1),
    ],
)
def test_maxima_and_the_sums_behind_them(shape, axis):
    case = softmax_of(shape, axis)
    programs, _ = programs_of(case)
    assert [program.round for program in programs] == [0, 1, 2]
    check(case, options=TOGETHER, orders=2)


@pytest.mark.parametrize("axis, shape", [(0, (7, 1000)), (1, (4, 9000))])
def test_values_that_are_not_finite(axis, shape):
    """Next to nothing but minus infinity; nothing else, a not-a-number, plus infinity."""
    x = np.random.default_rng(1).standard_normal(shape)
    x[0, :-1] = -np.inf
    x[1, 100:] = -np.inf
    x[2, ::2] = -np.inf
    x = x if axis else np.ascontiguousarray(x.T)
    check(softmax_of(x.shape, axis, x), options=TOGETHER, orders=1)
    x = np.zeros(shape)
    x[0], x[1, 77], x[2, 200] = -np.inf, np.nan, np.inf
    x = x if axis else np.ascontiguousarray(x.T)
    kernel = the_kernel(softmax_of(x.shape, axis, x).module, options=TOGETHER)
    arrays = [np.zeros(tuple(map(int, p.ty.shape)), "float32") for p in kernel.params]
    arrays[0][...] = x
    with lowering_context():
        assert simt.Function(kernel, H200)(arrays).ok
    found = np.isnan(arrays[1]).all(axis)
    np.testing.assert_array_equal(found, [True] * 3 + [False] * (len(found) - 3))


def test_values_far_apart():
    """Exponentials of one partial are nothing beside those of another, whichever comes first."""
    x = np.random.default_rng(2).standard_normal((1000, 6)) * 50
    x[:, 0], x[:, 1] = np.linspace(-3e4, 3e4, 1000), np.linspace(3e4, -3e4, 1000)
    x[:, 2], x[:, 3] = 7, np.where(np.arange(1000) == 999, 1e30, -1e30)
    check(softmax_of(x.shape, 0, x), options=TOGETHER, orders=2)


def followed(*shapes: tuple[int, ...]) -> Case:
    """Averages that follow weights, and the norm of what lies between them, tensor by tensor."""
    count = len(shapes)

    def build(emit, *tensors):
        kept, norms = [], []
        for average, weight in zip(tensors[:count], tensors[count:], strict=True):
            apart = emit(op.subtract(weight, average))
            step = emit(op.multiply(apart, relax.const(0.125, "float32")))
            kept.append(emit(op.add(average, step)))
            norms.append(emit(op.sqrt(emit(op.sum(emit(op.multiply(apart, apart)))))))
        return *kept, *norms

    def expected(*tensors):
        pairs = list(zip(tensors[:count], tensors[count:], strict=True))
        kept = [a + (w - a) * 0.125 for a, w in pairs]
        return *kept, *[np.sqrt(((w - a) ** 2).sum()) for a, w in pairs]

    return graph_of([(shape, "float32", None) for shape in (*shapes, *shapes)], build, expected)


@pytest.mark.slow
def test_unrelated_kernels_meet_at_the_same_barriers():
    """Tensors of several sizes in rounds, one of which is as another."""
    few = Options(launch_us=20.0)  # launches worth sharing, whatever kernels take
    check(followed((32, 1031), (8192,), (3, 8192), (8192,)), kernels=2, options=few, orders=2)
    check(followed((9973,), (3, 4000), (2, 9000)), kernels=2, options=few, orders=1)


def over_column_sums(dtype: str, shape: tuple[int, int]) -> Case:
    """Softmax along rows, divided by its column sums."""

    def build(emit, x):
        h = x if dtype == "float32" else emit(op.astype(x, "float32"))
        moved = emit(op.exp(emit(op.subtract(h, emit(op.max(h, axis=1, keepdims=True))))))
        attention = emit(op.divide(moved, emit(op.sum(moved, axis=1, keepdims=True))))
        total = emit(op.sum(attention, axis=0, keepdims=True))
        return emit(op.astype(emit(op.divide(attention, total)), dtype))

    def expected(x):
        moved = np.exp(x - x.max(axis=1, keepdims=True))
        attention = moved / moved.sum(axis=1, keepdims=True)
        return attention / attention.sum(axis=0, keepdims=True)

    return graph_of([(shape, dtype, None)], build, expected)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("shape", [(4000, 33), (777, 300), (1600, 96), (264, 1027)])
@pytest.mark.slow
def test_rows_and_their_columns_in_one_pass(shape, dtype):
    case = over_column_sums(dtype, shape)
    programs, _ = programs_of(case)
    assert [program.round for program in programs] == [0, 1, 2]
    assert programs[0].row_reductions and programs[0].column_reductions
    check(case, options=TOGETHER, orders=2)
