"""The largest and the smallest of what indices send to rows, whoever makes the lists."""

from dataclasses import replace

import numpy as np
import pytest
from check import H200, check, schedule_by
from tvm import relax
from tvm.relax import op
from zoo import graph_of

from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.scattered.mapping import Scattered
from tvm_stitch.verify import rounded, stitched_for_cpu

SORTED_OUT = Scattered(4, 16, 1, 2, blocks=6, partitioned=True)
SCANNED = replace(SORTED_OUT, partitioned=False)
IDLE = replace(SORTED_OUT, threads=32, rows=2, idle=28)
UFUNCS = {"max": np.maximum, "min": np.minimum, "add": np.add}


def extremes(reduction, rows, indices, columns=5, dtype="float32", of="int64"):
    """Rows of a table, and the extreme of each and of what is sent there."""
    count = len(indices)
    rng = np.random.default_rng(count)
    updates, table = (np.round(rng.normal(0, 9, (size, columns)), 1) for size in (count, rows))

    def build(emit, at, dy, data):
        scaled = emit(op.multiply(dy, relax.const(2.0 if "float" in dtype else 2, dtype)))
        return emit(op.negative(emit(op.scatter_nd(data, at, scaled, reduction))))

    def expected(at, dy, data):
        found, at = data.copy(), at[:, 0].astype(int)
        UFUNCS[reduction].at(found, at, dy * 2)
        return -found

    inputs = [((count, 1), of, np.asarray(indices).reshape(-1, 1).astype(of))]
    inputs += [
        (each.shape, dtype, each.astype(dtype) if "int" in dtype else each)
        for each in (updates, table)
    ]
    return graph_of(inputs, build, expected)


def random(rows, count):
    return np.random.default_rng(3).integers(0, rows, count)


@pytest.mark.spread(2)
@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize(
    "rows, count, columns", [(1, 1, 1), (33, 7, 31), (7, 1027, 4), (1000, 300, 33)]
)
def test_the_largest_and_the_smallest(reduction, rows, count, columns):
    check(extremes(reduction, rows, random(rows, count), columns), kernels=1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64"])
def test_in_every_type(dtype):
    check(extremes("max", 40, random(40, 300), 12, dtype), kernels=1)


@pytest.mark.spread(2)
@pytest.mark.parametrize("mapping", [SORTED_OUT, SCANNED, IDLE])
@pytest.mark.parametrize("reduction", ["max", "min"])
def test_rows_that_many_indices_name(monkeypatch, reduction, mapping):
    """Threads of a block share such rows, and blocks find the extremes of a chunk of them."""
    schedule_by(monkeypatch, lambda *_: Schedule((mapping,)))
    many = np.repeat([3, 9, 90], 400)
    indices = np.random.default_rng(5).permutation([*many, *random(100, 90)])
    check(extremes(reduction, 100, indices), kernels=1)


@pytest.mark.parametrize("mapping", [SORTED_OUT, SCANNED, IDLE])
def test_what_is_not_a_number_stays(monkeypatch, mapping):
    """Of a row that few indices name and of one that many do; infinities are numbers."""
    schedule_by(monkeypatch, lambda *_: Schedule((mapping,)))
    indices = np.repeat([3, 9, 11], [2, 800, 1])
    case = extremes("max", 100, indices)
    arrays = rounded(case.module, case.arrays)
    arrays[1][[1, 500], 2] = np.nan
    arrays[1][802] = -np.inf
    arrays[2][11], arrays[2][13] = -np.inf, np.nan
    wanted = arrays[2].copy()
    np.maximum.at(wanted, indices, arrays[1] * 2)
    runner = Runner(stitched_for_cpu(case.module, H200), H200)
    for seed in range(3):
        (got,) = runner.run(arrays, seed)
        np.testing.assert_array_equal(got, -wanted)
    assert (len(runner.ran), runner.hazards) == (3, [])


def test_extremes_and_sums_of_one_tables_rows_are_one_kernel():
    """As of a softmax over the edges that end in a node."""
    at, count = random(40, 300), 300

    def build(emit, at, x):
        zeros = emit(op.zeros(relax.ShapeExpr((40, 4)), "float32"))
        most = emit(op.scatter_nd(zeros, at, x, "max"))
        total = emit(op.scatter_nd(zeros, at, emit(op.exp(x)), "add"))
        return emit(op.divide(most, emit(op.add(total, relax.const(1.0, "float32")))))

    def expected(at, x):
        most, total, at = np.zeros((40, 4)), np.ones((40, 4)), at[:, 0].astype(int)
        np.maximum.at(most, at, x)
        np.add.at(total, at, np.exp(x))
        return most / total

    inputs = [((count, 1), "int64", at.reshape(-1, 1)), ((count, 4), "float32", None)]
    check(graph_of(inputs, build, expected), kernels=1)
