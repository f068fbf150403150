"""The report's entry for a kernel of this package, from what it was made of and by.

In: a fused PrimFunc before and after it was emitted. Out: a Kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.attention.build import ATTENTION_ATTRIBUTE, COUNTED, read_attention
from tvm_stitch.kernel.attention.cost import predicted_us as attention_us
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.cost_model import kernel_model
from tvm_stitch.kernel.ir.mapping import LIBRARY, SCHEMES, TF32, Mapping
from tvm_stitch.kernel.ir.phases import Phases
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.library_product.build import LIBRARY_ATTRIBUTE, library_kernel
from tvm_stitch.kernel.scattered.order import SORT_ATTRIBUTE, THREADS, shares, sort_us, sorts_of
from tvm_stitch.kernel.shared_input import shares_input
from tvm_stitch.kernel.skinny_matmul.build import SKINNY_ATTRIBUTE, read_skinny
from tvm_stitch.kernel.skinny_matmul.cost import predicted_us as skinny_us
from tvm_stitch.kernel.skinny_matmul.tiles import tiles_from_json
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE, limits_stated
from tvm_stitch.kernel.tensor_core import cost as tensor_cost
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE, read_products
from tvm_stitch.kernel.tensor_core.grouped import co_scheduled
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.library.locate import CUBLASLT
from tvm_stitch.report.data import Kernel, Stage
from tvm_stitch.report.findings.open_sizes import (
    bytes_formula,
    of_limits,
    of_stated_sizes,
    sizes_assumed,
)
from tvm_stitch.report.findings.operators import Operator
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused, Var, constant, element_bytes, shown
from tvm_stitch.tuning.apply import origin_of

# Where a kept value waits -> the scheme that this is.
_RESIDENCE_SCHEME = {"register": "local", "shared": "regional", "nowhere": "global"}


@dataclass(frozen=True, eq=False)
class Fused:
    """A function that one stitched kernel holds, before it was emitted."""

    kernel: str
    operators: tuple[Operator, ...]
    function: tirx.PrimFunc
    launches: int


@dataclass(frozen=True, eq=False)
class Part:
    """One of the unrelated computations that a kernel holds side by side; mostly the only one."""

    program: Program
    mapping: Mapping
    phases: Phases


def _of_programs(fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents) -> Kernel:
    """A stitched kernel."""
    schedule = Schedule.from_json(str(emitted.attrs[SCHEDULE_ATTRIBUTE]))
    limits = limits_stated(emitted)
    programs = read_programs(fused.function, tuple(schedule.schemes), limits)
    assert not isinstance(programs, Refused), "a stitched kernel comes from a readable function"
    parts = [
        Part(program, mapping, kind_of(program).phases(program, mapping))
        for program, mapping in zip(programs, schedule.parts, strict=True)
    ]
    flows = _flows(parts)
    planned = planned_bytes(parts, extents)
    shared = kernel_model.co_scheduled_bytes(programs, schedule, extents)
    tensors = kernel_model.tensors_of(programs)
    return Kernel(
        name=fused.kernel,
        ops=tuple(operator.name for operator in fused.operators),
        scheme=schedule.scheme,
        mapping=schedule.mapping
        + of_limits(limits)
        + of_stated_sizes(emitted, lambda text: Schedule.from_json(text).mapping),
        bytes_min=kernel_model.least_bytes(programs, extents),
        bytes_planned=planned - shared,
        floor_us=kernel_model.floor_us(programs, device, extents),
        predicted_us=kernel_model.predicted_us(programs, schedule, device, extents),
        why=_why(parts, schedule),
        launches=fused.launches,
        schemes=_schemes(fused, flows),
        origin=origin_of(emitted),
        formula=bytes_formula(tensors),
        sizes=sizes_assumed(tensors, extents),
        stages=_stages(fused, flows),
    )


def _on_tensor_cores(
    fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents
) -> Kernel:
    """Matrix products on tensor cores, mostly one."""
    products = read_products(fused.function)
    assert not isinstance(products, Refused), "a product's kernel comes from a readable function"
    tiles = Tiles.from_json(str(emitted.attrs[TILES_ATTRIBUTE]))
    scheme = "cluster" if tiles.splits > 1 else "regional"
    flows = {product.stage.output: scheme for product in products}
    return replace(
        _of_products(fused, products, device, extents),
        scheme=scheme if len(products) == 1 else "independent",
        mapping=str(tiles) + of_stated_sizes(emitted, lambda text: str(Tiles.from_json(text))),
        predicted_us=tensor_cost.predicted_us(products, tiles, device, extents),
        why=_why_products(products, device),
        schemes=_schemes(fused, flows) or {p.stage.name: scheme for p in products},
        origin=origin_of(emitted),
        stages=_stages(fused, flows),
    )


def _of_few_rows(fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents) -> Kernel:
    """Products of few rows."""
    products = read_skinny(fused.function)
    assert not isinstance(products, Refused), "a product's kernel comes from a readable function"
    tiles = tiles_from_json(str(emitted.attrs[SKINNY_ATTRIBUTE]))
    found = [each for product in products for each in product.all]
    flows = {each.stage.output: "regional" for each in found}
    return replace(
        _of_products(fused, products, device, extents),
        scheme="regional" if len(products) == 1 else "independent",
        mapping="; ".join(dict.fromkeys(map(str, tiles))),
        predicted_us=skinny_us(products, tiles, device),
        why=" and ".join(map(_sizes, found)) + ": weights go from memory to tensor cores, once",
        schemes=_schemes(fused, flows) or {p.stage.name: "regional" for p in products},
        stages=_stages(fused, flows),
    )


def _by_library(fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents) -> Kernel:
    """A matrix product by the library."""
    stages = read_stages(fused.function)
    assert not isinstance(stages, Refused), "a call of a library comes from a readable function"
    outputs = outputs_of(fused.function, stages)
    rounds = json.loads(str(emitted.attrs[LIBRARY_ATTRIBUTE]))["tf32"]
    ways = (*SCHEMES, TF32) if rounds else SCHEMES
    call = library_kernel(stages, outputs, device, Bounds(points=(extents,)), ways)
    assert not isinstance(call, Refused), "the library had it before"
    ending = f", which ends with {call.epilogue}" if str(call.epilogue) else ""
    return replace(
        _of_products(fused, (call.product,), device, extents),
        scheme=LIBRARY,
        mapping=f"{CUBLASLT.title} maps it",
        predicted_us=call.cost_us,
        why=f"{_sizes(call.product)}{' by TF32' if rounds else ''} by {CUBLASLT.title}{ending}",
    )


def _sorts(fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents) -> Kernel:
    """Updates that other kernels add up, in the order of their rows."""
    sorts = sorts_of(emitted)
    buffers = tuple(emitted.params[:-1])  # but for the workspace
    least = sum(map(extents.bytes, buffers))
    blocks = sum(each.blocks for each in shares(sorts, device))
    updates = " and ".join(f"{each.count} updates by {each.rows} rows" for each in sorts)
    return replace(
        _ready_made(fused, buffers, least, device, extents),
        ops=tuple(operator.name for operator in fused.operators),
        scheme="global",
        mapping=f"{THREADS} threads per block, {blocks} blocks that wait for each other",
        predicted_us=sort_us(sorts, device),
        why=f"sorts {updates} once for all kernels that add them up",
    )


def _of_attention(fused: Fused, emitted: tirx.PrimFunc, device: Device, extents: Extents) -> Kernel:
    """Attention in one pass."""
    attention, tiles = read_attention(emitted)
    extents, planned = extents.at(COUNTED), attention.expected
    return replace(
        _ready_made(fused, tuple(emitted.params), planned.bytes, device, extents),
        ops=attention.operators,
        scheme="cluster" if tiles.splits > 1 else "warp" if tiles.by_rows else "regional",
        mapping=str(tiles),
        predicted_us=attention_us(planned, tiles, device),
        why=f"attention of {attention}: one pass over keys and values",
    )


def _ready_made(
    fused: Fused, buffers: tuple[Var, ...], least: int, device: Device, extents: Extents
) -> Kernel:
    """A kernel that stood in the graph before it was planned, which moves so many bytes."""
    return Kernel(
        name=fused.kernel,
        ops=(),
        scheme="",
        mapping="",
        bytes_min=least,
        bytes_planned=least,
        floor_us=least / device.bandwidth * 1e6,
        predicted_us=None,
        why="",
        launches=fused.launches,
        formula=bytes_formula(buffers),
        sizes=sizes_assumed(buffers, extents),
        stages=_stages(fused, {}),
    )


Entry: TypeAlias = Callable[[Fused, tirx.PrimFunc, Device, Extents], Kernel]
_ENTRIES: Map[str, Entry] = {
    SCHEDULE_ATTRIBUTE: _of_programs,
    TILES_ATTRIBUTE: _on_tensor_cores,
    SKINNY_ATTRIBUTE: _of_few_rows,
    LIBRARY_ATTRIBUTE: _by_library,
    SORT_ATTRIBUTE: _sorts,
    ATTENTION_ATTRIBUTE: _of_attention,
}


def entry_of(emitted: tirx.PrimFunc) -> Entry | None:
    """What makes the report's entry for a kernel; None: it is none of this package."""
    return next((e for attribute, e in _ENTRIES.items() if attribute in emitted.attrs), None)


