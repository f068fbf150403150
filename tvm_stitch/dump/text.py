"""The stages that are no code, as text: a graph, a plan, programs, their phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tvm import relax, tirx

from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.kernel.build import VIEW, read_programs
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.skinny_matmul.build import read_skinny
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE, limits_stated
from tvm_stitch.kernel.tensor_core.build import read_products
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.plan.plan import Plan, shown_bytes
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Expr, Refused, buffer_shape, dtype_of, shown

LONGEST_FORMULA = 100  # characters
Block = tuple[StitchGraph, Plan]


def graph_text(graphs: Sequence[StitchGraph]) -> str:
    """What each operator of a dataflow block reads, gives and computes."""
    return "\n\n".join(
        "\n".join([f"dataflow block {number}", *(_node(graph, node) for node in graph.nodes)])
        for number, graph in enumerate(graphs)
    )


def _node(graph: StitchGraph, node: Node) -> str:
    results = ", ".join(_tensor(graph, var) for var in node.results) or node.bindings[0].var.name
    operands = ", ".join(
        value.name if isinstance(value, relax.Var) else "constant" for value in node.operands
    )
    lines = [f"  {node.index:3} {results} = {node.name}({operands})  # {node.pattern.name.lower()}"]
    lines += [f"        {stage}: {_shortened(stage.value)}" for stage in node.stages]
    if node.reason:
        lines.append(f"        not stitched: {node.reason}")
    return "\n".join(lines)


def _shortened(value: Expr) -> str:
    text = " ".join(shown(value).split())
    return text if len(text) <= LONGEST_FORMULA else f"{text[:LONGEST_FORMULA]} ..."


def _tensor(graph: StitchGraph, var: relax.Var) -> str:
    try:
        buffer = graph.buffer(var)
    except KeyError:
        return str(var.name)
    extents = ", ".join(shown(extent) for extent in buffer_shape(buffer))
    return f"{var.name}[{extents}] {dtype_of(buffer)}"


def plan_text(blocks: Sequence[Block], left: Mapping[int, str]) -> str:
    """Which operators share a kernel and what that saves, which do not, and why."""
    parts = [_plan(number, *block) for number, block in enumerate(blocks)]
    if left:
        lines = [f"  {number:3} {reason}" for number, reason in sorted(left.items())]
        parts.append("\n".join(["operators of the module that were left whole to TVM", *lines]))
    return "\n\n".join(parts)


def _plan(number: int, graph: StitchGraph, plan: Plan) -> str:
    solved = plan.solved
    lines = [
        f"dataflow block {number}: {plan.cost_us:.1f} us predicted, {solved.status}; "
        f"{solved.candidates} candidates in {solved.regions} regions"
    ]
    for group in plan.groups:
        lines += [f"  {group.function}: {group.why}", *_members(graph, group.nodes)]
    for cut in plan.cuts:
        times = f", {cut.count} times" if cut.count > 1 else ""
        lines.append(
            f"  {cut.writer[-1]} -> {cut.reader[0]} through memory ({cut.value}, "
            f"{shown_bytes(cut.bytes)}{times}): {cut.reason}"
        )
    for index, reason in plan.reasons:
        node = graph.nodes[index]
        if node.is_operator and node.pattern is not Pattern.RESHAPE:
            lines.append(f"  {index:3} {node.name} is left to TVM: {reason}")
    return "\n".join(lines)


def _members(graph: StitchGraph, nodes: Iterable[int]) -> list[str]:
    return [f"    {index:3} {graph.nodes[index].name}" for index in nodes]


def programs_text(functions: Mapping[str, tirx.PrimFunc], schemes: tuple[str, ...]) -> str:
    """The programs of functions that are not scheduled yet."""
    parts = []
    for name, function in functions.items():
        found = _programs(function, schemes)
        parts.append("\n".join([name, *(f"  {line}" for line in found.splitlines())]))
    return "\n\n".join(parts)


def _programs(function: tirx.PrimFunc, schemes: tuple[str, ...]) -> str:
    programs = read_programs(function, schemes)
    if not isinstance(programs, Refused):
        return "\n".join(map(str, programs))
    products = _products(function) if programs is not VIEW else programs
    if isinstance(products, Refused):
        return f"no program: {programs.reason}"
    return "\n".join(
        f"product of {product.size_text}, {shown(product.entries)} times\n{product.stage}\n"
        + "\n".join(map(str, product.after))
        for product in products
    )


def _products(function: tirx.PrimFunc) -> tuple[TensorProduct, ...] | Refused:
    """The larger products that a function is, of many rows or of few."""
    found = read_products(function)
    return read_skinny(function) if isinstance(found, Refused) else found


def phases_text(fused: Mapping[str, tirx.PrimFunc], emitted: Mapping[str, tirx.PrimFunc]) -> str:
    """What stitched kernels do up to each reduction, by what they were fused of and became."""
    parts = []
    for name, kernel in emitted.items():
        if name in fused:  # what came apart was fused anew, and has no group of its own
            schedule = Schedule.from_json(str(kernel.attrs[SCHEDULE_ATTRIBUTE]))
            lines = _phases(fused[name], schedule, limits_stated(kernel)).splitlines()
            parts.append("\n".join([name, *(f"  {line}" for line in lines)]))
    return "\n\n".join(parts)


def _phases(function: tirx.PrimFunc, schedule: Schedule, limits: Mapping[str, int]) -> str:
    programs = read_programs(function, tuple(schedule.schemes), limits)
    assert not isinstance(programs, Refused), "a stitched kernel comes from a readable function"
    lines = []
    for program, mapping in zip(programs, schedule.parts, strict=True):
        lines += [str(mapping), str(kind_of(program).phases(program, mapping))]
    if schedule.longer is not None:
        others = "for more rows" if schedule.most_rows else "for longer rows"
        lines += [others, _phases(function, schedule.longer, limits)]
    return "\n".join(lines)
