"""Rows added into a table where indices say: right, in any order of threads, and no atomics."""

import re

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

import tvm_stitch
from tvm_stitch.errors import InputError
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.kernel.scattered import kind as scattered_kind
from tvm_stitch.kernel.scattered.lists import layout
from tvm_stitch.options import SCHEMES
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

TARGET = full_target("nvidia/nvidia-h100")


def module(table, places, depth, dtype="float32", index="int64"):
    places = tuple(tirx.Var(n, "int64") if isinstance(n, str) else n for n in places)
    params = [
        relax.Var("table", relax.TensorType(table, dtype)),
        relax.Var("indices", relax.TensorType((*places, depth), index)),
        relax.Var("updates", relax.TensorType((*places, *table[depth:]), dtype)),
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(op.scatter_nd(*params, "add"))
        builder.emit_func_output(output)
    return builder.get()


def check(table, places, depth=1, dtype="float32", index="int64", rows=None, orders=2, sized=()):
    mod = module(table, sized or places, depth, dtype, index)
    random = np.random.default_rng(0)
    data = random.normal(size=table).astype(dtype)
    indices = np.stack(
        [random.integers(0, min(n, rows or n), places) for n in table[:depth]], -1
    ).astype(index)
    updates = random.normal(size=(*places, *table[depth:])).astype(dtype)
    want = data.astype("float64")
    at = tuple(indices.reshape(-1, depth).T)
    np.add.at(want, at, updates.reshape(-1, *table[depth:]).astype("float64"))
    runner = Runner(stitched_for_cpu(mod, TARGET), TARGET)
    found = [runner.run([data, indices, updates], seed)[0] for seed in range(orders)]
    assert not runner.hazards
    assert len(runner.runs) == orders, "the executor has run it"
    for each in found:
        assert np.array_equal(each, found[0])
        np.testing.assert_allclose(each, want, rtol=1e-5, atol=1e-5)


@pytest.mark.spread(8)
@pytest.mark.parametrize("columns", [1, 7, 31, 32, 33, 100, 130, 200])
@pytest.mark.parametrize("count", [1, 7, 33, 130])
def test_rows(count, columns):
    check((50, columns), (count,))


@pytest.mark.parametrize("rows", [1, 2, 20])
def test_many_updates_of_a_row(rows):
    check((20, 40), (3, 45), rows=rows)


@pytest.mark.parametrize("count", [0, 1, 77, 9001])
@pytest.mark.parametrize("columns", [3, 40])
def test_as_many_updates_as_there_are_at_run_time(columns, count):
    check((37, columns), (count,), sized=("updates",), orders=1)


@pytest.mark.parametrize(
    ("sized", "many"),
    [
        (("batch", "length"), [(1, 1), (3, 7), (8, 1), (2, 64), (0, 5), (5, 0)]),
        (("batch", 7), [(0, 7), (1, 7), (9, 7)]),
        ((3, "length"), [(3, 0), (3, 1), (3, 129)]),
    ],
)
@pytest.mark.slow
def test_updates_of_several_symbolic_dimensions(sized, many):
    for places in many:
        check((37, 12), places, sized=sized)


def test_updates_of_symbolic_dimensions_are_read_as_those_of_one():
    """Vector by vector, and their indices without a division by a symbol."""
    text = stitched_for_cpu(module((64, 256), ("batch", "length"), 1), TARGET).script()
    assert "updates_fetched" in text
    assert not re.search(r"(//|%) (batch|length)", text)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 37])
def test_lists_that_have_no_room_for_updates_at_run_time(rows):
    count = 17_000
    assert count * np.dtype("int64").itemsize > layout.LIST_BYTES
    check((37, 40), (count,), sized=("updates",), rows=rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sized", "most", "more"),
    [(("n",), (40,), (41,)), (("n", 4), (10, 4), (11, 4)), ((2, "n", "m"), (2, 4, 5), (2, 3, 7))],
)
def test_more_updates_than_are_numbered(monkeypatch, sized, most, more):
    """Of sizes that only run time knows: the host says so, before it launches anything."""
    monkeypatch.setattr(scattered_kind, "MOST_UPDATES", 40)
    check((9, 3), most, sized=sized)
    with pytest.raises(InputError, match="sums at most 40 updates of a table's rows"):
        check((9, 3), more, sized=sized)


def test_several_indices_and_dimensions():
    check((4, 5, 3, 2), (6, 7), depth=2, index="int32")
    check((9,), (40,))
    check((6, 3), (31,), dtype="int32")


def test_more_indices_than_a_block_looks_at_at_once():
    check((37, 3), (9001,), orders=1)
    check((5, 4), (4097,), rows=2, orders=1)


@pytest.mark.parametrize(
    ("dtype", "schemes"), [("float64", SCHEMES), ("float32", ("local", "global"))]
)
def test_what_cannot_be_stitched_is_not_rows_times_updates(dtype, schemes):
    options = tvm_stitch.Options(schemes=schemes)
    rows, count, columns = 3000, 500, 256
    mod = module((rows, columns), (count,), 1, dtype)
    kernels = tvm_stitch.explain(mod, TARGET, options).kernels
    assert [kernel.scheme for kernel in kernels] == ["default"] * 2  # a copy, and TVM's own loop


def test_others_are_tvms():
    for how in ((3, 1 << 14), (5,), 1, "float32"), ((1 << 21, 2), (9,), 1, "float32"):
        stitched = stitched_for_cpu(module(*how), TARGET)
        text = stitched.script()
        assert "tvm_stitch_sort" not in text
