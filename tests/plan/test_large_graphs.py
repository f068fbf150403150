"""Graphs of more operators than are searched as a whole: parts, equal parts, and the time limit."""

import itertools
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from check import H200, stitched
from planned import DEVICE, assert_sound, graph_and_plan, read
from tvm import relax
from tvm.relax import op
from zoo import graph

from bench.planning.families import FAMILIES
from tvm_stitch import Options, explain, transform
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.deadline import NOT_PLANNED, REACHED, Deadline
from tvm_stitch.plan.region_plan import plan_region
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.regions.parts import LEAST_OPERATORS, MOST_OPERATORS
from tvm_stitch.plan.search.greedy import greedy_sets
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.plan.search.whole import whole_kernel
from tvm_stitch.target import cuda_target


def module(build, inputs=1, shape=(64, 128)):
    return graph("float32", [shape] * inputs, build, lambda *_: ()).module


def chain(length):
    """Element-wise operators one behind the other."""

    def build(emit, x):
        for number in range(length):
            x = emit((op.exp, op.tanh, op.nn.relu)[number % 3](x))
        return x

    return module(build)


def scaled_sums(count):
    """Sums of the rows of one input, each scaled by a number of its own."""

    def build(emit, x):
        scaled = [emit(op.multiply(x, relax.const(1.0 + n, "float32"))) for n in range(count)]
        return tuple(emit(op.sum(each, axis=-1)) for each in scaled)

    return module(build)


def test_parts_wait_for_earlier_ones_alone():
    found = read(chain(600))
    regions = find_regions(found)
    assert [len(region.indices) for region in regions] == [256, 256, 88]
    done = set()
    for region in regions:
        assert len(region.indices) <= MOST_OPERATORS
        done.update(region.indices)
        assert all(found.sources[index] <= done for index in region.indices)


@pytest.mark.slow
def test_a_long_chain_is_as_many_kernels_as_it_must_be_and_says_what_its_parts_may_cost():
    found, plan = graph_and_plan(chain(600))
    assert_sound(found, plan)
    assert len(plan.groups) == 3 == plan.solved.parts
    assert plan.solved.parts_us > 0 and 0 < plan.solved.gap < 1
    assert plan.cuts[0].reason.startswith("they are parts of a region")


@pytest.mark.slow
def test_the_report_tells_of_parts():
    report = str(explain(chain(300), cuda_target({"kind": "cuda", "arch": "sm_90"})))
    assert "2 are parts of larger ones" in " ".join(report.split())


def test_a_cut_is_where_fewest_bytes_cross():
    """A narrow place among wide ones, between the least and the most operators of a part."""
    narrow = LEAST_OPERATORS + 40

    def build(emit, x, y):
        for number in range(300):
            x = emit(op.tanh(x))
            if number == narrow:
                small = emit(op.sum(x, axis=1, keepdims=True))
                x = emit(op.add(y, small))
        return x

    first, _ = find_regions(read(module(build, inputs=2)))
    assert first.nodes[-1].name == "sum"


@pytest.mark.slow
def test_repeated_blocks_are_cut_into_equal_parts():
    def build(emit, x):
        for _ in range(240):
            x = emit(op.nn.softmax(x))
        return x

    _, plan = graph_and_plan(module(build))
    assert plan.solved.parts == 5 and plan.solved.distinct == 2


def test_many_sums_of_one_input_are_few_kernels():
    found, plan = graph_and_plan(scaled_sums(200))
    assert_sound(found, plan)
    assert len(plan.groups) == 2


@pytest.mark.parametrize("length", [60, 240])
def test_a_chain_is_judged_as_a_whole_before_it_is_judged_operator_by_operator(length):
    (region,) = find_regions(read(chain(length)))
    judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
    atoms = [1 << place for place in range(length)]
    assert greedy_sets(region, judge, atoms, 256) == [region.everything]
    assert len(judge.known) == 1


def test_sets_of_equal_structure_have_one_kernel():
    def build(emit, x, y):
        return emit(op.exp(x)), emit(op.exp(y)), emit(op.add(x, y))

    (region,) = find_regions(read(module(build, inputs=2)))
    judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
    one, other = judge(1), judge(2)
    assert one.kernel is other.kernel and one.outputs != other.outputs
    assert judge(4).kernel is not one.kernel


@pytest.mark.slow
@pytest.mark.parametrize("build", [chain, scaled_sums])
def test_each_operator_is_judged_about_as_often_in_large_graphs_as_in_small_ones(build):
    """Seconds are the machine's; how many operators are judged, each set anew, is ours."""

    def judged(size: int) -> float:
        counts = []
        judge = Judge._kernel

        def counted(self, nodes, *rest):
            counts.append(nodes.bit_count())
            return judge(self, nodes, *rest)

        with mock.patch.object(Judge, "_kernel", counted):
            found, _ = graph_and_plan(build(size))
        return sum(counts) / len(found.nodes)

    small, large = judged(150), judged(600)
    assert large <= 1.3 * small + 1


