"""What tests of plans ask for: the graph that is planned, its plan, and whether that is sound."""

import graphlib

import tvm
from check import H200, stitched
from tvm import relax
from tvm.relax import op
from zoo import graph

from tests.outside.graphs.families import compound, elementwise, movement, reductions
from tests.outside.graphs.generate import Profile, generate
from tests.outside.graphs.graph import module_of
from tvm_stitch import Options
from tvm_stitch.device import device_of
from tvm_stitch.graph.front.read import StitchGraph, read_block
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.plan.plan import Plan
from tvm_stitch.plan.planner import plan_graph

DEVICE = device_of(H200)
PARTITION = Options(partition=True)
GREEDY = Options(solver="greedy")
# What is stitched: no products, no sorts, one floating dtype, shapes that are known.
STITCHED = (*elementwise.RULES, *movement.RULES, *reductions.RULES, *compound.RULES)
FLOATS = ("float32", "float32", "float16", "bfloat16")


def random_module(seed: int, operators: int = 12) -> tvm.IRModule:
    """A module of about as many operators, by chance; the same for the same seed."""
    plain = Profile((operators, operators), 0.0, 0.0, 0.0, (FLOATS[seed % 4],), STITCHED, 0.0)
    return module_of(generate(seed, plain))


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


def layers(count: int):
    """Equal layers of a product that is not small and what follows it, a residual past each."""

    def build(emit, x, w):
        for _ in range(count):
            product = emit(op.matmul(x, w))
            x = emit(op.nn.softmax(emit(op.add(product, x))))
        return x

    return graph("float32", [(65, 80), (80, 80)], build, lambda x, w: ()).module
