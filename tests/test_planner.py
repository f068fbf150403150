"""Plans: groups are as large as kernels allow, form no cycle, and leave nothing out."""

import graphlib
import importlib.util
from dataclasses import replace

import pytest
from check import H200, check, plan_of, stitched
from random_graphs import random_case
from test_solve import brute_force
from tvm import relax
from tvm.relax import op
from zoo import ZOO, graph, softmax64

from tvm_stitch import InputError, Options
from tvm_stitch.device import device_of
from tvm_stitch.graph.read import StitchGraph, read_block
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.classify import Pattern
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.plan import judge as judges
from tvm_stitch.plan.candidates import Way, find_candidates
from tvm_stitch.plan.judge import Judge
from tvm_stitch.plan.levels import find_levels, find_regions
from tvm_stitch.plan.plan import Plan
from tvm_stitch.plan.planner import plan_graph
from tvm_stitch.plan.region import Region, bits
from tvm_stitch.plan.region_plan import problem_of
from tvm_stitch.plan.solve import solve

DEVICE = device_of(H200)
PARTITION = Options(partition=True)
GREEDY = Options(solver="greedy")


def read(module) -> StitchGraph:
    """The graph of a module with one dataflow block."""
    ready = stitched(module, before="StitchOps")
    (block,) = ready["main"].body.blocks
    return read_block(ready, block)


def graph_and_plan(module, options: Options | None = None) -> tuple[StitchGraph, Plan]:
    """The graph that is planned, and the plan; both of the same variables."""
    found = read(module)
    return found, plan_graph(found, DEVICE, NO_BOUNDS, options, explained=True)


def assert_sound(found: StitchGraph, plan: Plan) -> None:
    """Every value that is needed is written by one kernel or operator, and there is an order."""
    covered = {index for group in plan.groups for index in group.nodes}
    parts = [group.nodes for group in plan.groups]
    written = [set(group.outputs) for group in plan.groups]
    for node in found.nodes:
        if node.index not in covered or node.index in plan.kept:
            parts.append((node.index,))
            written.append({binding.var for binding in node.bindings})
    writer: dict[relax.Var, int] = {}
    for number, results in enumerate(written):
        for var in results:
            assert var not in writer, f"{var} is written twice"
            writer[var] = number
    needs: dict[int, set[int]] = {}
    for number, nodes in enumerate(parts):
        inside = {b.var for index in nodes for b in found.nodes[index].bindings}
        used = {
            var
            for index in nodes
            for binding in found.nodes[index].bindings
            for var in relax.analysis.free_vars(binding.value)
            if var in found.producer
        }
        assert used - inside <= set(writer), "a value is needed and not written"
        needs[number] = {writer[var] for var in used - inside}
    assert set(found.used_outside) <= set(writer)
    graphlib.TopologicalSorter(needs).prepare()  # raises on a cycle


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_are_sound_and_no_worse_than_greedy(seed):
    found, plan = graph_and_plan(random_case(seed, operators=20).module)
    assert_sound(found, plan)
    assert plan.solved.status == "optimal"
    assert plan.solved.cost_us <= plan.solved.greedy_us + 1e-6
    # A kernel that need not write what another writes already is asked for anew afterwards.
    assert plan.solved.gap < 0.02


@pytest.mark.parametrize("options", [PARTITION, GREEDY], ids=["partition", "greedy"])
@pytest.mark.parametrize("seed", range(12))
def test_other_plans_are_sound(seed, options):
    found, plan = graph_and_plan(random_case(seed, operators=20).module, options)
    assert_sound(found, plan)
    if options.partition:
        nodes = [index for group in plan.groups for index in group.nodes]
        assert len(nodes) == len(set(nodes)), "a node is computed twice"


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_brute_force_over_the_same_candidates(seed):
    """Among the candidates of a real region: every set of them that writes what is needed."""
    for region in find_regions(read(random_case(seed, operators=5).module)):
        judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
        found = find_candidates(region, judge, Options())
        problem = problem_of(region, found, Options())
        fewer = replace(problem, choices=problem.choices[:12])
        solution = solve(fewer)
        best = brute_force(fewer)
        assert (solution.cost if solution else float("inf")) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_every_operator_is_in_a_kernel_or_has_a_reason(seed):
    found, plan = graph_and_plan(random_case(seed, operators=20).module)
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
    assert plan.groups[0].cost_us < plan.groups[0].apart_us