def test_stages_of_one_function_are_looked_at_once():
    found = read(chain(60))
    (stages,) = {len(node.stages) for node in found.nodes}
    assert stages == 1
    shared = {id(node.stages[0].copies_memo) for node in found.nodes}
    assert len(shared) == 3  # exp, tanh, relu


@pytest.mark.slow
def test_no_recursion_goes_as_deep_as_the_graph():
    ready, limit = chain(1200), sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    try:
        _, plan = graph_and_plan(ready)
    finally:
        sys.setrecursionlimit(limit)
    assert len(plan.groups) == 5


def test_what_planning_does_not_come_to_in_time_is_left_to_tvm():
    found, plan = graph_and_plan(chain(300), Options(time_limit_s=1e-9))
    assert_sound(found, plan)
    assert not plan.groups and plan.solved.status == "time limit"
    assert {fallback.reason for fallback in plan.fallbacks} == {NOT_PLANNED}


def test_where_the_time_ends_one_kernel_of_the_whole_region_will_do():
    def build(emit, x):
        squares = emit(op.sum(emit(op.multiply(x, x))))
        return emit(op.divide(x, emit(op.sqrt(squares))))

    (region,) = find_regions(read(module(build, shape=(512, 1024))))
    options = Options()
    judge = Judge(region, DEVICE, NO_BOUNDS, options.schemes)
    assert whole_kernel(region, judge, options) is None, "it is proven to be the best"
    plan = plan_region(region, judge, options, Deadline(0.0))
    (pick,) = plan.picks
    assert pick.nodes == region.everything and plan.solved.status == REACHED
    assert plan.solved.bound_us == 0.0 and plan.solved.cost_us == pick.cost_us


class Clock:
    """It goes on by a second with each set of operators that somebody asks kernel/ about."""

    def __init__(self, monkeypatch):
        self.asked = 0
        monkeypatch.setattr("tvm_stitch.plan.deadline.time", self)
        for asks in ("search.judge", "pack"):
            monkeypatch.setattr(f"tvm_stitch.plan.{asks}.choose_kernel", self.choose_kernel)

    def monotonic(self):
        return float(self.asked)

    def choose_kernel(self, *arguments, **named):
        self.asked += 1
        return choose_kernel(*arguments, **named)


@pytest.mark.parametrize("family", ["LAMB, clipped", "alternating reductions", "random DAG"])
@pytest.mark.parametrize("seconds", [1, 25])
def test_nothing_of_planning_goes_on_when_the_time_is_up(family, seconds, monkeypatch):
    """But for what is judged just then, with its half or its share beside it."""
    clock = Clock(monkeypatch)
    found, plan = graph_and_plan(FAMILIES[family](300), Options(time_limit_s=seconds))
    assert_sound(found, plan)
    assert seconds <= clock.asked <= seconds + 8 and plan.solved.status == REACHED


def test_products_that_stand_alone_are_not_asked_about_when_the_time_is_up(monkeypatch):
    """Each of 60 of one input is a region of nothing else; they could share launches."""

    def build(emit, x, *weights):
        return [emit(op.matmul(x, weight)) for weight in weights]

    shapes = [(64, 512), *[(512, 256 + 8 * n) for n in range(60)]]
    module = graph("float16", shapes, build, lambda x, *ws: tuple(x @ w for w in ws)).module
    clock = Clock(monkeypatch)
    found, plan = graph_and_plan(module, Options(time_limit_s=10))
    assert_sound(found, plan)
    assert clock.asked <= 18
    clock.asked = 0
    graph_and_plan(module, Options())
    assert clock.asked > 18


def test_reading_takes_of_the_time(monkeypatch):
    """A clock that goes on by a second each time that it is asked."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr("tvm_stitch.plan.deadline.time", clock)
    real = transform.read_block

    def read_slowly(*arguments):
        for _ in range(100):
            clock.monotonic()
        return real(*arguments)

    monkeypatch.setattr(transform, "read_block", read_slowly)
    log = []
    ready = stitched(chain(300), before="StitchOps")
    transform.StitchOps(H200, Options(time_limit_s=50), log)(ready)
    assert [plan.solved.status for plan in log] == [REACHED] and not log[0].groups


def test_a_plan_is_the_same_whatever_the_time_if_that_is_enough():
    one, other = (
        graph_and_plan(chain(300), Options(time_limit_s=seconds))[1] for seconds in (100, 1000)
    )
    assert [g.nodes for g in one.groups] == [g.nodes for g in other.groups]
    assert one.solved == other.solved