def _of_products(
    fused: Fused, products: Sequence[TensorProduct], device: Device, extents: Extents
) -> Kernel:
    """What the entries of all matrix products have, whoever computes them."""
    least = tensor_cost.least_bytes(products, extents)
    buffers = tuple(dict.fromkeys(buffer for product in products for buffer in product.buffers))
    return Kernel(
        name=fused.kernel,
        ops=tuple(operator.name for operator in fused.operators),
        scheme="",
        mapping="",
        bytes_min=least,
        bytes_planned=least,
        floor_us=least / device.bandwidth * 1e6,
        predicted_us=None,
        why="",
        launches=fused.launches,
        formula=bytes_formula(buffers),
        sizes=sizes_assumed(buffers, extents),
        stages=_stages(fused, {}),
    )


def _why_products(products: Sequence[TensorProduct], device: Device) -> str:
    """Which products a kernel has, and in which order their blocks come."""
    ends, where = any(product.after for product in products), "the results from shared memory"
    if len(products) == 1:
        ending = f"; its epilogue reads {where}" if ends else ""
        return f"{_sizes(products[0])} on tensor cores{ending}"
    found = f"{len(products)} products share a launch, each on blocks of its own"
    shared = set.intersection(*({p.left.buffer, p.right.buffer} for p in products))
    if shared:
        found += f", and the input {', '.join(sorted(each.name for each in shared))}"
    if co_scheduled(products, device):
        found += ", for which their blocks are co-scheduled"
    several = (
        f"{'' if p.entries == 1 else f'{shown(p.entries)} of '}{p.size_text}" for p in products
    )
    ending = f"; their epilogues read {where}" if ends else ""
    return f"{found}: products of {', '.join(several)} on tensor cores{ending}"


