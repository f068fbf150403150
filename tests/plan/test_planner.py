"""Plans: groups are as large as kernels allow, form no cycle, and leave nothing out."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
import tvm
from brute_force import brute_force
from check import H200, check, plan_of, primfuncs_of, stitched
from planned import DEVICE, GREEDY, PARTITION, assert_sound, graph_and_plan, random_module, read
from tvm import relax
from tvm.relax import op
from zoo import ZOO, graph, softmax64

from tvm_stitch import Options
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.plan.plan import Plan
from tvm_stitch.plan.region_plan import problem_of
from tvm_stitch.plan.regions.levels import find_regions
from tvm_stitch.plan.regions.region import bits
from tvm_stitch.plan.search.candidates import Way, find_candidates
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.plan.solve import solve
from tvm_stitch.stages.op_pattern import Pattern


@pytest.mark.spread(7)
@pytest.mark.parametrize("seed", range(40))
def test_random_plans_are_sound_and_no_worse_than_greedy(seed):
    found, plan = graph_and_plan(random_module(seed, operators=20))
    assert_sound(found, plan)
    assert plan.solved.status == "optimal"
    assert plan.solved.cost_us <= plan.solved.greedy_us + 1e-6
    # A kernel that need not write what another writes already is asked for anew afterwards.
    assert plan.solved.gap < 0.02


@pytest.mark.spread(6)
@pytest.mark.parametrize("options", [PARTITION, GREEDY], ids=["partition", "greedy"])
@pytest.mark.parametrize("seed", range(12))
def test_other_plans_are_sound(seed, options):
    found, plan = graph_and_plan(random_module(seed, operators=20), options)
    assert_sound(found, plan)
    if options.partition:
        nodes = [index for group in plan.groups for index in group.nodes]
        assert len(nodes) == len(set(nodes)), "a node is computed twice"


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_brute_force_over_the_same_candidates(seed):
    """Among the candidates of a real region: every set of them that writes what is needed."""
    for region in find_regions(read(random_module(seed, operators=5))):
        judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
        found = find_candidates(region, judge, Options())
        problem = problem_of(region, found, Options())
        fewer = replace(problem, choices=problem.choices[:12])
        solution = solve(fewer)
        best = brute_force(fewer)
        assert (solution.cost if solution else float("inf")) == pytest.approx(best, rel=1e-6)


@pytest.mark.spread(10)
@pytest.mark.parametrize("seed", range(40))
def test_every_operator_is_in_a_kernel_or_has_a_reason(seed):
    found, plan = graph_and_plan(random_module(seed, operators=20))
    covered = {index for group in plan.groups for index in group.nodes}
    left = [
        node.name
        for node in found.nodes
        if node.index not in covered and node.is_operator and node.pattern is not Pattern.RESHAPE
    ]
    assert sorted(left) == sorted(fallback.op for fallback in plan.fallbacks)
    assert all(fallback.reason for fallback in plan.fallbacks)


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_is_one_group_each(name):
    found, plan = graph_and_plan(ZOO[name]("bfloat16").module)
    assert_sound(found, plan)
    assert len(plan.groups) == 1 and not plan.fallbacks and not plan.cuts
    assert plan.groups[0].cost_us < plan.groups[0].separate_us


def test_groups_around_a_product_form_no_cycle():
    """Both ends could be one kernel, were the product between them not to wait for the first."""

    def build(emit, x, w):
        first = emit(op.nn.softmax(x))
        product = emit(op.matmul(first, w))
        return emit(op.nn.softmax(emit(op.add(first, product))))

    case = graph(
        "float32",
        [(65, 80), (80, 80)],
        build,
        lambda x, w: softmax64(softmax64(x) + softmax64(x) @ w),
    )
    found, plan = graph_and_plan(case.module)
    assert_sound(found, plan)
    assert len(plan.groups) == 2
    check(case, kernels=None)


def test_readers_of_one_value_share_a_kernel():
    def build(emit, x):
        return emit(op.nn.softmax(x)), emit(op.sum(x, axis=-1)), emit(op.exp(x))

    module = graph("float32", [(64, 128)], build, lambda x: ()).module
    assert len(plan_of(module).groups) == 1


def test_unrelated_short_kernels_share_a_launch():
    def build(emit, x, y):
        return emit(op.nn.softmax(x)), emit(op.sum(y, axis=-1))

    case = graph("float32", [(9, 70), (5, 33)], build, lambda x, y: (softmax64(x), y.sum(-1)))
    assert len(plan_of(case.module).groups) == 1
    check(case)


def test_plans_are_the_same_every_time():
    module = random_module(3, operators=20)

    def plain(plan: Plan) -> list:
        return [(group.nodes, [var.name for var in group.outputs]) for group in plan.groups]

    assert plain(plan_of(module, H200)) == plain(plan_of(module, H200))


def test_an_empty_block():
    x = relax.Var("x", relax.TensorType((4, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(x)
        builder.emit_func_output(output)
    module = stitched(builder.get())
    assert not primfuncs_of(module)
    array = np.ones((4, 5), "float32")
    run = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())["main"]
    np.testing.assert_array_equal(run(tvm.runtime.tensor(array)).numpy(), array)


# What the solver adds


def test_the_end_of_a_product_s_kernel_is_left_to_it():
    def build(emit, x, w, b):
        return emit(op.nn.relu(emit(op.add(emit(op.matmul(x, w)), b))))

    shapes = [(512, 512), (512, 512), (512,)]
    module = graph("float32", shapes, build, lambda *_: ()).module
    found, plan = graph_and_plan(module)
    assert not plan.groups
    assert {fallback.op for fallback in plan.fallbacks} == {"matmul", "add", "relu"}
    assert "an epilogue of matmul" in plan.fallbacks[-1].reason
    assert {found.nodes[index].name for index in plan.kept} == {"add", "relu"}
    # TVM does as foreseen: one kernel.
    assert len(stitched(module).functions_items()) == 2


def test_a_reduction_behind_a_product_is_stitched():
    def build(emit, x, w, b):
        return emit(op.nn.softmax(emit(op.add(emit(op.matmul(x, w)), b))))

    module = graph("float32", [(512, 512), (512, 512), (512,)], build, lambda *_: ()).module
    (group,) = graph_and_plan(module)[1].groups
    assert len(group.nodes) == 6


@pytest.mark.slow
def test_the_solver_beats_the_simple_rule():
    """The rule fuses a small operator with the first of its readers that takes it."""
    wins = 0
    for seed in range(20):
        solved = graph_and_plan(random_module(seed, operators=20))[1].solved
        wins += solved.cost_us < 0.99 * solved.greedy_us
    assert wins


def test_the_candidates_hold_the_greedy_plan_and_every_node_alone():
    for region in find_regions(read(random_module(5, operators=20))):
        judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
        found = find_candidates(region, judge, Options())
        covered = 0
        for number in found.greedy:
            covered |= found.all[number].nodes
        assert covered == region.everything
        alone = {c.nodes for c in found.all if c.way in (Way.DEFAULT, Way.VIEW)}
        assert {1 << place for place in bits(region.everything)} <= alone
        assert all(region.is_convex(each.nodes, each.outputs) for each in found.all)


@pytest.mark.parametrize(("recomputed", "writes"), [(4, 1), (0, 2)])
def test_cheap_values_are_computed_again_as_far_as_that_is_allowed(recomputed, writes):
    """Softmax of rows and of groups: each kernel masks the scores, or one does and stores them."""

    def build(emit, x, mask):
        masked = emit(op.add(x, mask))
        groups = emit(op.reshape(masked, (4096, 32, 128)))
        return emit(op.nn.softmax(masked)), emit(op.nn.softmax(groups))

    module = graph("float32", [(4096, 4096), (4096,)], build, lambda *_: ()).module
    apart = tuple(scheme for scheme in SCHEMES if scheme != "independent")  # one kernel of both
    groups = plan_of(module, options=Options(recomputed=recomputed, schemes=apart)).groups
    assert max(len(group.outputs) for group in groups) == writes


def test_cheap_values_are_computed_again_behind_what_is_made_of_them():
    """Two tensors are widened for sums, and again where these are used: nothing wide is stored."""

    def build(emit, x, y):
        x, y = (emit(op.astype(each, "float32")) for each in (x, y))
        rows = emit(op.reshape(emit(op.sum(emit(op.multiply(x, y)), axis=-1)), (256, 8)))
        groups = emit(op.sum(rows, axis=-1, keepdims=True))
        share = emit(op.reshape(emit(op.divide(rows, groups)), (2048, 1)))
        return emit(op.astype(emit(op.add(emit(op.multiply(x, share)), y)), "bfloat16"))

    def expected(x, y):
        rows = (x * y).sum(-1).reshape(256, 8)
        return x * (rows / rows.sum(-1, keepdims=True)).reshape(2048, 1) + y

    case = graph("bfloat16", [(2048, 512)] * 2, build, expected)
    apart = tuple(scheme for scheme in SCHEMES if scheme != "global")  # one kernel in rounds
    groups = plan_of(case.module, options=Options(schemes=apart)).groups
    sizes = [prod(map(int, out.ty.shape.values)) for each in groups for out in each.outputs]
    assert sorted(sizes)[-1] == 2048 * 512
    assert sorted(sizes)[-2] <= 2048


def test_a_bound_of_memory_between_kernels_is_kept():
    def build(emit, x):
        rows = emit(op.sum(emit(op.exp(x)), axis=-1, keepdims=True))
        return emit(op.sum(emit(op.multiply(rows, x)), axis=0))

    module = graph("float32", [(256, 256)], build, lambda x: ()).module
    for bound in (None, 0):
        plan = plan_of(module, options=Options(workspace_bytes=bound))
        assert plan.groups


def test_a_small_result_that_no_kernel_writes_alone_stays_with_tvm():
    """It would be computed again for a large result, were there a kernel of its own for it."""

    def build(emit, x, y):
        small = emit(op.exp(y))
        return emit(op.add(x, small)), emit(op.astype(small, "uint32"))

    case = graph(
        "float32",
        [(64, 640), (64, 1)],
        build,
        lambda x, y: (x + np.exp(y), np.exp(y).astype("uint32")),
    )
    check(case, kernels=None)
