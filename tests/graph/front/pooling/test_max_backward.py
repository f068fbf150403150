"""The gradient of largest elements is one kernel, with what is element-wise around it."""

import numpy as np
import pytest
from check import check
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, Graph


def pairs(*how):
    return [[each, each] if isinstance(each, int) else list(each) for each in how]


def windows(extent, size, stride, padding, ceil):
    span = extent + 2 * padding - size
    return (span + (stride - 1 if ceil else 0)) // stride + 1


def of_largest(x, given, size, stride, padding):
    """To the first of the largest of each window of the two last axes."""
    found = np.zeros_like(x)
    for *image, row, column in np.ndindex(given.shape):
        first = [n * s - p for n, s, p in zip((row, column), stride, padding, strict=True)]
        rows, columns = (
            range(max(start, 0), min(start + length, extent))
            for start, length, extent in zip(first, size, x.shape[-2:], strict=True)
        )
        if not (rows and columns):
            continue
        inside = x[(*image, slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))]
        place = np.unravel_index(np.argmax(inside), inside.shape)
        found[(*image, rows[place[0]], columns[place[1]])] += given[(*image, row, column)]
    return found


def backward(dtype, shape, how, ceil=False, layout="NCHW", around=False, symbols=()) -> Case:
    """Of `shape` with its channels in front; `around` with element-wise stages, as a layer has."""
    size, stride, padding = pairs(*how)
    counts = [windows(*each, ceil) for each in zip(shape[2:], size, stride, padding, strict=True)]
    g, to = Graph(), [layout.index(each) for each in "NCHW"]
    order = np.argsort(to)

    def laid_out(array):
        return np.transpose(array, order)

    image = np.random.default_rng(3).standard_normal(shape).round()  # some are equal
    names = dict(zip(range(4), symbols, strict=False))
    declared = [
        (names[n], extent) if names.get(n) is not None else extent for n, extent in enumerate(shape)
    ]
    x = g.input("x", tuple(declared[n] for n in order), dtype, laid_out(image))
    grads = [*declared[:2], *counts]
    for n, symbol in names.items():
        if n >= 2 and symbol is not None:
            grads[n] = (
                (symbol + (2 * padding[n - 2] - size[n - 2])) // stride[n - 2] + 1,
                counts[n - 2],
            )
    given = g.input("given", tuple(grads[n] for n in order), dtype)

    def build(emit, x, given):
        if around:
            x, given = emit(op.nn.relu(x)), emit(op.multiply(given, relax.const(0.5, dtype)))
        dx = emit(
            op.grad.max_pool2d_backward(
                given, x, size, stride, padding * 2, ceil_mode=ceil, layout=layout
            )
        )
        return emit(op.add(dx, x)) if around else dx

    inner, outer = np.transpose(x, to), np.transpose(given, to)
    inner, outer = (np.maximum(inner, 0), outer / 2) if around else (inner, outer)
    expected = of_largest(inner, outer, size, stride, padding)
    return g.case(build, laid_out(expected + inner if around else expected))


# Where windows overlap, they are looked at once; TVM has two kernels of either.
POOLED = {(2, 2, 0): 1, ((3, 2), (3, 4), (1, 0)): 1, (3, 2, 1): 2, (3, 1, 1): 2, (5, 3, 2): 2}


# Its branches take g++ some seconds.
SLOW = ((3, 2), (3, 4), (1, 0))
HOWS = [pytest.param(how, marks=pytest.mark.slow) if how == SLOW else how for how in POOLED]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_gradients(how, ceil, dtype):
    check(backward(dtype, (1, 3, 9, 7), how, ceil), POOLED[how], orders=2)


@pytest.mark.slow
@pytest.mark.parametrize("how", [(2, 2, 0), (3, 2, 1)])
@pytest.mark.parametrize("count, rows", [(1, 4), (3, 31)])
def test_of_symbolic_batches_and_planes(count, rows, how):
    symbols = (tirx.Var("batch", "int64"), None, tirx.Var("height", "int64"))
    case = backward("float32", (count, 2, rows, 6), how, symbols=symbols)
    check(case, POOLED[how], orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "how, launches", [((2, 2, 0), 1), pytest.param((3, 2, 1), 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_with_what_is_around_them(layout, how, launches, dtype):
    """What is computed of an image first is computed again, where windows overlap."""
    case = backward(dtype, (2, 8, 12, 31), how, layout=layout, around=True)
    check(case, launches, orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("how", [(2, 2, 0), (3, 2, 1)])
@pytest.mark.parametrize("plane", [(2, 2), (7, 31), (33, 5), (3, 1000)])
def test_sizes(plane, how):
    check(backward("float32", (1, 2, *plane), how), POOLED[how], orders=2)
