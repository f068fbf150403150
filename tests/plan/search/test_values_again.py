"""Sets that compute what they read of each other: all of a writer's values, and each alone."""

import pytest
from planned import DEVICE, read
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.search import candidates
from tvm_stitch.plan.search.computed_again import Again, computing_again
from tvm_stitch.plan.search.judge import Judge


def of_three_values(most=4):
    """Sums of three values, in another set than what computes these; and what is found of it."""

    def build(emit, x, y):
        values = [emit(op.exp(x)), emit(op.multiply(x, y)), emit(op.add(x, y))]
        return [emit(op.sum(each, axis=1)) for each in values]

    module = graph("float32", [(64, 96)] * 2, build, lambda *_: ()).module
    (region,) = find_regions(read(module))
    judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
    writer = sum(1 << place for place in range(6) if not judge.reduces(1 << place))
    reader = region.everything & ~writer
    return writer, reader, computing_again(region, judge, [writer, reader], most)


def test_all_values_at_once_and_each_alone():
    writer, reader, found = of_three_values()
    assert [nodes for nodes, _ in found.together] == [writer | reader]
    readers = [nodes for nodes, _ in found.single if nodes != writer]
    assert len(readers) == 3 and all((nodes & ~reader).bit_count() == 1 for nodes in readers)
    # The writer goes without each; without all of them nothing is left to write.
    fewer = [outputs for nodes, outputs in found.single if nodes == writer]
    assert [len(outputs) for outputs in fewer] == [2, 2, 2]


def test_nothing_of_more_operators_than_are_allowed():
    _, _, found = of_three_values(most=0)
    assert not found.together and not found.single


@pytest.mark.parametrize(("effort", "tried"), [(0, 0), (5, 1), (20, 5), (1000, 6)])
def test_single_values_are_tried_as_far_as_there_is_effort_left(monkeypatch, effort, tried):
    """Six sets of four operators each."""
    asked = []
    sets = tuple((0b1111 << place, ()) for place in range(6))
    monkeypatch.setattr(candidates, "AGAIN", effort)
    monkeypatch.setattr(candidates, "computing_again", lambda *_: Again((), sets))
    monkeypatch.setattr(candidates._Search, "_stitched", lambda _, *each: asked.append(each))
    module = graph("float32", [(8, 8)], lambda emit, x: emit(op.exp(x)), lambda *_: ()).module
    (region,) = find_regions(read(module))
    judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
    candidates._Search(region, judge, Options())._duplicate([])
    assert asked == list(sets[:tried])
