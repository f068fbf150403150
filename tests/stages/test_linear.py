"""Positions as numbers say what TVM's analyzer proves; copies of a stage answer as it does."""

import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

from tvm_stitch.stages import linear
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import bind_axes, find_reads, handle, interned
from tvm_stitch.stages.visit import mapped, walked

A = te.placeholder((6, 4), "float32", "a")
ROW = te.placeholder((1, 4), "float32", "row")
FLAT = te.placeholder((24,), "float32", "flat")
PLACES = te.placeholder((6,), "int64", "places")


def computed(shape, function):
    return te.compute(shape, function, "out")


CASES = {
    "own element": computed((6, 4), lambda i, j: A[i, j] + 1.0),
    "transposed": computed((4, 6), lambda i, j: A[j, i]),
    "row by row": computed((6, 4), lambda i, j: FLAT[i * 4 + j]),
    "column by column": computed((6, 4), lambda i, j: FLAT[j * 6 + i]),
    "backwards": computed((6, 4), lambda i, j: A[5 - i, j]),
    "axis of one element": computed((1, 4), lambda i, j: ROW[i, j] * ROW[0, j]),
    "shifted": computed((5, 4), lambda i, j: A[i + 1, j]),
    "divided": computed((24,), lambda i: A[i // 4, i % 4]),
    "looked up": computed((6, 4), lambda i, j: A[PLACES[i], j]),
    "guarded": computed((6, 4), lambda i, j: tirx.if_then_else(i < 3, A[i, j], A[5 - i, j])),
    "twice": computed((6, 4), lambda i, j: A[i, j] * A[i, j]),
    "summed rows": topi.sum(A, axis=1),
    "summed columns": topi.sum(A, axis=0),
    "summed up": topi.sum(A),
}


def stage_of(output):
    inputs = [tensor for tensor in (A, ROW, FLAT, PLACES) if tensor.op in inputs_of(output)]
    (stage,) = read_stages(te.create_prim_func([*inputs, output]))
    return stage


def inputs_of(output):
    return [tensor.op for tensor in output.op.input_tensors]


@pytest.mark.parametrize("name", CASES)
def test_numbers_say_what_the_analyzer_proves(name):
    stage = stage_of(CASES[name])
    own = linear.own_position(stage)
    found = [own.is_read_by(number) for number in range(len(stage.reads))]
    prove = bind_axes(stage).can_prove_equal
    assert found == [bool(prove(read.place, own.expr)) for read in stage.reads]


def test_what_takes_divisions_or_memory_is_no_sum_of_axes():
    assert linear.places(stage_of(CASES["divided"])) == (None,)
    assert None in linear.places(stage_of(CASES["looked up"]))
    assert None not in linear.places(stage_of(CASES["backwards"]))


def test_symbolic_extents_are_left_to_the_analyzer():
    rows = te.var("n", "int64")
    x = te.placeholder((rows, 4), "float32", "x")
    (stage,) = read_stages(te.create_prim_func([x, topi.exp(x)]))
    assert linear.sizes(stage) is None and linear.places(stage) == (None,)
    assert classify((stage,)) is Pattern.ELEMENTWISE


@pytest.mark.parametrize("name", CASES)
def test_a_copy_reads_other_buffers_at_the_same_places(name):
    stage = stage_of(CASES[name])
    buffers = [interned(read.buffer) for read in stage.reads]
    mapping = {b: tirx.decl_buffer(b.ty.shape, b.ty.dtype, f"{b.name}_other") for b in buffers}
    output = tirx.decl_buffer(stage.output.ty.shape, stage.output.ty.dtype, "output")
    copy = stage.copied({**mapping, stage.output: output})
    assert copy.output.same_as(output)
    anew = find_reads(copy.value)
    assert [read.key for read in copy.reads] == [read.key for read in anew]
    assert [r.buffer.name for r in copy.reads] == [f"{b.name}_other" for b in buffers]
    pairs = zip(copy.reads, anew, strict=True)
    assert all(tvm_ffi.structural_equal(one.guard, other.guard) for one, other in pairs)
    assert classify((copy,)) is classify((stage,))


def test_copies_share_answers_that_name_no_buffer():
    stage = stage_of(CASES["own element"])
    other = tirx.decl_buffer((6, 4), "float32", "other")
    copy = stage.copied({stage.reads[0].buffer: other})
    assert linear.places(copy) is linear.places(stage)
    assert copy.memo is not stage.memo


def test_walks_and_maps_are_those_of_tvm():
    stage = stage_of(CASES["guarded"])
    loads, same = [], []
    walked(stage.value, (tvm.ir.TensorLoad, loads.append))
    tvm_ffi.structural_walk(stage.value, (tvm.ir.TensorLoad, same.append))
    assert list(map(handle, loads)) == list(map(handle, same))

    def next_one(number):
        return tirx.IntImm(number.ty.dtype, number.value + 1)

    for order in ("pre", "post"):
        found = mapped(stage.value, (tirx.IntImm, next_one), pre=order == "pre")
        wanted = tvm_ffi.structural_map(stage.value, (tirx.IntImm, next_one), order=order)
        assert tvm_ffi.structural_equal(found, wanted)
