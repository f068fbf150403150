"""What the same operators cost TVM's default way: FuseOps, then a DLight rule for each group.

In: the stages of operators, and which of their outputs are used elsewhere. Out: microseconds, by
the same model as stitched kernels', on the mappings that DLight's rules give, for sizes of symbols.
This is what the planner has to beat.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.profile import PhaseProfile, Profile
from tvm_stitch.kernel.codegen.footprint import Footprint, thread_registers
from tvm_stitch.kernel.cost_model.kernel_model import kernel_cost
from tvm_stitch.kernel.ir.instructions import instructions
from tvm_stitch.kernel.ir.mapping import Flat, Mapping, Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.stage import Stage, Var, element_bytes

FLAT_THREADS = 1024  # DLight's Fallback: a thread an element
SUM_THREADS = 1024  # DLight's Reduction: a block a row, at most so many threads
ROW_THREADS = 256  # DLight's GeneralReduction: a block a row
COLUMN_TILE = 16  # DLight's Reduction along columns: 16 columns by 16 threads
_FUSES = (Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.INJECTIVE, Pattern.RESHAPE)

# Where only bytes are known: element-wise kernels reach 0.25 to 0.6 of the copy bandwidth
# on an H200, reductions 0.005 to 0.6 (bench/results/h200).
SHARE = 0.4

DefaultKernel = tuple[Profile, Mapping]


def default_us(
    operators: Sequence[tuple[Stage, ...]], outputs: Collection[Var], device: Device
) -> float | None:
    """What TVM's kernels of these operators take, one launch after the other."""
    total = 0.0
    for group in fused(operators, outputs):
        if classify(group) is Pattern.RESHAPE:
            continue  # a view
        kernel = default_kernel(group, outputs)
        if kernel is None:
            return None
        total += default_kernel_us(kernel, device)
    return total


def default_kernel_us(kernel: DefaultKernel, device: Device) -> float:
    """What one of TVM's kernels takes."""
    profile, mapping = kernel
    return kernel_cost([profile], Schedule((mapping,)), default_footprint(mapping), device).us


def default_footprint(mapping: Mapping) -> Footprint:
    """What a block of such a kernel takes, which keeps nothing between its passes."""
    return Footprint(mapping.block_threads, thread_registers(0, mapping.vector), 0)


def unknown_kernel_us(moved: int, device: Device) -> float:
    """What one of TVM's kernels takes of which only the bytes are known that it moves."""
    start = device.timing.launch_us + device.timing.block_us
    return start + moved / (device.bandwidth * SHARE) * 1e6


def fused(
    operators: Sequence[tuple[Stage, ...]], outputs: Collection[Var]
) -> list[tuple[Stage, ...]]:
    """The groups that FuseOps would make: what flows to one place only goes there, but a
    reduction ends its group."""
    group_of = list(range(len(operators)))
    writer = {stage.output: n for n, stages in enumerate(operators) for stage in stages}
    readers: list[set[int]] = [set() for _ in operators]
    for number, stages in enumerate(operators):
        for stage in stages:
            for read in stage.reads:
                if writer.get(read.buffer, number) != number:
                    readers[writer[read.buffer]].add(number)
    for number in range(len(operators) - 1, -1, -1):
        stages = operators[number]
        groups = {group_of[reader] for reader in readers[number]}
        used = any(stage.output in outputs for stage in stages)
        if len(groups) == 1 and not used and classify(stages) in _FUSES:
            group_of[number] = groups.pop()
    members: dict[int, list[Stage]] = {}
    for number, stages in enumerate(operators):
        members.setdefault(group_of[number], []).extend(stages)
    return [tuple(members[group]) for group in sorted(members)]


