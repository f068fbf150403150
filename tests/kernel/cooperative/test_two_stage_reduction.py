"""Into how many partials a reduction falls, and which final sums become one."""

import pytest
from tvm import te, topi

from tvm_stitch.kernel.cooperative.rounds import make_rounds
from tvm_stitch.kernel.cooperative.split_reduction import split
from tvm_stitch.kernel.cooperative.two_stage_reduction import in_two_stages
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import constant


def stages_of(*tensors):
    """The stages of tensors, of which the last is the output."""
    return read_stages(te.create_prim_func(list(tensors)))


def partials_of(shape, axes):
    """The extents of the partials of a sum over axes, and of what each is reduced over."""
    x = te.placeholder(shape, "float32", name="x")
    (stage,) = stages_of(x, topi.sum(x, axes))
    two_stage = split(stage)
    if two_stage is None:
        return None
    return tuple(map(constant, two_stage.partials.extents)), constant(
        two_stage.partials.reduced_size
    )


@pytest.mark.parametrize(
    "shape, axes, partials, each",
    [
        # Rows that are reduced: segments of them, each with a partial of every column.
        ((8192, 1000), (0,), (256, 1000), 32),
        ((8192, 1024), (0,), (32, 1024), 256),  # in pieces of 128 columns: fewer segments
        ((3, 8192, 1000), (1,), (3, 64, 1000), 128),
        ((100, 40), (0,), (10, 40), 10),  # of 8 rows at least, where they divide
        # One long row: chunks of whole vectors, if they are half as long as others at least.
        ((1 << 22,), (0,), (512,), 8192),
        ((74088,), (0,), (21,), 3528),  # not 12 of 6174
        ((131056,), (0,), (16,), 8191),
        # A chunk of all: nothing to divide it by.
        ((8209,), (0,), (1,), 8209),
    ],
)
def test_partials(shape, axes, partials, each):
    assert partials_of(shape, axes) == (partials, each)


def totals(count):
    """The partials of which one sum is made, where so many sums of squares are added up."""
    tensors = [te.placeholder((64, 4096), "float32", name=f"x{n}") for n in range(count)]
    total = topi.sum(topi.multiply(tensors[0], tensors[0]))
    for each in tensors[1:]:
        total = topi.add(total, topi.sum(topi.multiply(each, each)))
    stages = stages_of(*tensors, topi.sqrt(total))
    _, _, slices = in_two_stages(stages, (stages[-1].output,))
    return [len(partials) for partials in slices.values()]


@pytest.mark.parametrize("count, joined", [(1, []), (2, [2]), (5, [5])])
def test_sums_that_are_added_up_are_one_sum(count, joined):
    assert totals(count) == joined


def mean(x, rows):
    return topi.multiply(topi.sum(x, 0, keepdims=True), 1.0 / rows)


def variance(x, rows):
    centre = topi.subtract(x, mean(x, rows))
    return topi.sqrt(mean(topi.multiply(centre, centre), rows))


def shares(x, rows):
    powers = topi.exp(topi.subtract(x, topi.max(x, 0, keepdims=True)))
    return topi.divide(powers, topi.sum(powers, 0, keepdims=True))


@pytest.mark.parametrize("statistic", [variance, shares])
def test_rounds_are_those_of_the_set_whatever_was_asked_before(statistic, rows=1024):
    """Of halves a block has pieces of twice as many columns, and a column as many more partials."""

    def sets():
        y = te.placeholder((rows, 768), "float16", name="y")
        stages = stages_of(y, statistic(topi.cast(y, "float32"), rows))
        return stages, stages[1:]  # of what is cast already in the second one

    def shown(stages):
        return [*map(str, make_rounds(stages, (stages[-1].output,)))]

    alone = [shown(sets()[number]) for number in range(2)]
    assert alone[0] != alone[1]
    for order in [(0, 1), (1, 0)]:
        asked = sets()
        assert {number: shown(asked[number]) for number in order} == dict(enumerate(alone))
