"""The global scheme: sums over the rows, beside what happens along them, in one kernel."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from across_rows import column_sums, norm_backward
from check import (
    DTYPES,
    H200,
    HALVES,
    TOGETHER,
    check,
    primfuncs,
    schedule_of,
    stitched,
    the_kernel,
)
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch import simt, transform
from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError

pytestmark = pytest.mark.usefixtures("grid_barriers")

COLUMNS = (1, 2, 7, 31, 32, 33, 127, 1000, 1027)


@pytest.fixture(params=("small", "whole"))
def device(request, monkeypatch):
    """A device of two multiprocessors, where blocks iterate often, and the whole H200."""
    if request.param == "small":

        def small(target):
            return replace(device_of(target), multiprocessors=2)

        monkeypatch.setattr(transform, "device_of", small)


def both_ways(dtype: str, rows: int, columns: int) -> Case:
    """One reduction along the rows, one over them, and what element-wise operators add to each."""

    def build(emit, x, w):
        scaled = emit(op.multiply(x, emit(op.exp(w))))
        along = emit(op.max(scaled, axis=-1, keepdims=True))
        moved = emit(op.subtract(scaled, along))
        over = emit(op.sum(moved, axis=0))
        return moved, along, emit(op.add(emit(op.multiply(over, over)), w))

    def expected(x, w):
        scaled = x * np.exp(w)
        along = scaled.max(axis=-1, keepdims=True)
        over = (scaled - along).sum(axis=0)
        return scaled - along, along, over * over + w

    return graph(dtype, [(rows, columns), (columns,)], build, expected)


def router(dtype: str, rows: int, columns: int) -> Case:
    """Softmax of short rows, and its column means."""

    def build(emit, x):
        moved = emit(op.exp(emit(op.subtract(x, emit(op.max(x, axis=-1, keepdims=True))))))
        gates = emit(op.divide(moved, emit(op.sum(moved, axis=-1, keepdims=True))))
        return gates, emit(op.mean(gates, axis=0))

    def expected(x):
        moved = np.exp(x - x.max(axis=-1, keepdims=True))
        gates = moved / moved.sum(axis=-1, keepdims=True)
        return gates, gates.mean(axis=0)

    return graph(dtype, [(rows, columns)], build, expected)


@pytest.mark.parametrize("rows, columns", [(2200, 60), (1031, 33), (300, 128), (97, 5)])
@pytest.mark.slow
def test_softmax_of_short_rows_and_its_column_means(rows, columns):
    check(router("float32", rows, columns), options=TOGETHER)


def test_short_rows_lie_side_by_side_in_large_blocks():
    """Every block leaves a partial of each sum behind the barrier: two launches were faster."""
    (mapping,) = schedule_of(the_kernel(router("float32", 32768, 64).module)).parts
    assert (mapping.block_threads, mapping.blocks) == (1024, 132)
    (mapping,) = schedule_of(the_kernel(router("float32", 2200, 64).module, options=TOGETHER)).parts
    assert mapping.block_threads == 512


@pytest.mark.spread(18)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", (2, 37))
@pytest.mark.parametrize("make", (column_sums, both_ways))
def test_sizes(make, rows, columns, device):
    check(make("float32", rows, columns), options=TOGETHER)


@pytest.mark.parametrize("make", (column_sums, both_ways))
def test_one_row(make):
    check(make("float32", 1, 33))


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (33, 64))
def test_as_many_rows_as_columns(columns, device):
    check(both_ways("float32", columns, columns))


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=pytest.mark.slow if d == "bfloat16" else ()) for d in DTYPES]
)
@pytest.mark.parametrize("shape", [((37,), 768), ((3, 5, 7), 1000), ((300,), 48)])
def test_layer_norm_backward(shape, dtype, device):
    check(norm_backward(dtype, *shape), orders=2)


def test_many_short_rows(device):
    check(both_ways("float32", 1000, 7), orders=2)


def test_a_row_that_takes_a_whole_block(device):
    check(both_ways("float32", 6, 8192), orders=2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.slow
def test_very_long_rows_are_worked_on_in_pieces(dtype, device):
    check(column_sums(dtype, 5, 30000), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "reduce, combine", [(op.max, np.max), (op.min, np.min), (op.prod, np.prod)]
)
def test_other_reductions(reduce, combine, device):
    def build(emit, x):
        return emit(reduce(x, axis=0)), emit(op.sum(x, axis=1))

    check(graph("float32", [(29, 40)], build, lambda x: (combine(x, axis=0), x.sum(axis=1))))


@pytest.mark.slow
def test_symbolic_rows(device):
    case = graph(
        "float32",
        [((tvm.tirx.Var("n", "int64"), 37), 100)],
        lambda emit, x: (emit(op.sum(x, axis=0)), emit(op.max(x, axis=1))),
        lambda x: (x.sum(axis=0), x.max(axis=1)),
    )
    check(case, orders=2)


def test_an_average_over_the_rows_inside_of_a_larger_tensor(device):
    """The sum keeps two axes."""
    case = graph(
        "float32",
        [(6, 5, 8)],
        lambda emit, x: emit(op.exp(emit(op.mean(x, axis=0)))),
        lambda x: np.exp(x.mean(axis=0)),
    )
    check(case)


def test_every_order_gives_the_same_bits():
    case = both_ways("float32", 300, 100)
    (kernel,) = primfuncs(case.module).values()
    function = simt.Function(kernel, tvm.target.Target({"kind": "cuda", "arch": "sm_90"}))
    found = set()
    for seed in range(4):
        shapes = [tuple(map(int, param.ty.shape)) for param in kernel.params]
        arrays = [np.zeros(shape, "float32") for shape in shapes]
        for given in case.arrays:
            arrays[shapes.index(given.shape)][...] = given
        assert not function(arrays, seed=seed).hazards
        found.add(b"".join(array.tobytes() for array in arrays[:-1]))
    assert len(found) == 1
    assert all(np.any(array) for array in arrays)


@pytest.mark.slow
def test_the_schedule_says_what_waits_for_whom():
    (kernel,) = primfuncs(norm_backward("float32", (8192,), 1024).module).values()
    (mapping,) = schedule_of(kernel).parts
    assert mapping.scheme == "global"
    assert mapping.blocks <= mapping.min_blocks_per_sm * 132
    assert mapping.min_blocks_per_sm * mapping.block_threads <= 2048


N, D = (tvm.tirx.Var(name, "int64") for name in "nd")


def symbolic(rows: int, columns: int, **bounds: int) -> Case:
    """Both kinds of reductions, of any extents."""
    case = graph(
        "float32",
        [((N, rows), (D, columns))],
        lambda emit, x: (emit(op.sum(x, axis=0)), emit(op.max(x, axis=1))),
        lambda x: (x.sum(axis=0), x.max(axis=1)),
    )
    main = case.module["main"].with_attr("tir_var_upper_bound", bounds)
    return replace(case, module=tvm.IRModule({"main": main}))


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (1, 33, 1024, 1025, 1500))
def test_symbolic_columns_with_a_bound(columns, monkeypatch):
    """Two kernels: the host takes the one for rows of up to 1024 columns where it can."""
    monkeypatch.setattr(transform, "device_of", lambda t: replace(device_of(t), multiprocessors=2))
    case = symbolic(7, columns, d=1500)
    (kernel,) = primfuncs(case.module).values()
    schedule = schedule_of(kernel)
    kinds = [schedule.parts[0].kind, schedule.longer.parts[0].kind]
    assert kinds == ["column sums"] * 2 and schedule.parts[0].capacity >= 1024
    check(case, orders=2)


def test_a_workspace_has_the_size_of_the_rows_that_there_are():
    lowered = stitched(symbolic(7, 50, d=1500).module)
    (call,) = (
        binding.value
        for block in lowered["main"].body.blocks
        for binding in block.bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir"
    )
    (symbol,) = tvm.tirx.analysis.undefined_vars(call.ty_args[0].fields[-1].shape.values[-1])
    assert symbol.same_as(lowered["main"].params[0].ty.shape.values[1])


def test_columns_beyond_their_bound_are_an_error():
    case = symbolic(7, 50, d=1000)
    (kernel,) = primfuncs(case.module).values()
    with lowering_context():
        function = simt.Function(kernel, H200)
    workspace = np.zeros(kernel_workspace(kernel, 1001), "float32")
    arrays = [np.zeros(shape, "float32") for shape in ((2, 1001), (1001,), (2,))]
    with pytest.raises(InputError, match="at most 1000 elements"):
        function(*arrays, workspace)


def kernel_workspace(kernel: tvm.tirx.PrimFunc, columns: int) -> tuple[int, ...]:
    """The shape of a kernel's last parameter for rows of so many columns."""
    *fixed, _ = kernel.params[-1].ty.shape
    return *map(int, fixed), columns


@pytest.mark.parametrize("columns", (1, 33, 4096, 4097, 9001))
def test_columns_without_a_bound(columns, monkeypatch):
    """A last kernel, for rows as long as they like, adds up its sums in device memory."""
    monkeypatch.setattr(transform, "device_of", lambda t: replace(device_of(t), multiprocessors=2))
    case = symbolic(7, columns)
    (kernel,) = primfuncs(case.module).values()
    schedule = schedule_of(kernel)
    while schedule.longer is not None:
        schedule = schedule.longer
    (last,) = schedule.parts
    assert last.kind == "column sums" and last.any_length and last.residence == "nowhere"
    check(case, orders=2)
