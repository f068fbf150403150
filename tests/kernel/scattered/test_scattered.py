"""Rows that sum what indices send to them, with what is computed before and behind: one kernel."""

import re
from dataclasses import replace

import numpy as np
import pytest
from across_rows import embedding_step, embedding_step_module, indices_of
from check import H200, check, primfuncs, schedule_by
from tvm import relax
from tvm.relax import op
from zoo import graph_of

from tvm_stitch import explain
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import problem_of
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.scattered.lists import layout
from tvm_stitch.kernel.scattered.mapping import Scattered


def gradient(dtype, table, count):
    """The gradient of an embedding whose output is scaled, token by token: updates are computed."""
    indices = indices_of(table[0], count, 7)

    def build(emit, at, dy, scale):
        updates = emit(op.multiply(emit(op.multiply(dy, scale)), relax.const(0.5, dtype)))
        zeros = emit(op.zeros(relax.ShapeExpr(table), dtype))
        return emit(op.scatter_nd(zeros, at, updates, "add"))

    def expected(at, dy, scale):
        sums = np.zeros(table)
        np.add.at(sums, at[:, 0].astype(int), dy * scale * 0.5)
        return sums

    inputs = [
        (indices.shape, "int64", indices),
        ((count, *table[1:]), dtype, None),
        ((count, 1), dtype, None),
    ]
    return graph_of(inputs, build, expected)


def test_halves_are_summed_in_float32():
    check(gradient("float16", (23, 12), 70), kernels=1)
    check(gradient("bfloat16", (23, 9), 40), kernels=1)


@pytest.mark.spread(2)
@pytest.mark.parametrize("table", [(19, 1), (61, 7), (33, 48), (150, 130), (7, 1000)])
def test_an_optimizers_step_is_in_the_same_kernel(table):
    verified = check(embedding_step(table, 90), kernels=1)
    assert len(verified.kernels) == 1


@pytest.mark.parametrize("table", [(61, 7), (40, 64)])
def test_updates_are_computed_where_they_are_added(table):
    check(gradient("float32", table, 100), kernels=1)


def test_rows_of_sums_are_reduced_in_the_same_kernel():
    indices = indices_of(30, 77)

    def build(emit, at, dy, data):
        sums = emit(op.scatter_nd(data, at, dy, "add"))
        squares = emit(op.sum(emit(op.multiply(sums, sums)), axis=-1, keepdims=True))
        return emit(op.divide(sums, emit(op.add(squares, relax.const(1.0, "float32")))))

    def expected(at, dy, data):
        sums = data.copy()
        np.add.at(sums, at[:, 0].astype(int), dy)
        return sums / ((sums * sums).sum(-1, keepdims=True) + 1)

    inputs = [(indices.shape, "int64", indices)]
    inputs += [((77, 20), "float32", None), ((30, 20), "float32", None)]
    check(graph_of(inputs, build, expected), kernels=1)


def test_sums_that_are_needed_behind_a_reduction_have_a_kernel_of_their_own():
    indices = indices_of(30, 77)

    def build(emit, at, dy, data):
        zeros = emit(op.zeros(relax.ShapeExpr((30, 20)), "float32"))
        sums = emit(op.scatter_nd(zeros, at, dy, "add"))
        return emit(op.add(emit(op.nn.softmax(data)), sums))

    def expected(at, dy, data):
        moved = np.exp(data - data.max(-1, keepdims=True))
        sums = moved / moved.sum(-1, keepdims=True)
        np.add.at(sums, at[:, 0].astype(int), dy)
        return sums

    inputs = [(indices.shape, "int64", indices)]
    inputs += [((77, 20), "float32", None), ((30, 20), "float32", None)]
    check(graph_of(inputs, build, expected), kernels=2)