def test_groups_around_a_product_form_no_cycle():
    """Both ends could be one kernel, were the product between them not to wait for the first."""

    def build(emit, x, w):
        first = emit(op.nn.softmax(x))
        product = emit(op.matmul(first, w))
        return emit(op.nn.softmax(emit(op.add(first, product))))

    case = graph(
        "float32",
        [(16, 80), (80, 80)],
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
    module = random_case(3, operators=20).module

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
    stitched(builder.get())


# Levels and regions


def layers(count: int):
    """Equal layers of a product that is not small and what follows it, a residual past each."""

    def build(emit, x, w):
        for _ in range(count):
            product = emit(op.matmul(x, w))
            x = emit(op.nn.softmax(emit(op.add(product, x))))
        return x

    return graph("float32", [(64, 80), (80, 80)], build, lambda x, w: ()).module


def test_equal_layers_are_planned_once():
    plan = plan_of(layers(6))
    assert plan.solved.regions == 6 and plan.solved.distinct == 1
    assert len(plan.groups) == 6
    assert {len(group.nodes) for group in plan.groups} == {6}


def test_what_a_node_needs_is_of_no_later_level():
    for module in (layers(3), *(random_case(seed, operators=30).module for seed in range(5))):
        found = read(module)
        levels = find_levels(found)
        for node in found.nodes:
            for source in found.sources[node.index]:
                divides = bool(found.nodes[source].reason) and not node.reason
                assert levels[source] + divides <= levels[node.index]


def test_updates_that_only_outputs_wait_for_meet_at_the_end():
    def build(emit, x, v, w, m):
        first = emit(op.matmul(x, v))
        second = emit(op.matmul(emit(op.tanh(first)), w))
        momenta = [emit(op.add(emit(op.multiply(m, relax.const(0.9))), g)) for g in (first, second)]
        return (emit(op.exp(second)), *momenta)

    found = read(graph("float32", [(32, 32)] * 4, build, lambda *_: ()).module)
    levels = find_levels(found)
    adds = [node.index for node in found.nodes if node.name == "add"]
    assert {levels[index] for index in adds} == {max(levels)}


def test_regions_know_what_is_between():
    def build(emit, x):
        first = emit(op.exp(x))
        return emit(op.add(first, emit(op.tanh(first))))

    (region,) = find_regions(read(graph("float32", [(8, 8)], build, lambda x: ()).module))
    names = [node.name for node in region.nodes]
    exp, tanh, add = (1 << names.index(name) for name in ("tir_exp", "tir_tanh", "add"))
    assert region.is_convex(exp | tanh) and region.is_convex(exp | tanh | add)
    assert not region.is_convex(exp | add)
    assert list(bits(region.everything)) == [0, 1, 2]
    assert [value.needed for value in region.leaving(region.everything)] == [True]


def test_keys_tell_shapes_and_uses_apart():
    def one(columns, both=False):
        def build(emit, x):
            middle = emit(op.exp(x))
            last = emit(op.tanh(middle))
            return (middle, last) if both else last

        (region,) = find_regions(read(graph("float32", [(8, columns)], build, lambda x: ()).module))
        return region

    assert one(8).key == one(8).key
    assert len({one(8).key, one(9).key, one(8, both=True).key}) == 3
    assert isinstance(one(8), Region)


# What the solver adds


def test_the_end_of_a_product_s_kernel_is_left_to_it():
    def build(emit, x, w, b):
        return emit(op.nn.relu(emit(op.add(emit(op.matmul(x, w)), b))))

    shapes = [(512, 512), (512, 512), (512,)]
    module = graph("float32", shapes, build, lambda *_: ()).module
    found, plan = graph_and_plan(module)
    assert not plan.groups
    assert {fallback.op for fallback in plan.fallbacks} == {"matmul", "add", "relu"}
    assert "ends the kernel of matmul" in plan.fallbacks[-1].reason
    assert {found.nodes[index].name for index in plan.kept} == {"add", "relu"}
    # TVM does as foreseen: one kernel.
    assert len(stitched(module).functions_items()) == 2


def test_a_reduction_behind_a_product_is_stitched():
    def build(emit, x, w, b):
        return emit(op.nn.softmax(emit(op.add(emit(op.matmul(x, w)), b))))

    module = graph("float32", [(512, 512), (512, 512), (512,)], build, lambda *_: ()).module
    (group,) = graph_and_plan(module)[1].groups
    assert len(group.nodes) == 6


def test_the_solver_beats_the_simple_rule():
    """The rule fuses a small operator with the first of its readers that takes it."""
    wins = 0
    for seed in range(20):
        solved = graph_and_plan(random_case(seed, operators=20).module)[1].solved
        wins += solved.cost_us < 0.99 * solved.greedy_us
    assert wins


def test_the_candidates_hold_the_greedy_plan_and_every_node_alone():
    for region in find_regions(read(random_case(5, operators=20).module)):
        judge = Judge(region, DEVICE, NO_BOUNDS, Options().schemes)
        found = find_candidates(region, judge, Options())
        covered = 0
        for number in found.greedy:
            covered |= found.all[number].nodes
        assert covered == region.everything
        alone = {c.nodes for c in found.all if c.way in (Way.DEFAULT, Way.VIEW)}
        assert {1 << place for place in bits(region.everything)} <= alone
        assert all(region.is_convex(candidate.nodes) for candidate in found.all)


def test_a_bound_of_memory_between_kernels_is_kept():
    def build(emit, x):
        rows = emit(op.sum(emit(op.exp(x)), axis=-1, keepdims=True))
        return emit(op.sum(emit(op.multiply(rows, x)), axis=0))

    module = graph("float32", [(256, 256)], build, lambda x: ()).module
    for bound in (None, 0):
        plan = plan_of(module, options=Options(workspace_bytes=bound))
        assert plan.groups


# Explanations


def test_every_cut_has_a_reason():
    for seed in range(12):
        found, plan = graph_and_plan(random_case(seed, operators=20).module)
        written = [var for group in plan.groups for var in group.outputs]
        readers = {
            group.nodes
            for group in plan.groups
            for var in written
            if var not in group.outputs and found.users_of.get(var, frozenset()) & {*group.nodes}
        }
        assert bool(readers) <= bool(plan.cuts)
        for cut in plan.cuts:
            assert cut.reason and cut.writer and cut.reader and cut.bytes > 0 and cut.count > 0


def test_different_rows_are_the_reason_of_a_cut():
    def build(emit, x):
        rows = emit(op.sum(x, axis=-1))
        return emit(op.sum(rows, axis=0))

    (cut,) = graph_and_plan(graph("float32", [(64, 128)], build, lambda x: ()).module)[1].cuts
    assert cut.writer == cut.reader == ("sum",)
    assert "reduce different rows" in cut.reason


def test_a_product_between_is_the_reason_of_a_cut():
    plan = graph_and_plan(layers(3))[1]
    (cut,) = plan.cuts
    assert "matmul runs between them" in cut.reason and cut.count == 2
    assert cut.bytes == 64 * 80 * 4


def test_what_is_saved_is_counted():
    def build(emit, x):
        return emit(op.exp(emit(op.tanh(x))))

    (group,) = plan_of(graph("float32", [(64, 128)], build, lambda x: ()).module).groups
    assert group.launches_saved == 1
    assert group.bytes_saved == 2 * 64 * 128 * 4  # tanh's result, written and read
    assert "1 launch" in group.why


# Bad input


def test_a_missing_solver_leaves_the_simple_rule(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "highspy" else real(name)
    )
    with pytest.warns(UserWarning, match="HiGHS is not installed"):
        found, plan = graph_and_plan(random_case(3, operators=20).module)
    assert_sound(found, plan)
    assert "HiGHS is not installed" in plan.solved.status
    assert plan.solved.cost_us == pytest.approx(plan.solved.greedy_us)


def test_no_time_leaves_the_simple_rule():
    module = random_case(3, operators=20).module
    with pytest.warns(UserWarning, match="time limit of 0"):
        found, plan = graph_and_plan(module, Options(time_limit_s=0))
    assert_sound(found, plan)
    assert plan.solved.status == "time limit"
    assert plan.groups == graph_and_plan_groups(found, GREEDY)


def graph_and_plan_groups(found: StitchGraph, options: Options):
    return plan_graph(found, DEVICE, NO_BOUNDS, options).groups


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "gurobi"},
        {"time_limit_s": -1},
        {"time_limit_s": float("nan")},
        {"beam": 0},
        {"effort": "much"},
        {"largest_kernel": 0},
        {"workspace_bytes": -1},
    ],
)
def test_options_that_make_no_sense(wrong):
    (name,) = wrong
    with pytest.raises(InputError, match=name):
        Options(**wrong)


