"""Stages placed in one space of rows and columns, or why they have none."""

import numpy as np
from check import check, program_of
from tvm import te, topi
from tvm.relax import op
from zoo import graph, layer_norm, softmax

from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.partition import make_programs
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused, constant


def program(inputs, outputs) -> Program | Refused:
    """The program of a tensor expression."""
    function = te.create_prim_func([*inputs, *outputs])
    stages = read_stages(function)
    assert not isinstance(stages, Refused), stages
    return make_program(stages, tuple(function.params[len(inputs) :]))


def tensor(*shape, name="x"):
    return te.placeholder(shape, "float32", name)


def size_of(found: Program) -> tuple[int, int]:
    return constant(found.space.rows), constant(found.space.columns)


def test_rows_are_what_reductions_keep():
    found = program_of(softmax("float32", 6, 100).module)
    assert size_of(found) == (6, 100)
    assert found.reduces and found.space.whole
    assert repr(found).startswith("program over 6 rows x 100 columns")


def test_without_reductions_all_elements_are_one_row():
    x = tensor(4, 5)
    found = program([x], [topi.exp(x)])
    assert size_of(found) == (1, 20) and not found.reduces


def test_trailing_axes_are_one_row():
    x = tensor(4, 5, 6)
    assert size_of(program([x], [topi.sum(x, axis=[1, 2])])) == (4, 30)


def test_values_are_full_or_one_a_row():
    found = program_of(layer_norm("float32", 6, 100).module)
    full = [found.is_full(stage.output) for stage in found.stages if not stage.is_reduction]
    assert True in full and False in full  # the centred row, and its deviation


def test_where_reads_go():
    x, scale, bias = tensor(4, 5), tensor(4, 1, name="scale"), tensor(5, name="bias")
    total = topi.sum(topi.add(topi.multiply(x, scale), bias), axis=1)
    found = program([x, scale, bias], [total])
    places = {
        read.buffer.name: found.place(stage, read) for stage in found.stages for read in stage.reads
    }
    assert places["x"] is Where.SAME
    assert places["scale"] is Where.ROW
    assert places["bias"] is Where.OTHER


def test_what_is_read_elsewhere_is_computed_there():
    x = tensor(4, 5)
    found = program([x], [topi.transpose(topi.exp(x))])
    assert len(found.stages) == 1


def test_a_reduction_over_one_element_is_that_element():
    x = tensor(4, 1)
    assert not program([x], [topi.sum(x, axis=1)]).reduces


def test_unrelated_parts_are_programs_of_their_own():
    x, y = tensor(4, 5), tensor(7, 3, name="y")
    function = te.create_prim_func([x, y, topi.sum(x, axis=1), topi.max(y, axis=1)])
    found = make_programs(read_stages(function), tuple(function.params[2:]))
    assert [size_of(part) for part in found] == [(4, 5), (7, 3)]


def test_parts_that_read_the_same_rows_are_one_program():
    found = program_of(
        graph(
            "float32",
            [(4, 5)],
            lambda emit, x: (emit(op.sum(x, axis=-1)), emit(op.max(x, axis=-1))),
            lambda x: (x.sum(-1), x.max(-1)),
        ).module
    )
    assert len(found.outputs) == 2


def test_rows_in_pieces():
    """A batch norm's statistics: a piece of the row in every image."""
    x = tensor(4, 5, 64)
    found = program([x], [topi.sum(x, axis=[0, 2])])
    assert size_of(found) == (5, 256)
    assert constant(found.space.run) == 64 and not found.space.whole


# Refusals


def refusal(inputs, outputs) -> str:
    found = program(inputs, outputs)
    assert isinstance(found, Refused), found
    return found.reason


def test_outputs_of_different_sizes():
    x, y = tensor(4, 5), tensor(4, 6, name="y")
    assert "outputs of different sizes" in refusal([x, y], [topi.exp(x), topi.exp(y)])


def test_reductions_of_different_rows():
    x = tensor(4, 5, 6)
    reason = refusal([x], [topi.sum(x, axis=2), topi.sum(x, axis=[1, 2])])
    assert reason.endswith("reduce different rows: 20 x 6 and 4 x 30")


def test_outputs_that_fit_neither_rows_nor_elements():
    x, y = tensor(4, 5), tensor(3, name="y")
    assert "3 elements, which is neither one a row" in refusal(
        [x, y], [topi.sum(x, axis=1), topi.exp(y)]
    )


def test_results_of_other_rows():
    x = tensor(4, 4)
    total = topi.sum(x, axis=1)
    assert "of other rows" in refusal([x], [topi.subtract(x, total)])


def test_outputs_that_nothing_computes():
    x = tensor(4, 5)
    function = te.create_prim_func([x, topi.exp(x)])
    found = make_program(read_stages(function), (function.params[0],))
    assert found == Refused("output x is computed by no stage")


def shifted(value):
    """Every element becomes its neighbour, the last one the first."""
    return te.compute((100,), lambda i: value[(i + 1) % 100] * 2, "shifted")


def test_short_chains_of_reads_elsewhere_are_one_stage():
    x = tensor(100)
    assert len(program([x], [shifted(shifted(shifted(x)))]).stages) == 1


def test_indices_do_not_grow_without_end():
    value = x = tensor(100)
    for _ in range(20):
        value = shifted(value)
    assert refusal([x], [value]).endswith("at too long an index")


def test_sums_of_neighbours_are_not_computed_again_and_again():
    def with_neighbours(value):
        return te.compute((100,), lambda i: value[(i + 1) % 100] + value[(i + 2) % 100], "sum")

    value = x = tensor(100)
    for _ in range(8):
        value = with_neighbours(value)
    assert refusal([x], [value]).endswith("reads computed values at too many places")


def test_an_index_is_simplified_by_the_branch_that_it_stands_in():
    """Rotary embeddings of interleaved halves, behind a first token that has none."""

    def build(emit, x, cos, sin):
        heads = emit(op.permute_dims(emit(op.reshape(x, (2, 9, 3, 3, 8))), [2, 0, 3, 1, 4]))
        query = emit(op.reshape(emit(op.strided_slice(heads, [0], [0], [1])), (2, 3, 9, 8)))
        first = emit(op.strided_slice(query, [2], [0], [1]))
        rest = emit(op.strided_slice(query, [2], [1], [9]))
        even, odd = (emit(op.strided_slice(rest, [3], [n], [8], [2])) for n in (0, 1))
        pairs = [emit(op.expand_dims(each, -1)) for each in (emit(op.negative(odd)), even)]
        turned = emit(op.reshape(emit(op.concat(pairs, -1)), (2, 3, 8, 8)))
        moved = emit(op.add(emit(op.multiply(rest, cos)), emit(op.multiply(turned, sin))))
        return emit(op.concat([first, moved], 2))

    def expected(x, cos, sin):
        query = x.reshape(2, 9, 3, 3, 8).transpose(2, 0, 3, 1, 4)[0]
        rest = query[:, :, 1:]
        turned = np.stack([-rest[..., 1::2], rest[..., ::2]], -1).reshape(rest.shape)
        return np.concatenate([query[:, :, :1], rest * cos + turned * sin], 2)

    check(graph("float16", [(2, 9, 72), (8, 8), (8, 8)], build, expected))