def test_sums_over_the_rows_of_a_table_are_of_another_kernel():
    """A block knows its own rows only; as in graph attention, whose scores are one number a row."""
    indices = indices_of(7, 20)

    def build(emit, at, dy, data):
        sums = emit(op.scatter_nd(data, at, dy, "add"))
        over_rows = emit(op.sum(emit(op.multiply(sums, data)), axis=0, keepdims=True))
        return emit(relax.Tuple([over_rows, emit(op.multiply(sums, data))]))

    def expected(at, dy, data):
        sums = data.copy()
        np.add.at(sums, at[:, 0].astype(int), dy)
        return (sums * data).sum(0, keepdims=True), sums * data

    inputs = [(indices.shape, "int64", indices)]
    inputs += [((20, 8), "float32", None), ((7, 8), "float32", None)]
    check(graph_of(inputs, build, expected), kernels=2)


def test_rows_that_are_not_the_tables_are_reduced_by_another_kernel():
    """The updates' rows are as long, and others; what they are made of would be computed once."""
    indices = indices_of(7, 20)

    def build(emit, at, dy, data):
        updates = emit(op.multiply(dy, relax.const(0.5, "float32")))
        squares = emit(op.sum(emit(op.multiply(updates, dy)), axis=-1, keepdims=True))
        sums = emit(op.scatter_nd(data, at, updates, "add"))
        return emit(relax.Tuple([squares, emit(op.multiply(sums, data))]))

    def expected(at, dy, data):
        sums = data.copy()
        np.add.at(sums, at[:, 0].astype(int), dy * 0.5)
        return (dy * dy * 0.5).sum(-1, keepdims=True), sums * data

    inputs = [(indices.shape, "int64", indices)]
    inputs += [((20, 8), "float32", None), ((7, 8), "float32", None)]
    check(graph_of(inputs, build, expected), kernels=2)


@pytest.mark.slow
def test_a_large_table_moves_its_bytes_once():
    """Three launches and 3.0 times the bytes before: zeros, the table copied, updates added."""
    (kernel,) = explain(embedding_step((30522, 768), 16384).module, H200).kernels
    assert kernel.bytes_planned == kernel.bytes_min
    table, updates = 30522 * 768 * 4, 16384 * (768 * 4 + 8)
    assert kernel.bytes_min == 4 * table + updates


@pytest.mark.parametrize("list_bytes", [1 << 17, 256])
@pytest.mark.parametrize("words", [61, 3])
def test_what_has_no_room_is_listed_by_iterations(monkeypatch, words, list_bytes):
    """With few words, one block is sent more than it has room to list."""
    monkeypatch.setattr(layout, "LIST_BYTES", list_bytes)
    by = Scattered(32, 2, 1, 1, blocks=3)
    schedule_by(monkeypatch, lambda *_: Schedule((by,)))
    verified = check(embedding_step((61, 31), 190, words), kernels=1)
    assert len(verified.kernels) == 1


@pytest.mark.parametrize("words", [61, 1])
def test_rows_are_split_among_neighbouring_blocks(monkeypatch, words):
    by = Scattered(8, 4, 4, 1, blocks=6)
    schedule_by(monkeypatch, lambda *_: Schedule((by,)))
    check(embedding_step((61, 68), 190, words), kernels=1)


def test_a_table_of_many_rows_has_one_wave_of_blocks():
    for count in (16384, 1 << 20):
        (program,) = programs_of(embedding_step_module((30522, 768), count))
        mapping = kind_of(program).choose(problem_of(program, device_of(H200)))
        assert (mapping.reach, mapping.blocks) == (128, 132)


def test_mappings_that_do_not_hold_are_refused():
    programs = programs_of(embedding_step((61, 8), 40).module)
    (program,) = programs
    kind, problem = kind_of(program), problem_of(program, device_of(H200))
    mapping = kind.choose(problem)
    assert kind.refusal(problem, mapping) is None
    for change, reason in (
        ({"steps": 0}, "pieces of a row"),
        ({"blocks": 0}, "pieces of a row"),
        ({"vector": 16}, "do not start at multiples"),
    ):
        refused = kind.refusal(problem, replace(mapping, **change))
        assert refused is not None and re.search(reason, refused.reason), (change, refused)


def programs_of(module):
    (function,) = primfuncs(module, before="StitchSchedule").values()
    return read_programs(function)
