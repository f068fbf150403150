"""Small matrix products are stages of stitched kernels: attention, recurrent cells, projections."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from check import (
    DTYPES,
    H200,
    TOGETHER,
    check,
    cuda_of,
    fallbacks,
    plan_of,
    primfuncs,
    schedule_by,
    schedule_of,
    the_kernel,
)
from products import attention, heads_of_a_layer, lstm_cell, pooled_history, projection
from tvm import relax, tirx
from tvm.relax import op
from zoo import Case, graph, norm64, softmax64

from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import problem_of
from tvm_stitch.kernel.ir.program import Where
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.small_matmul import choose as choose_product
from tvm_stitch.kernel.small_matmul.choose import mapping_of_products
from tvm_stitch.kernel.small_matmul.column_slices import Slices, find_slices, waiting
from tvm_stitch.kernel.small_matmul.footprint import staged_tables
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.spaces.space import Space

T4 = tvm.target.Target({"kind": "cuda", "arch": "sm_75"})


def products_of(case: Case) -> ProductProgram:
    """The program of a case that is one kernel, and perhaps views."""
    functions = primfuncs(case.module, options=TOGETHER, before="StitchSchedule").values()
    programs = [
        p for found in map(read_programs, functions) if isinstance(found, tuple) for p in found
    ]
    (program,) = programs
    assert isinstance(program, ProductProgram)
    return program


@pytest.fixture
def many_rows(monkeypatch):
    """Without threads to occupy, a thread takes a batch of rows: as where rows are many."""
    monkeypatch.setattr(choose_product, "BUSY_THREADS", 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_over_a_short_sequence(dtype, many_rows):
    check(attention(dtype, 1, 2, 32, 16), options=TOGETHER)


@pytest.mark.parametrize("length, size, keys", [(7, 5, 0), (33, 31, 0), (1, 64, 64)])
def test_attention_of_odd_sizes(length, size, keys, many_rows):
    check(attention("float32", 1, 1, length, size, keys), options=TOGETHER, orders=2)


def test_attention_with_few_rows():
    """All threads of a warp share a row: there are too few to give each a batch."""
    check(attention("float32", 1, 2, 7, 33), options=TOGETHER, orders=2)


def test_heads_are_split_and_joined_on_the_way():
    check(heads_of_a_layer("float32", 2, 9, 3, 8), options=TOGETHER, orders=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_few_bytes_wait_in_shared_memory_beside_others(dtype):
    """TVM gives dynamic shared memory of up to 32 bits no place beside other."""

    def build(emit, x, bias, scale, keys):
        moved = emit(op.add(x, bias))
        first, second = emit(op.split(moved, 2, axis=1))
        turned = emit(op.concat([emit(op.negative(second)), first], axis=1))
        return emit(op.matmul(emit(op.add(moved, emit(op.multiply(turned, scale)))), keys))

    def expected(x, bias, scale, keys):
        moved = x + bias
        return (moved + np.stack([-moved[:, 1], moved[:, 0]], axis=1) * scale) @ keys

    check(graph(dtype, [(3, 2), (2,), (2,), (2, 3)], build, expected), options=TOGETHER)


def test_keys_behind_views_are_copied_as_they_lie():
    """Heads become entries of a batch: neighbours in memory are still neighbours in the table."""

    def build(emit, q, k):
        q, k = (emit(op.reshape(each, (12, 8, 32))) for each in (q, k))
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
        return emit(op.nn.softmax(emit(op.reshape(scores, (3, 4, 8, 8)))))

    def expected(q, k):
        return softmax64(q @ k.swapaxes(-1, -2))

    case = graph("float32", [(3, 4, 8, 32)] * 2, build, expected)
    (contraction,) = products_of(case).contractions.values()
    assert contraction.by_depth and contraction.panel.in_vectors
    check(case, options=TOGETHER, orders=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_attention_of_dien(dtype):
    check(pooled_history(dtype, 3, 31, 36), options=TOGETHER)


def test_a_history_is_staged_once_for_both_products():
    program = products_of(pooled_history("float32", 3, 31, 36))
    assert (len(program.contractions), len(program.panels)) == (2, 1)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_small_lstm_cell(dtype):
    check(lstm_cell(dtype, 5, 7, 9), options=TOGETHER)


def test_steps_of_a_recurrent_layer_are_one_kernel():
    """A state stays on the chip from step to step; all read the same weights."""

    def build(emit, x, y, h, w, u):
        for inputs in (x, y):
            added = emit(op.add(emit(op.matmul(inputs, w)), emit(op.matmul(h, u))))
            h = emit(op.tanh(added))
        return h

    def expected(x, y, h, w, u):
        return np.tanh(y @ w + np.tanh(x @ w + h @ u) @ u)

    shapes = [(5, 9), (5, 9), (5, 16), (9, 16), (16, 16)]
    case = graph("float32", shapes, build, expected)
    check(case, options=TOGETHER, orders=2)
    assert len(products_of(case).panels) == 2


@pytest.fixture
def laid_out(monkeypatch):
    """Has every kernel laid out as told."""

    def by(threads, rows, batch, split=False, depth_split=1, **changes):
        def choose(programs, *rest):
            (program,) = programs
            mapping = mapping_of_products(program, threads, rows, batch, split, depth_split)
            mapping = replace(mapping, **changes)
            assert kind_of(program).refusal(problem_of(program, device_of(H200)), mapping) is None
            return Schedule((mapping,))

        schedule_by(monkeypatch, choose)

    return by


def test_weights_that_do_not_fit_are_read_through_the_caches(laid_out):
    case = lstm_cell("float32", 3, 64, 64)
    laid_out(threads=64, rows=1, batch=2)
    check(case, options=TOGETHER, orders=2)
    mapping = schedule_of(the_kernel(case.module, options=TOGETHER)).parts[0]
    assert staged_tables(products_of(case), mapping) == ()


# Rows and columns in odd numbers, by tiles


def activated(dtype: str, rows: int, inner: int, outputs: int) -> Case:
    """tanh(x w + b)."""

    def build(emit, x, w, b):
        return emit(op.tanh(emit(op.add(emit(op.matmul(x, w)), b))))

    def expected(x, w, b):
        return np.tanh(x @ w + b)

    return graph(dtype, [(rows, inner), (inner, outputs), (outputs,)], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("rows, inner, outputs", [(1, 7, 33), (7, 31, 31), (31, 1, 7), (33, 33, 1)])
def test_products_of_odd_sizes(rows, inner, outputs):
    check(activated("float32", rows, inner, outputs), options=TOGETHER, orders=2)


@pytest.mark.parametrize("threads, rows, batch, asynchronous", [(8, 4, 2, True), (32, 4, 1, False)])
def test_blocks_with_some_units_of_a_cell(laid_out, threads, rows, batch, asynchronous):
    """Of 24 units, 8 gates of which a thread of each has all four; 33 rows are no whole blocks."""
    flags = {"asynchronous": asynchronous, "prefetch_weights": True}
    laid_out(threads=threads, rows=rows, batch=batch, split=True, **flags)
    case = lstm_cell("float32", 33, 20, 24)
    check(case, options=TOGETHER, orders=2)
    assert ("cp_async" in cuda_of(the_kernel(case.module, options=TOGETHER))) == asynchronous


# Few rows of some depth


@pytest.mark.parametrize(
    "threads, rows, batch, shares, asynchronous",
    [(8, 4, 1, 2, True), (4, 8, 2, 8, False), (32, 1, 2, 4, True)],
)
def test_threads_that_share_a_depth(laid_out, threads, rows, batch, shares, asynchronous):
    """Rows and units that are no whole blocks; the sums are the same in any order of threads."""
    flags = {"asynchronous": asynchronous, "prefetch_weights": True}
    laid_out(threads, rows, batch, split=True, depth_split=shares, **flags)
    check(lstm_cell("float32", 33, 64, 32), options=TOGETHER, orders=3)


def test_a_cell_of_some_size_is_one_kernel():
    case = lstm_cell("float32", 3, 128, 128)
    check(case, options=TOGETHER, orders=2)
    (mapping,) = schedule_of(the_kernel(case.module, options=TOGETHER)).parts
    assert (mapping.depth_split, mapping.block_threads % 64) == (2, 0)


def test_blocks_with_whole_rows_are_for_few_weights():
    """Each block would read all of them."""
    for inner, columns, reason in ((96, 64, "sums over 96 elements"), (8, 512, "rows of 512")):
        program = products_of(activated("float32", 3, inner, columns))
        mapping = mapping_of_products(program, 32, 1, 1)
        problem = problem_of(program, device_of(H200))
        assert reason in str(kind_of(program).refusal(problem, mapping))


def test_a_depth_is_shared_in_equal_parts_by_whole_warps():
    program = products_of(activated("float32", 3, 96, 64))
    problem, kind = problem_of(program, device_of(H200)), kind_of(program)

    def refusal(threads, rows, shares):
        mapping = mapping_of_products(program, threads, rows, 1, split=True, depth_split=shares)
        return kind.refusal(problem, mapping)

    assert refusal(8, 4, 8) is None
    assert "a depth of 96 shared by 16" in str(refusal(8, 4, 16))
    assert "different parts of the depth" in str(refusal(8, 2, 8))


def test_loads_ahead_of_the_products_stay_where_they_are():
    """The CUDA compiler moves no volatile assembly; any other load it would issue when needed."""
    source = cuda_of(the_kernel(lstm_cell("float32", 64, 16, 16).module))
    (load,) = (line for line in source.splitlines() if "ld.global" in line)
    assert load.strip().startswith("asm volatile(")


def test_gates_in_slices_stay_with_their_thread():
    program = products_of(lstm_cell("float32", 5, 7, 9))
    slices = find_slices(program)
    assert isinstance(slices, Slices)
    assert (slices.period, slices.steps) == (9, 4)
    assert set(waiting(program, slices)) == {c.own for c in program.contractions.values()}


def test_a_row_that_is_needed_whole_waits_for_its_slices(laid_out):
    """A residual of what the product multiplies: normed by every block, added by the slice."""

    def build(emit, x, w, b):
        one, zero = (emit(op.full((16,), relax.const(v, "float32"), "float32")) for v in (1, 0))
        normed = emit(op.nn.layer_norm(x, one, zero, axes=-1))
        added = emit(op.add(emit(op.matmul(normed, w)), normed))
        return emit(op.add(added, b)), normed

    def expected(x, w, b):
        normed = norm64(x)
        return normed @ w + normed + b, normed

    laid_out(threads=4, rows=8, batch=1, split=True)
    check(graph("float32", [(9, 16), (16, 16), (16,)], build, expected), options=TOGETHER)


def test_columns_from_all_over_the_row_are_not_sliced():
    def build(emit, x, w):
        product = emit(op.matmul(x, w))
        return emit(op.add(product, emit(op.flip(product, 1))))

    def expected(x, w):
        return x @ w + (x @ w)[:, ::-1]

    case = graph("float32", [(9, 16), (16, 32)], build, expected)
    refused = find_slices(products_of(case))
    assert isinstance(refused, Refused) and "from all over it" in refused.reason
    check(case, options=TOGETHER, orders=2)


def test_products_that_are_reduced_are_not_sliced():
    refused = find_slices(products_of(projection("float32", 19, 31, 64)))
    assert isinstance(refused, Refused) and "reduced or multiplied again" in refused.reason


def test_older_gpus_copy_through_registers():
    case = lstm_cell("float32", 5, 8, 8)
    assert "cp_async" not in cuda_of(the_kernel(case.module, T4, options=TOGETHER), T4)


@pytest.mark.parametrize(
    "rows, inputs, outputs, transposed", [(1, 33, 31, False), (19, 31, 33, True)]
)
def test_a_product_between_norms(rows, inputs, outputs, transposed, many_rows):
    check(projection("float32", rows, inputs, outputs, transposed), options=TOGETHER, orders=2)


def test_rows_that_share_a_factor_share_a_block(many_rows):
    """20 rows a head, in blocks of 16 rows: the last of a head has four."""
    case = attention("float32", 1, 3, 20, 8)
    mapping = schedule_of(the_kernel(case.module, options=TOGETHER)).parts[0]
    assert mapping.block_rows > 1 and 20 % mapping.block_rows
    check(case, options=TOGETHER)


@pytest.mark.parametrize("batch, rows, inner", [(128, 6, 2), (64, 7, 3), (128, 5, 4)])
def test_no_two_of_many_arrays_in_shared_memory_have_one_place(batch, rows, inner):
    """A step of a Kalman filter: factors and rows of three products, of which some end early."""

    def build(emit, p, s, h, eye, before):
        gain = emit(op.matmul(p, emit(op.permute_dims(s, [0, 2, 1]))))
        flat = emit(op.reshape(gain, (batch * rows, inner)))
        seen = emit(op.reshape(emit(op.matmul(flat, h)), (batch, rows, rows)))
        left = emit(op.subtract(eye, seen))
        return gain, left, emit(op.matmul(left, before))

    def expected(p, s, h, eye, before):
        gain = p @ s.swapaxes(1, 2)
        left = eye - gain @ h
        return gain, left, left @ before

    shapes = [(batch, rows, inner), (batch, inner, inner), (inner, rows), (rows, rows)]
    case = graph("float32", [*shapes, (batch, rows, rows)], build, expected)
    assert len(plan_of(case.module).groups) == 1
    check(case, orders=2)


def test_gates_are_read_from_their_row():
    program = products_of(lstm_cell("float32", 5, 7, 9))
    places = [program.place(stage, read) for stage in program.stages for read in stage.reads]
    assert places.count(Where.ALONG) >= 4


def test_values_of_other_rows_are_refused():
    """Keys that the kernel would have to project for all rows before it has a score."""

    def build(emit, x, w):
        keys = emit(op.matmul(x, w))
        scores = emit(op.matmul(x, emit(op.permute_dims(keys, [0, 2, 1]))))
        return emit(op.nn.softmax(scores))

    def expected(x, w):
        return softmax64(x @ (x @ w).swapaxes(-1, -2))

    check(graph("float32", [(3, 9, 16), (16, 16)], build, expected), 2, options=TOGETHER, orders=2)


def softmax_of_product(dtype, rows, inner, outputs):
    return graph(
        dtype,
        [(rows, inner), (inner, outputs)],
        lambda emit, x, w: emit(op.nn.softmax(emit(op.matmul(x, w)))),
        lambda x, w: softmax64(x @ w),
    )


ROWS = tirx.Var("n", "int64")
SUMS = "sums over n elements, known at run time only"
ROWS_OF = "rows of n results, known at run time only"


@pytest.mark.parametrize(
    "case, why",
    [
        (softmax_of_product("float32", 65, 65, 16), "sums over 65 elements, more than 64"),
        (softmax_of_product("float32", 65, 17, 257), "rows of 257 results, more than 256"),
        (softmax_of_product("float32", 4, (ROWS, 16), 16), SUMS),
        (softmax_of_product("float32", 4, 16, (ROWS, 16)), ROWS_OF),
        (softmax_of_product("float64", 4, 16, 16), "results of float64"),
    ],
)
def test_a_product_that_is_not_small_divides_the_graph(case, why):
    reasons = {fallback.op: fallback.reason for fallback in fallbacks(case.module)}
    assert reasons["matmul"] == f"a matrix product or convolution: {why}"


def test_the_tuner_tries_more_and_fewer_rows_a_thread():
    program = products_of(attention("float32", 2, 3, 32, 16))
    choices = Space((program,), ((0,),), device_of(H200))
    batches = {point.schedule.parts[0].batch for point in choices}
    assert batches == {1, 2, 4, 8}


def test_the_tuner_tries_more_and_fewer_threads_that_share_a_depth():
    case = lstm_cell("float32", 3, 128, 128)
    (chosen,) = schedule_of(the_kernel(case.module, options=TOGETHER)).parts
    found = Space((products_of(case),), ((0,),), device_of(H200))
    parts = [point.schedule.parts[0] for point in found]
    assert chosen in parts and {each.depth_split for each in parts} == {1, 2, 4, 8}


@pytest.mark.slow
def test_the_bench_s_cases_are_one_kernel():
    pytest.importorskip("torch")
    from bench.case import make_inputs
    from bench.cases import products
    from bench.importing import to_relax

    for case in products.cases():
        workload = case.workload(small=True)
        module = to_relax(workload, make_inputs(workload.arrays, "cpu"))
        assert len(plan_of(module).groups) == 1, case.name
