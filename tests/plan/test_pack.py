"""Packing kernels after the program: it costs no more than the best of all packings."""

import random
from dataclasses import replace

import pytest
from planned import DEVICE, read
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.deadline import NEVER
from tvm_stitch.plan.pack import LONGEST_US, Item, Pack, RelatedKernels, pack
from tvm_stitch.plan.planner import Known, _items, _plan_regions
from tvm_stitch.plan.processes.elsewhere import Elsewhere
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.search.judge import Judge

LAUNCH_US = Options().launch_us
KINDS = (op.nn.softmax, op.exp, op.nn.relu, lambda x: op.sum(x, axis=-1))


def planned(regions):
    """The plans of regions, by this process."""
    given = DEVICE, NO_BOUNDS, Options()
    return _plan_regions(
        regions, *given, False, None, Known(), Elsewhere(None, regions, *given, NEVER)
    )


def unrelated(seed: int) -> list[Item]:
    """Kernels of one rank that share nothing: softmaxes, sums and element-wise ones."""
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(2, 5))]
    shapes = [(2 ** rng.randint(2, 13), 2 ** rng.randint(4, 11)) for _ in kinds]

    def build(emit, *inputs):
        return tuple(emit(kind(x)) for kind, x in zip(kinds, inputs, strict=True))

    regions = find_regions(read(graph("float32", shapes, build, lambda *_: ()).module))
    plans = planned(regions)
    return [item for pair in zip(regions, plans, strict=True) for item in _items(*pair)]


def partitions(items):
    """All ways to divide items into sets."""
    if not items:
        yield []
        return
    first, *rest = items
    for division in partitions(rest):
        yield [[first], *division]
        for number, own in enumerate(division):
            yield [*division[:number], [first, *own], *division[number + 1 :]]


def cost(division) -> float:
    """What a division costs; infinite if some set cannot be one kernel, or does not pay."""
    total = 0.0
    for own in division:
        together = Pack.of(own[0])
        for item in own[1:]:
            joined = together.joined(Pack.of(item), LAUNCH_US, RelatedKernels())
            if joined is None:
                return float("inf")
            together = joined
        total += together.cost_us
    return total


@pytest.mark.parametrize("seed", range(12))
def test_no_division_is_cheaper(seed):
    items = unrelated(seed)
    found = sum(each.cost_us for each in pack(items, {}, LAUNCH_US))
    best = min(map(cost, partitions(items)))
    assert found <= best * 1.001


def test_parts_of_blocks_that_do_not_fit_are_refused():
    """A cluster fills a kernel of its own."""

    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.exp(y))

    shapes = [(64, 262144), (64, 64)]
    regions = find_regions(read(graph("float32", shapes, build, lambda *_: ()).module))
    plans = planned(regions)
    items = [item for pair in zip(regions, plans, strict=True) for item in _items(*pair)]
    assert len(pack(items, {}, LAUNCH_US)) == len(items) == 2


@pytest.mark.slow
def test_long_kernels_share_a_launch_where_both_are_in_rounds():
    """Their barriers are the same, and so are the sizes of their blocks."""

    def with_sum(emit, x):
        moved = emit(op.exp(x))
        return moved, emit(op.sum(moved))

    def build(emit, x, y, z):
        return *with_sum(emit, x), *with_sum(emit, y), emit(op.exp(z))

    shapes = [(8192, 4096), (8192, 4099), (8192, 4096)]
    regions = find_regions(read(graph("float32", shapes, build, lambda *_: ()).module))
    plans = planned(regions)
    items = [item for pair in zip(regions, plans, strict=True) for item in _items(*pair)]
    packs = pack(items, {}, LAUNCH_US)
    assert [item.cost_us > LONGEST_US for item in items] == [True] * 3
    assert sorted(len(each.items) for each in packs) == [1, 2]


def test_equal_kernels_of_other_inputs_share_none():
    """Two softmaxes read twice as much as one, though one kernel was chosen for both."""

    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.nn.softmax(y))

    shapes = [(2048, 512)] * 2
    regions = find_regions(read(graph("float32", shapes, build, lambda *_: ()).module))
    plans = planned(regions)
    one, other = (Pack.of(_items(*pair)[0]) for pair in zip(regions, plans, strict=True))
    together = one.joined(other, LAUNCH_US, RelatedKernels())
    read_and_written = 4 * 2048 * 512 * 4
    assert one.items[0].verdict.kernel is other.items[0].verdict.kernel
    assert together.cost_us > read_and_written / DEVICE.bandwidth * 1e6


def items_of(build, *sets: tuple[int, ...]) -> list[Item]:
    """Kernels of these nodes of a graph that has one region."""
    shapes = [(64, 512), (512,)]
    (region,) = find_regions(read(graph("float32", shapes, build, lambda *_: ()).module))
    judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
    found = []
    for places in sets:
        nodes = sum(1 << place for place in places)
        verdict = judge(nodes)
        cost = verdict.cost_us + LAUNCH_US
        found.append(Item(region, (0, 0, 0), nodes, verdict.outputs, cost, cost, verdict))
    return found


def test_kernels_that_read_the_same_are_one_that_reads_it_once():
    def build(emit, x, _):
        return emit(op.exp(x)), emit(op.nn.relu(x))

    items = items_of(build, (0,), (1,))
    (found,) = pack(items, {}, LAUNCH_US)
    assert found.related and found.items == tuple(items)
    assert found.cost_us < sum(item.cost_us for item in items) - LAUNCH_US


def test_what_two_kernels_compute_is_one_value_once_they_are_merged():
    """Which one kernel does not write beside what is larger; two kernels would seem to."""

    def build(emit, x, y):
        bias = emit(op.exp(y))
        return bias, emit(op.add(x, bias))

    small, large = items_of(build, (0,), (0, 1))
    large = replace(large, outputs=large.outputs[1:])
    assert len(pack([small, large], {}, LAUNCH_US)) == 2