# The last look


def refusing(monkeypatch, name: str, reason: str = "not today") -> None:
    """The last look at a kernel refuses those that hold a stage of this name and another."""
    real = judges.refused_at_last

    def look(programs, schedule, device):
        names = [stage.name for program in programs for stage in program.stages]
        wrong = any(name in each for each in names) and len(names) > 1
        return Refused(reason) if wrong else real(programs, schedule, device)

    monkeypatch.setattr(judges, "refused_at_last", look)


def test_what_the_last_look_refuses_is_planned_anew(monkeypatch):
    """Its operators go on in other kernels, not as one slow function."""
    module = graph("float32", [(64, 256)], lambda emit, x: emit(op.nn.softmax(x)), softmax64).module
    (alone,) = graph_and_plan(module)[1].groups
    refusing(monkeypatch, "red")  # the reductions of a softmax
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert len(plan.groups) > 1 and alone.nodes not in {group.nodes for group in plan.groups}
    sizes = {len(group.nodes) for group in plan.groups}
    assert max(sizes) < len(alone.nodes)


def test_a_region_whose_kernels_never_pass_is_left_to_tvm(monkeypatch):
    monkeypatch.setattr(judges, "refused_at_last", lambda *_: Refused("not today"))
    module = random_case(4, operators=20).module
    found, plan = graph_and_plan(module)
    assert_sound(found, plan)
    assert not plan.groups
    assert "not today" in {fallback.reason for fallback in plan.fallbacks}