def _sizes(product: TensorProduct) -> str:
    times = "a product" if product.entries == 1 else f"{shown(product.entries)} products"
    groups = f" in {product.groups} groups of rows" if product.ragged else ""
    return f"{times} of {product.size_text}{groups}"


def planned_bytes(parts: Sequence[Part], extents: Extents = NOMINAL) -> int:
    """What a kernel reads and writes: an input counts once for every phase that loads it.

    Not as far as a block finds there what it has loaded in an earlier round; and what a later round
    looks up in a tensor counts as much as it looks up.
    """
    total = 0
    for part in parts:
        program = part.program
        loads = [(buffer, part.phases.times_loaded(buffer)) for buffer in program.inputs]
        for buffer, times in [*loads, *((output, 1) for output in program.outputs)]:
            size = extents.bytes(buffer)
            if buffer in program.reused_inputs:
                size -= int(size * _persistent_share(part))
            if program.round and buffer in program.inputs and buffer not in program.rows_read:
                size = min(size, _looked_up(program, buffer, extents))
            total += size * max(1, times)
    return total


def _persistent_share(part: Part) -> float:
    """The share of a segment's rows that persist on the chip."""
    rows = constant(part.program.space.segment_rows) or 1
    return min(1.0, part.mapping.persistent_rows / rows)


