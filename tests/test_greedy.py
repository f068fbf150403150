"""Plans: groups are as large as kernels allow, form no cycle, and leave nothing out."""

import graphlib

import pytest
from check import H200, check, plan_of, stitched
from random_graphs import random_case
from tvm import relax
from tvm.relax import op
from zoo import ZOO, graph, softmax64

from tvm_stitch.graph.read import StitchGraph, read_block
from tvm_stitch.kernel.classify import Pattern
from tvm_stitch.plan.plan import Plan
from tvm_stitch.transform import StitchOps


def graph_and_plan(module) -> tuple[StitchGraph, Plan]:
    """The graph that is planned, and the plan; both of the same variables."""
    ready = stitched(module, before="StitchOps")
    plans: list[Plan] = []
    with H200:
        StitchOps(H200, log=plans)(ready)
    (block,), (plan,) = ready["main"].body.blocks, plans
    return read_block(ready, block), plan


def assert_sound(found: StitchGraph, plan: Plan) -> None:
    """Every value that is needed is written by one kernel or operator, and there is an order."""
    covered = {index for group in plan.groups for index in group.nodes}
    parts = [group.nodes for group in plan.groups]
    written = [set(group.outputs) for group in plan.groups]
    for node in found.nodes:
        if node.index not in covered:
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
def test_random_plans_are_sound(seed):
    found, plan = graph_and_plan(random_case(seed, operators=20).module)
    assert_sound(found, plan)


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
    assert len(plan.groups) == 1 and not plan.fallbacks


def test_groups_around_a_product_form_no_cycle():
    """Both ends could be one kernel, were the product between them not to wait for the first."""

    def build(emit, x, w):
        first = emit(op.nn.softmax(x))
        product = emit(op.matmul(first, w))
        return emit(op.nn.softmax(emit(op.add(first, product))))

    case = graph(
        "float32",
        [(16, 32), (32, 32)],
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
