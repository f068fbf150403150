"""Regions that one kernel does best are known without a search, and a search would agree."""

import pytest
from planned import DEVICE, random_module, read
from tvm import relax
from tvm.relax import op
from zoo import ZOO, graph

from tvm_stitch import Options
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.region_plan import problem_of
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.search.candidates import find_candidates
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.plan.search.whole import MANY_OPERATORS, whole_kernel
from tvm_stitch.plan.solve import solve

OPTIONS = Options()


def judged(module) -> list[Judge]:
    """The regions of a module."""
    return [Judge(r, DEVICE, NO_BOUNDS, OPTIONS.schemes) for r in find_regions(read(module))]


def least_us(judge: Judge) -> float:
    """What the cheapest kernels of a region cost, of all candidates."""
    candidates = find_candidates(judge.region, judge, OPTIONS)
    problem = problem_of(judge.region, candidates, OPTIONS)
    return solve(problem, candidates.greedy).cost


def modules():
    yield from (make("float16").module for make in ZOO.values())
    yield from (random_module(seed, operators=8) for seed in range(30))


@pytest.mark.slow
def test_a_search_finds_nothing_that_costs_less():
    whole = apart = 0
    for judge in (judge for module in modules() for judge in judged(module)):
        kernel = whole_kernel(judge.region, judge, OPTIONS)
        if kernel is None:
            apart += 1
            continue
        whole += 1
        assert kernel.cost_us + OPTIONS.launch_us <= least_us(judge) + 1e-4
    assert whole > 10 and apart > 10


def after_a_product(then):
    def build(emit, x, w, b):
        return then(emit, emit(op.add(emit(op.matmul(x, w)), b)))

    return graph("float32", [(512, 512), (512, 512), (512,)], build, lambda *_: ()).module


@pytest.mark.parametrize(
    ("then", "is_whole"),
    [
        (lambda emit, x: emit(op.nn.relu(x)), False),
        (lambda emit, x: emit(op.astype(x, "float16")), False),
        (lambda emit, x: emit(op.nn.softmax(x)), True),
        (lambda emit, x: emit(op.nn.softmax(emit(op.multiply(x, relax.const(2.0))))), True),
    ],
)
def test_what_a_product_may_end_with_is_looked_at(then, is_whole):
    (judge,) = judged(after_a_product(then))
    assert (whole_kernel(judge.region, judge, OPTIONS) is not None) == is_whole


def test_no_other_set_is_asked_about():
    module = graph("float16", [(64, 512)], lambda emit, x: emit(op.nn.softmax(x)), lambda x: ())
    (judge,) = judged(module.module)
    assert whole_kernel(judge.region, judge, OPTIONS) is not None
    assert len(judge.known) == 1


def normed(emit, x):
    centred = emit(op.subtract(x, emit(op.mean(x, (0, 1, 2), keepdims=True))))
    square = emit(op.mean(emit(op.multiply(centred, centred)), (0, 1, 2), keepdims=True))
    return emit(op.multiply(centred, emit(op.rsqrt(emit(op.add(square, relax.const(1e-5)))))))


@pytest.mark.slow
def test_windows_of_what_one_kernel_computes_again_are_searched():
    """However many operators: two kernels compute far less."""

    def build(emit, x, w):
        y = normed(emit, x)
        for _ in range(MANY_OPERATORS - 15):
            y = emit(op.multiply(y, relax.const(1.01)))
        how = {"padding": 1, "groups": 16, "data_layout": "NHWC", "kernel_layout": "HWOI"}
        return normed(emit, emit(op.nn.conv2d(y, w, **how)))

    shapes = [(32, 112, 112, 16), (3, 3, 16, 1)]
    (judge,) = judged(graph("float32", shapes, build, lambda *_: ()).module)
    assert whole_kernel(judge.region, judge, OPTIONS) is None
    assert least_us(judge) < 1000
