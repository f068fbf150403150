"""What several kernels read or store in vain, by regions in which it can be said."""

import pytest
from planned import read
from tvm import relax
from tvm.relax import op
from zoo import graph

from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.search.read_twice import bytes_read_twice
from tvm_stitch.stages.extents import NOMINAL

ROWS, COLUMNS = 64, 512
MATRIX, VECTOR = 4 * ROWS * COLUMNS, 4 * ROWS


def least(build, *shapes) -> int:
    """Of a graph that is one region, all of whose nodes become several kernels."""
    module = graph("float32", [(ROWS, COLUMNS), *shapes], build, lambda *_: ()).module
    (region,) = find_regions(read(module))
    return bytes_read_twice(region, region.everything, NOMINAL)


def softmax(emit, x):
    return emit(op.nn.softmax(emit(op.exp(x))))


def of_a_view(emit, x):
    shown = emit(op.reshape(emit(op.exp(x)), (COLUMNS, ROWS)))
    return emit(op.nn.softmax(shown))


def norm_of_a_sum(emit, x, y, scale):
    total = emit(op.add(emit(op.add(x, y)), scale))
    return emit(op.divide(total, emit(op.sqrt(emit(op.sum(total, axis=-1, keepdims=True))))))


def small_results(emit, x):
    """Only rows' sums leave: the last kernel may read no more than what is summed up."""
    return emit(op.sqrt(emit(op.sum(emit(op.exp(x)), axis=-1))))


def first_rows(emit, x):
    """A slice reads a part."""
    part = emit(op.strided_slice(emit(op.exp(x)), [0], [0], [1]))
    return emit(op.add(part, relax.const(1.0)))


def two_sources(emit, x, y):
    """What follows from y alone reads nothing of x."""
    return emit(op.add(emit(op.exp(x)), emit(op.sqrt(y))))


@pytest.mark.parametrize(
    ("build", "shapes", "expected"),
    [
        (softmax, [], MATRIX),
        (of_a_view, [], MATRIX),
        (norm_of_a_sum, [(ROWS, COLUMNS), (COLUMNS,)], MATRIX),
        (small_results, [], VECTOR),
        (first_rows, [], 0),
        (two_sources, [(COLUMNS,)], 0),
    ],
)
def test_all_that_follows_from_a_tensor_reads_it_once_more(build, shapes, expected):
    assert least(build, *shapes) == expected
