"""Reductions along an axis that is not the last: a block keeps a panel of neighbouring columns."""

import re
from dataclasses import replace

import numpy as np
import pytest
from across_rows import shape_of, standardised
from check import (
    DTYPES,
    H200,
    HALVES,
    check,
    cuda_of,
    primfuncs,
    program_of,
    schedule_of,
    the_kernel,
)
from tuning_runs import chosen, column_sums, softmax_over_rows, workload
from tvm import relax, te, tirx, topi
from tvm.relax import op
from zoo import Case, graph, norm64, softmax64

import tvm_stitch
from tvm_stitch import Options, simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, choose
from tvm_stitch.kernel.ir.mapping import SCHEMES, Panel
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.stages.stage import Refused

EXTENTS = (1, 2, 7, 12, 21, 31, 33, 197, 1000, 1027, 1500)
COLUMNS = (1, 7, 31, 33, 300, 1000, 1027)
BATCH = tirx.Var("n", "int64")


def softmax_of_columns(dtype: str, batch, extent: int, columns: int) -> Case:
    def build(emit, x):
        return emit(op.nn.softmax(x, -2))

    return graph(dtype, [shape_of(batch, extent, columns)], build, lambda x: softmax64(x, axis=-2))


def mean_of_columns(dtype: str, batch, extent: int, columns: int) -> Case:
    """A mean, and what is element-wise before and behind it."""

    def build(emit, x):
        if dtype != "float32":
            x = emit(op.astype(x, "float32"))
        mean = emit(op.mean(emit(op.multiply(x, x)), -2))
        return emit(op.astype(emit(op.sqrt(mean)), dtype))

    def expected(x):
        return np.sqrt((x * x).mean(-2))

    return graph(dtype, [shape_of(batch, extent, columns)], build, expected)


def position_of_maximum(dtype: str, batch, extent: int, columns: int) -> Case:
    """A maximum, and where it is."""

    def build(emit, x):
        return emit(op.max(x, -2)), emit(op.argmax(x, -2))

    def expected(x):
        return x.max(-2), x.argmax(-2)

    return graph(dtype, [shape_of(batch, extent, columns)], build, expected)


def softmax_gradient(dtype: str, batch, extent: int, columns: int) -> Case:
    """Two tensors that are read once, and a sum of their product."""

    def build(emit, y, dy):
        product = emit(op.multiply(y, dy))
        total = emit(op.sum(product, -2, keepdims=True))
        return emit(op.subtract(product, emit(op.multiply(y, total))))

    def expected(y, dy):
        return y * dy - y * (y * dy).sum(-2, keepdims=True)

    return graph(dtype, [shape_of(batch, extent, columns)] * 2, build, expected)


MAKERS = (softmax_of_columns, mean_of_columns, standardised)


def mapping_of(case: Case, options: Options | None = None) -> Panel:
    (mapping,) = schedule_of(the_kernel(case.module, options=options)).parts
    assert isinstance(mapping, Panel)
    return mapping