def default_kernel(
    stages: tuple[Stage, ...], outputs: Collection[Var] = (), extents: Extents = NOMINAL
) -> DefaultKernel | None:
    """The kernel of a group as the cost model sees it; it writes `outputs` and what it does not
    read itself. None for products, of which the model knows nothing."""
    if classify(stages) in (Pattern.PRODUCT, Pattern.OPAQUE):
        return None
    written = _written(stages, outputs)
    reductions = [stage for stage in stages if stage.is_reduction]
    if not reductions:
        return _flat(stages, written, extents)
    first = reductions[0]
    rows, columns = extents.size(first.size), extents.size(first.reduced_size)
    profile = _by_rows(stages, written, rows, columns, extents)
    if len(reductions) > 1 or (len(profile.phases) > 1 and first.combiner != "sum"):
        return profile, _rows_mapping(ROW_THREADS, columns)
    if first.combiner != "sum":
        # A thread goes through a row alone; its neighbours' loads lie far apart.
        mapping = Rows(1, FLAT_THREADS, 1, columns)
        return _scattered(profile), mapping
    if _reduces_along_memory(first, extents):
        return profile, _rows_mapping(min(SUM_THREADS, 1 << columns.bit_length() - 1), columns)
    mapping = Rows(COLUMN_TILE, COLUMN_TILE, 1, -(-columns // COLUMN_TILE))
    return _scattered(profile), mapping


def _rows_mapping(threads: int, columns: int) -> Mapping:
    return Rows(threads, 1, 1, -(-columns // threads))


def _scattered(profile: Profile) -> Profile:
    """The same where every load waits for the one before, and takes a sector of its own."""
    phases = [replace(phase, gathers=phase.reads) for phase in profile.phases]
    return replace(profile, phases=tuple(phases))


def _reduces_along_memory(stage: Stage, extents: Extents) -> bool:
    """Whether neighbours in memory are reduced into one."""
    reduced = set(stage.reduced)
    return any(
        not reduced.isdisjoint(tirx.analysis.undefined_vars(read.load.indices[-1]))
        for read in stage.reads
        if read.load.indices and extents.elements(read.buffer) == extents.size(stage.total_size)
    )


def _flat(stages: tuple[Stage, ...], written: list[Var], extents: Extents) -> DefaultKernel:
    elements = max(extents.elements(buffer) for buffer in written)
    profile = _profile(stages, written, 1, elements, [stages], extents)
    return profile, Flat(FLAT_THREADS, 1, 1)


def _by_rows(
    stages: tuple[Stage, ...], written: list[Var], rows: int, columns: int, extents: Extents
) -> Profile:
    """Every reduction goes through its row again, and so does what follows the last."""
    producer = {stage.output: stage for stage in stages}
    ends = [stage for stage in stages if stage.is_reduction]
    last = [s for s in stages if not s.is_reduction and s.output in written]
    passes = [_behind(end, producer) for end in ends]
    if any(extents.size(stage.size) >= rows * columns for stage in last):
        passes.append(tuple({s: None for end in last for s in _behind(end, producer)}))
    return _profile(stages, written, rows, columns, passes, extents)


def _behind(end: Stage, producer: dict[Var, Stage]) -> tuple[Stage, ...]:
    """A stage and the element-wise ones before it, which TVM computes again where they are read."""
    found: dict[Stage, None] = {end: None}
    pending = [end]
    while pending:
        for read in pending.pop().reads:
            stage = producer.get(read.buffer)
            if stage is not None and not stage.is_reduction and stage not in found:
                found[stage] = None
                pending.append(stage)
    return tuple(found)


def _written(stages: tuple[Stage, ...], outputs: Collection[Var]) -> list[Var]:
    read = {read.buffer for stage in stages for read in stage.reads}
    return [s.output for s in stages if s.output not in read or s.output in outputs]


def _profile(
    stages: tuple[Stage, ...],
    written: list[Var],
    rows: int,
    columns: int,
    passes: Sequence[tuple[Stage, ...]],
    extents: Extents,
) -> Profile:
    computed = {stage.output for stage in stages}
    inputs = {read.buffer: None for stage in stages for read in stage.reads}
    tensors = [*(buffer for buffer in inputs if buffer not in computed), *written]
    elements = rows * columns
    count = {buffer: extents.elements(buffer) for buffer in tensors}
    other = sum(
        min(count[buffer], elements) * element_bytes(buffer)
        for buffer in tensors
        if count[buffer] != elements
    )
    seen: set[Var] = set()
    read = {buffer: count[buffer] for buffer in inputs if buffer not in computed}
    phases = [_pass(each, read, elements, seen) for each in passes]
    writes = [element_bytes(buffer) for buffer in written if count[buffer] == elements]
    phases[-1] = replace(phases[-1], writes=tuple(writes))
    return Profile(rows, columns, len(passes) > 1, tuple(phases), other, 0, 0)


def _pass(
    stages: tuple[Stage, ...], count: dict[Var, int], elements: int, seen: set[Var]
) -> PhaseProfile:
    """The first pass that reads a tensor finds it in device memory, later ones in a cache."""
    reads: list[int] = []
    again: list[int] = []
    along: list[int] = []
    for buffer in dict.fromkeys(read.buffer for stage in stages for read in stage.reads):
        if count.get(buffer, 1) == 1:  # computed, or one element
            continue
        kind = along if count[buffer] != elements else again if buffer in seen else reads
        kind.append(element_bytes(buffer))
        seen.add(buffer)
    counts = [instructions(stage) for stage in stages]
    return PhaseProfile(
        reads=tuple(reads),
        again=tuple(again),
        along=tuple(along),
        operations=sum(each.plain for each in counts),
        specials=sum(each.special for each in counts),
        reductions=sum(stage.is_reduction for stage in stages),
    )