def _looked_up(program: Program, buffer: Var, extents: Extents) -> int:
    """Bytes of a tensor that the elements of a program's space look up."""
    reads = [read for _, read in program.reads if read.buffer == buffer]
    return len(reads) * extents.size(program.space.size) * element_bytes(buffer)


def _flows(parts: Sequence[Part]) -> dict[Var, str]:
    """The reductions and kept values, in the order of their making: where each flows."""
    found: dict[Var, str] = {}
    for part in parts:
        flows = dict.fromkeys(part.phases.kept, _RESIDENCE_SCHEME[part.mapping.residence])
        for stage in part.program.stages:
            if stage.is_reduction:
                across = stage in part.program.column_reductions
                flows[stage.output] = "global" if across else part.mapping.row_scheme
            elif stage.scan:
                flows[stage.output] = part.mapping.row_scheme
        order = (*part.program.inputs, *(stage.output for stage in part.program.stages))
        found.update((buffer, flows[buffer]) for buffer in order if buffer in flows)
    return found


def _schemes(fused: Fused, flows: Map[Var, str]) -> dict[str, str]:
    """The same by name."""
    owners = _owners(fused)
    found: dict[str, str] = {}
    for buffer, scheme in flows.items():
        name = fused.operators[owners[buffer]].name if buffer in owners else buffer.name
        found[_unused(name, found)] = scheme
    return found


def _stages(fused: Fused, flows: Map[Var, str]) -> tuple[Stage, ...]:
    """The operators of a kernel, with the schemes of those whose results flow."""
    owners = _owners(fused)
    schemes = {owners[buffer]: scheme for buffer, scheme in flows.items() if buffer in owners}
    return tuple(
        Stage(operator.name, operator.type, operator.reads, schemes.get(place, ""))
        for place, operator in enumerate(fused.operators)
    )


def _owners(fused: Fused) -> dict[Var, int]:
    """The operator that computes a value, by its place."""
    stages = read_stages(fused.function)
    owners = [at for at, operator in enumerate(fused.operators) for _ in range(operator.blocks)]
    if isinstance(stages, Refused) or len(stages) != len(owners):
        return {}
    return {stage.output: owner for stage, owner in zip(stages, owners, strict=True)}


def _unused(name: str, taken: Container[str]) -> str:
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name} {number}"
    return unique


def _why(parts: Sequence[Part], schedule: Schedule) -> str:
    """One sentence: what the kernel's scheme rests on."""
    found = (kind_of(part.program).why(part.program, part.mapping) for part in parts)
    sentences = list(dict.fromkeys(found))
    if schedule.blocks:
        rounds = parts[-1].program.round + 1
        return (
            f"{rounds} rounds, between which all {schedule.blocks} blocks synchronise; later "
            f"rounds read earlier results from device memory{_why_persistent(parts)}: "
            f"{'; '.join(sentences)}"
        )
    if len(parts) == 1:
        return sentences[0]
    together = f"{len(parts)} unrelated computations share a launch, each on blocks of its own"
    if shares_input([part.program for part in parts], [part.mapping for part in parts]):
        together = f"rows of {len(parts)} lengths are co-scheduled: shared inputs are read once"
    return f"{together}: {'; '.join(sentences)}"


def _why_persistent(parts: Sequence[Part]) -> str:
    """How much of what earlier rounds have loaded is still on the chip for later ones."""
    found = {
        buffer: (NOMINAL.bytes(buffer), _persistent_share(part))
        for part in parts
        for buffer in part.program.reused_inputs
    }
    kept = sum(size * share for size, share in found.values())
    if not kept:
        return ""
    share = kept / sum(size for size, _ in found.values())
    return f" and find {share:.0%} of the inputs they read again in shared memory"
