"""What a stage computes again of another one is read at indices that are as simple as can be."""

from dataclasses import replace

import numpy as np
import pytest
from check import check, program_of
from tvm.relax import op
from zoo import Case, graph_of

from tvm_stitch.kernel.analysis.addressing import Frame, Stride
from tvm_stitch.kernel.ir.inlining import all_reads, with_inlined


def resized(groups: int, channels: int, side: int, positions: np.ndarray) -> Case:
    """Images with channels last that are seen with channels first, where memory says which pixels.

    As an interpolation between convolutions of groups has it, whose positions are tables.
    """
    where, count = positions.astype("int32"), len(positions)

    def build(emit, x, rows, columns):
        first = emit(op.permute_dims(x, [0, 3, 1, 2]))
        images = emit(op.reshape(first, (groups, channels, side, side)))
        squares = emit(op.multiply(images, images))
        found = emit(op.take(emit(op.take(squares, rows, axis=2)), columns, axis=3))
        together = emit(op.reshape(found, (1, groups * channels, count, count)))
        return emit(op.permute_dims(together, [0, 2, 3, 1]))

    def expected(x, rows, columns):
        return (x * x)[:, rows][:, :, columns]

    inputs = [((1, side, side, groups * channels), "float32", None)]
    return graph_of(inputs + 2 * [(where.shape, "int32", where)], build, expected)


@pytest.mark.parametrize("groups, channels, side", [(2, 24, 8), (3, 16, 5), (4, 8, 6)])
def test_positions_from_memory_are_those_of_a_tensor(groups, channels, side):
    """Behind a reshape, what is divided by the pixels of an image is its channel: a vector of them
    is read at once."""
    positions = np.random.default_rng(0).integers(0, side, 2 * side - 1)
    case = resized(groups, channels, side, positions)
    program = program_of(case.module)
    found = [Frame(program).address(*each) for each in program.reads if each[1].buffer.name == "p0"]
    assert [(each.stride, each.from_memory) for each in found] == len(found) * [(Stride.UNIT, True)]
    assert found
    check(case, orders=2)


def test_what_is_inlined_is_of_the_stage_that_computes_it_now():
    """A value may be computed by several stages, such as one that reads others in another order."""

    def build(emit, x, y):
        return emit(op.exp(emit(op.add(x, y))))

    inputs = [((4, 8), "float32", None)] * 2
    first, last = program_of(graph_of(inputs, build, lambda *_: ()).module).stages
    other = replace(first, value=first.reads[0].load)
    for stage in (first, other, first):
        found = with_inlined(last, all_reads(last), {first.output: stage})
        assert {r.buffer for r in found.reads} == {r.buffer for r in stage.reads}