def check_scheduled(case: Case, mapping: Panel) -> None:
    """The kernel of a mapping of one's own is right in several thread orders."""
    (function,) = primfuncs(case.module, before="StitchSchedule").values()
    programs, schedule = read_programs(function), Schedule((mapping,))
    assert legal(programs, schedule, device_of(H200)) is None
    kernel = StitchedKernel(device_of(H200), NO_BOUNDS, programs, schedule).emit(function)
    kernel = simt.Function(kernel, H200)
    arrays = [array.astype("float32") for array in (*case.arrays, *case.expected)]
    for seed in range(3):
        arrays[-1][...] = np.nan
        assert not kernel(arrays, seed=seed).hazards
        np.testing.assert_allclose(arrays[-1], case.expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.spread(2)
@pytest.mark.parametrize("extent", EXTENTS)
def test_extents(extent):
    check(standardised("float32", 3, extent, 33), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", COLUMNS)
def test_columns(columns):
    check(softmax_of_columns("float32", 3, 37, columns), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("make", MAKERS)
def test_halves(make, dtype):
    check(make(dtype, 1, 197, 31), orders=2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", (1, 3))
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("extent, columns", [*zip(EXTENTS, COLUMNS + COLUMNS, strict=False)])
def test_sizes(extent, columns, make, batch, dtype):
    check(make(dtype, batch, extent, columns), orders=2)


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (32, 33))
@pytest.mark.parametrize("make", MAKERS)
def test_any_batch(make, columns):
    check(make("float32", (BATCH, 3), 40, columns), orders=2)


def test_any_columns():
    check(softmax_of_columns("float32", 1, 40, (tirx.Var("m", "int64"), 33)), orders=2)


@pytest.mark.parametrize("batch", (1, 3))
@pytest.mark.parametrize("make", MAKERS)
def test_no_more_launches_than_tvm_makes(make, batch):
    report = tvm_stitch.explain(make("float16", batch, 1027, 33).module, H200)
    assert report.launches == 1 <= report.before.launches


@pytest.mark.parametrize("extent", (7, 1030))
def test_any_extent(extent):
    """Whether a column is kept, or read again, is the host's choice."""
    check(softmax_of_columns("float32", 2, (tirx.Var("m", "int64"), extent), 16), orders=2)


def test_schemes():
    """A thread alone, those of a warp by shuffles, those of a block through shared memory."""
    assert mapping_of(softmax_of_columns("float32", 1, 12, 33)).scheme == "local"
    assert Panel(4, 8, 1, 12).scheme == "warp"
    assert mapping_of(softmax_of_columns("float32", 1, 1000, 33)).scheme == "regional"


@pytest.mark.parametrize("threads, rows", ((4, 8), (2, 16), (8, 8), (64, 4), (4, 64), (1, 32)))
def test_threads_of_a_column(threads, rows):
    """Within a warp, beyond it, and of several warps that each have several columns."""
    case = standardised("float32", 1, 100, 33)
    check_scheduled(case, Panel(threads, rows, 1, -(-100 // threads)))


def test_short_columns_of_many_take_one_thread_each():
    case = softmax_of_columns("float32", 8, 12, 64 * 64)
    assert mapping_of(case) == Panel(1, 128, 1, 12)
    assert "__syncthreads" not in cuda_of(the_kernel(case.module))


@pytest.mark.parametrize("dtype, columns", (("float32", 8), ("float16", 16)))
def test_panels_are_whole_sectors(dtype, columns):
    assert mapping_of(softmax_of_columns(dtype, 4, 1500, 257)).rows == columns


@pytest.mark.parametrize("dtype, columns", (("float32", 32), ("float16", 64)))
def test_panels_of_clusters_are_whole_lines(dtype, columns):
    """Blocks share the columns where one would have few of them, or much of each."""
    mapping = mapping_of(softmax_of_columns(dtype, 8, 1500, 256))
    assert (mapping.block_rows, mapping.scheme, mapping.adjacent) == (columns, "cluster", True)
    without = Options(schemes=tuple(scheme for scheme in SCHEMES if scheme != "cluster"))
    case = softmax_of_columns(dtype, 8, 1500, 256)
    (alone,) = schedule_of(the_kernel(case.module, options=without)).parts
    assert alone.cluster == 1


def test_a_block_reads_its_panel_once():
    """All loads of a thread before the first exchange, and no barrier of the grid."""
    source = cuda_of(the_kernel(standardised("float32", 1, 777, 300).module))
    body = source.rpartition('extern "C"')[2]
    assert "p0_ptr[" not in body.partition("__syncthreads")[2]
    assert "grid" not in body


def test_long_columns_wait_in_shared_memory():
    case, simple = softmax_of_columns("float16", 1, 4096, 16), Options(solver="greedy")
    assert mapping_of(case, simple).residence == "shared"
    check(case, orders=2, options=simple)


def test_columns_that_fit_no_block_are_reduced_in_rounds():
    assert chosen(workload(*softmax_over_rows(65536, 512))).scheme == "global"


def test_sums_alone_meet_at_a_barrier_where_they_take_longer():
    schemes = [chosen(workload(*column_sums(rows, 512))).scheme for rows in (1000, 4000)]
    assert schemes == ["regional", "global"]


@pytest.mark.parametrize("rows, scheme", ((8, "local"), (64, "regional"), (4000, "global")))
def test_sums_of_wide_rows_need_no_barrier(rows, scheme):
    """As gradients of positions: each block has a few columns of all rows."""
    assert chosen(workload(*column_sums(rows, 1 << 18))).scheme == scheme


@pytest.mark.slow
def test_gradients_of_positions():
    """Over a batch of rows as wide as that choice wants them."""
    check(mean_of_columns("bfloat16", 1, 5, 197 * 192))


@pytest.mark.parametrize("dtype, size", (("float32", 2), ("float32", 3), ("float16", 4)))
def test_average_pooling(dtype, size):
    """Windows whose lines lie in memory in short pieces."""

    def build(emit, x):
        return emit(op.nn.relu(emit(op.nn.avg_pool2d(x, (size, size), (size, size)))))

    def expected(x):
        return np.maximum(x.reshape(2, 3, 4, size, 5, size).mean((3, 5)), 0)

    check(graph(dtype, [(2, 3, 4 * size, 5 * size)], build, expected))


def test_weight_norm():
    def build(emit, v, g):
        norm = emit(op.sqrt(emit(op.sum(emit(op.multiply(v, v)), 0, keepdims=True))))
        return emit(op.multiply(emit(op.divide(v, norm)), g))

    def expected(v, g):
        return v / np.sqrt((v * v).sum(0, keepdims=True)) * g

    check(graph("float32", [(1000, 33), (33,)], build, expected), orders=2)


def test_layer_norm_of_channels_that_come_first():
    """Weights along the column, and a residual that all of the batch share."""

    def build(emit, x, r, w):
        h = emit(op.add(x, r))
        centred = emit(op.subtract(h, emit(op.mean(h, 1, keepdims=True))))
        variance = emit(op.mean(emit(op.multiply(centred, centred)), 1, keepdims=True))
        scale = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))
        return emit(op.multiply(emit(op.multiply(centred, scale)), w))

    def expected(x, r, w):
        return norm64(x + r, axis=1) * w

    check(graph("float32", [(3, 96, 7, 9), (96, 7, 9), (96, 1, 1)], build, expected), orders=2)


@pytest.mark.parametrize("reduce, numpy", ((op.max, np.max), (op.min, np.min), (op.prod, np.prod)))
def test_other_combiners(reduce, numpy):
    shape = (2, 9, 40)
    check(graph("float32", [shape], lambda emit, x: emit(reduce(x, 1)), lambda x: numpy(x, 1)))


def test_panels_side_by_side():
    """Unrelated ones of different lengths share a launch."""

    def build(emit, x, y):
        return emit(op.max(x, 1)), emit(op.max(y, 1))

    def expected(x, y):
        return x.max(1), y.max(1)

    check(graph("float32", [(2, 300, 20), (2, 100, 40)], build, expected))


def test_what_columns_read_across_is_refused():
    x, y = te.placeholder((4, 30, 50), name="x"), te.placeholder((4, 50, 90), name="y")
    read = te.compute(x.shape, lambda b, k, c: x[b, k, c] * y[b, c, k * 3], "read")
    (program,) = read_programs(te.create_prim_func([x, y, topi.sum(read, 1)]))
    refused = choose((program,), device_of(H200))
    assert isinstance(refused, Refused) and "reads y across the" in refused.reason


@pytest.mark.parametrize(
    "changes, reason",
    (
        ({"steps": 1}, "of which it covers 32"),
        ({"steps": 0}, "0 steps"),
        ({"vector": 2, "steps": 16}, "rows that do not start at multiples of 2"),
        ({"residence": "shared", "threads": 4, "steps": 250}, "wait in registers"),
        ({"threads": 4, "rows": 256, "steps": 250}, "too many registers"),
        ({"unroll": 8}, "loaded at once"),
        ({"residence": "nowhere", "unroll": 512}, "steps at once"),
        ({"online": True}, "one pass, where no sum"),
        ({"batch": 2}, "columns of a batch are those of one thread"),
        ({"batch": 8}, "batches of 8 columns"),
        ({"batch": 4, "adjacent": True}, "that lie side by side by 4"),
    ),
)
def test_mappings_that_would_not_work_are_refused(changes, reason):
    case = standardised("float32", 1, 1000, 33)
    mapping = replace(Panel(32, 8, 1, 32), **changes)
    refused = legal((program_of(case.module),), Schedule((mapping,)), device_of(H200))
    assert refused is not None and reason in refused.reason


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "threads, rows, batch, columns", ((16, 2, 4, 40), (64, 8, 2, 6), (4, 16, 4, 12), (256, 1, 4, 8))
)
def test_threads_of_adjacent_columns(threads, rows, batch, columns):
    """Panels that end inside of a block, threads of a warp and of several."""
    case = standardised("float32", 3, 100, columns)
    steps = -(-100 // threads)
    check_scheduled(case, Panel(threads, rows, 1, steps, batch=batch, adjacent=True))


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "threads, rows, batch, cluster, columns",
    (
        (8, 8, 4, 2, 40),  # lanes of a row for each block
        (4, 16, 4, 8, 72),  # fewer
        (32, 2, 4, 16, 12),
        (64, 1, 4, 4, 8),
        (16, 8, 1, 4, 33),
        (2, 32, 1, 2, 33),
    ),
)
def test_clusters_share_columns(threads, rows, batch, cluster, columns):
    """Every block has some elements of the same columns, and gets what the others found."""
    case = standardised("float32", 3, 100, columns)
    steps = -(-100 // (threads * cluster))
    check_scheduled(
        case, Panel(threads, rows, 1, steps, batch=batch, adjacent=batch > 1, cluster=cluster)
    )


@pytest.mark.spread(2)
@pytest.mark.parametrize("unroll", (0, 4))
@pytest.mark.parametrize("residence", ("shared", "nowhere"))
@pytest.mark.parametrize(
    "threads, rows, batch, cluster, columns",
    (
        (64, 4, 4, 1, 40),
        (64, 2, 2, 1, 6),
        (64, 2, 4, 2, 12),
        (64, 1, 4, 4, 8),
        pytest.param(64, 8, 1, 8, 33, marks=pytest.mark.slow),
    ),
)
@pytest.mark.parametrize("extent", (100, 1027))
def test_adjacent_columns_that_wait_in_no_registers(
    extent, threads, rows, batch, cluster, columns, residence, unroll
):
    """Some steps of all of a thread's columns at a time, of which none need be whole."""
    case = standardised("float32", 2, extent, columns)
    steps = -(-extent // (threads * cluster))
    shared = Panel(threads, rows, 1, steps, residence, recompute=True, unroll=unroll)
    check_scheduled(case, replace(shared, batch=batch, adjacent=batch > 1, cluster=cluster))


@pytest.mark.spread(2)
@pytest.mark.parametrize("batch, cluster", ((1, 1), (4, 1), (1, 2), (4, 4)))
def test_columns_read_twice_are_read_back_from_their_end(batch, cluster):
    """Maximum and sum in one pass, and what was read last is read first again."""
    case = softmax_of_columns("float32", 2, 1027, 40)
    steps = -(-1027 // (64 * cluster))
    read = Panel(64, 4, 1, steps, "nowhere", recompute=True, online=True, unroll=4, batch=batch)
    mapping = replace(read, adjacent=batch > 1, cluster=cluster)
    check_scheduled(case, mapping)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype, width", (("float32", 2), ("float16", 4), ("bfloat16", 4)))
@pytest.mark.parametrize("make", (mean_of_columns, standardised))
def test_adjacent_columns(make, dtype, width):
    """A thread reads and writes 8 bytes of neighbouring columns at once."""
    case = make(dtype, 33, 40, 64 * width)
    mapping = mapping_of(case)
    assert (mapping.batch, mapping.adjacent) == (width, True)
    source = cuda_of(the_kernel(case.module))
    # One barrier for each reduction, however many columns a thread has.
    assert source.count("__syncthreads()") <= 2
    check(case, orders=2)


def test_columns_whose_positions_are_compared():
    """Vectors of 16 bytes, and half of the registers."""
    mapping = mapping_of(position_of_maximum("float16", 33, 512, 256))
    assert (mapping.batch, mapping.min_blocks_per_sm) == (8, 2)
    check(position_of_maximum("float16", 33, 40, 256), orders=2)


def test_gradients_of_weight_norm_are_kept_by_clusters():
    """What no block has room for, two tensors, a cluster of sixteen has in its registers."""
    mapping = mapping_of(softmax_gradient("float32", 1, 4096, 4096))
    assert (mapping.cluster, mapping.block_rows, mapping.residence) == (16, 32, "register")
    check(softmax_gradient("float32", 1, 1027, 40), orders=2)


def test_columns_that_are_not_aligned_are_read_one_by_one():
    assert not mapping_of(softmax_of_columns("float32", 132, 197, 33)).adjacent
    assert mapping_of(softmax_of_columns("float32", 132, 197, 34)).batch == 2


def test_what_else_is_read_by_column_is_read_one_by_one():
    """A residual that all of a batch share would come in pieces that lie apart."""

    def build(emit, x, r):
        return emit(op.nn.softmax(emit(op.add(x, r)), 1))

    shapes = [(132, 100, 32), (100, 32)]
    case = graph("float32", shapes, build, lambda x, r: softmax64(x + r, axis=1))
    assert not mapping_of(case).adjacent


@pytest.mark.parametrize("batch", (2, 4))
def test_batches_of_short_columns(batch):
    """A thread's columns are all asked for before it reduces the first."""
    case = standardised("float32", 3, 9, 71)
    check_scheduled(case, Panel(1, 32, 1, 9, batch=batch))


def test_many_short_columns_are_read_in_vectors():
    """Whole ones of 16 bytes, by threads that have their columns for themselves."""
    case = mean_of_columns("float16", 8, 8, 1 << 19)
    assert mapping_of(case) == Panel(1, 128, 1, 8, batch=8, adjacent=True)
    assert "__syncthreads" not in cuda_of(the_kernel(case.module))
    mapping = mapping_of(mean_of_columns("float16", 8, 4, 1 << 19))
    assert (mapping.batch, mapping.adjacent) == (4, False)


@pytest.mark.spread(2)
@pytest.mark.parametrize("batch, columns", ((2, 2), (2, 70), (4, 132), (4, 1000)))
@pytest.mark.parametrize("extent", (2, 7, 31, 33))
@pytest.mark.parametrize("make", (mean_of_columns, standardised))
def test_vectors_of_columns_that_nobody_shares(make, extent, batch, columns):
    case = make("float32", 3, extent, columns)
    check_scheduled(case, Panel(1, 32, 1, extent, batch=batch, adjacent=True))


@pytest.mark.parametrize("columns", (768, 1024))
def test_panels_of_any_batch_are_read_in_vectors(columns):
    """Whether or not a division by the number of columns is a shift."""
    case = mean_of_columns("bfloat16", (BATCH, 3), 64, columns)
    kernel = the_kernel(case.module)
    (mapping,) = schedule_of(kernel).parts
    assert mapping.adjacent and mapping.batch == 4
    assert re.search(r"\(nv_bfloat164\*\)\(\w+_ptr ", cuda_of(kernel))
    check(case, orders=2)
