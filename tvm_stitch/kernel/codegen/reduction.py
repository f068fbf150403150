"""Emits reductions: lanes of a thread, threads of a warp, warps of a row."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import cluster_exchange
from tvm_stitch.kernel.codegen.footprint import aligned
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.codegen.warp_shuffle import butterfly, chained, combine
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import Expr, Stage, Var, dtype_of, item_bytes
from tvm_stitch.stages.symbolic_analyzer import int64

# Independent partial results of a thread: they shorten the chain of dependent additions.
LANES = 4
BARRIER_BYTES = 8  # of a cluster's, where a phase ends


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Where a thread collects its partial result of one reduction."""

    stage: Stage
    partial: Var  # one element for each lane
    lanes: int
    scratch: Var | None  # one element for each warp of the block, or of the cluster
    reference: Var | None = None  # the maximum that a sum of exponentials is measured against
    first: Expr | None = None  # the thread's first value, which the others are measured against

    def add(self, writer: Writer, lane: Expr, value: Expr) -> None:
        """Combine a value into a lane."""
        at = tirx.floormod(lane, int64(self.lanes)) if self.lanes > 1 else int64(0)
        value = value.astype(dtype_of(self.partial))
        if self.first is not None:
            value = value - self.first
        writer.store(self.partial, at, combine(self.stage.combiner, self.partial[at], value))


def needs_exchange(mapping: Mapping) -> bool:
    """Whether a row's threads are more than those of one warp."""
    return mapping.threads > mapping.warp_threads or mapping.cluster > 1


def scratch_scope(mapping: Mapping) -> str:
    """One kind of shared memory in a kernel: TVM takes a barrier to order one kind only.

    In a cluster TVM sees no barrier at all, nor writes to the scratch.
    """
    return "shared.dyn" if mapping.residence == "shared" and mapping.cluster == 1 else "shared"


def accumulator_dtype(stage: Stage) -> str:
    """Halves accumulate in float32, logic in int32."""
    dtype = dtype_of(stage.output)
    return {"float16": "float32", "bfloat16": "float32", "bool": "int32"}.get(dtype, dtype)


def start(
    writer: Writer, stage: Stage, mapping: Mapping, maximum: Stage | None = None
) -> Accumulator:
    """Allocate and initialise the partial results of a reduction, which may follow a maximum."""
    dtype = accumulator_dtype(stage)
    lanes = min(mapping.vector, LANES)
    partial = writer.allocate(f"{stage.name}_partial", lanes, dtype)
    scratch = reference = None
    if needs_exchange(mapping):
        scratch = _scratch(writer, stage, mapping)
    with writer.unrolled(lanes, "lane") as lane:
        writer.store(partial, lane, stage.identity.astype(dtype))
    if maximum is not None:
        reference = writer.allocate(f"{stage.name}_reference", 1, dtype)
        writer.store(reference, int64(0), maximum.identity.astype(dtype))
    return Accumulator(stage, partial, lanes, scratch, reference)


def _scratch(writer: Writer, stage: Stage, mapping: Mapping) -> Var:
    """Room for what every warp found."""
    dtype = _scratch_dtype(stage, mapping)
    return writer.allocate(f"{stage.name}_warps", _warps(mapping), dtype, scratch_scope(mapping))


def _scratch_dtype(stage: Stage, mapping: Mapping) -> str:
    dtype = accumulator_dtype(stage)
    return cluster_exchange.sent_dtype(dtype) if mapping.cluster > 1 else dtype


def _warps(mapping: Mapping) -> int:
    """Those that tell each other: a block's, or a cluster's."""
    return mapping.block_threads // mapping.warp_threads * mapping.cluster


def scratch_bytes(stages: Sequence[Sequence[Stage]], mapping: Mapping) -> int:
    """Shared memory of a block for reductions along rows, those together that end together."""
    if not needs_exchange(mapping):
        return 0
    sizes = [item_bytes(_scratch_dtype(stage, mapping)) for each in stages for stage in each]
    barriers = aligned(BARRIER_BYTES * len(stages)) if mapping.cluster > 1 else 0
    return mapping.batch * sum(aligned(_warps(mapping) * size) for size in sizes) + barriers


def open_barriers(
    writer: Writer, stages: Sequence[Sequence[Stage]], mapping: Mapping, position: Position
) -> list[Expr]:
    """What the blocks of a cluster wait for where reductions end, one for each such place."""
    values = _warps(mapping) * (mapping.batch if mapping.adjacent else 1)
    expected = [
        values * sum(item_bytes(_scratch_dtype(stage, mapping)) for stage in each)
        for each in stages
    ]
    first = tirx.all(position.thread == 0, position.row_of_block == 0)
    first = first if mapping.rows > 1 else position.thread == 0
    barriers = cluster_exchange.open_barriers(writer, first, expected)
    return [barriers.ptr_to([int64(number)]) for number in range(len(stages))]


def grow(
    writer: Writer, accumulators: MappingOf[Var, Accumulator], online_after: MappingOf[Var, Var]
) -> dict[Var, Expr]:
    """The maxima so far, to which the sums that follow them are rescaled."""
    found: dict[Var, Expr] = {}
    for output, maximum in online_after.items():
        if output not in accumulators:
            continue
        total, largest = accumulators[output], accumulators[maximum]
        if maximum not in found:
            found[maximum] = writer.value("largest", _of_lanes(writer, largest))
        assert total.reference is not None
        before = total.reference[int64(0)]
        factor = writer.value("rescaled", tirx.exp(before - found[maximum]))
        writer.store(total.reference, int64(0), found[maximum])
        with writer.unrolled(total.lanes, "lane") as lane:
            writer.store(total.partial, lane, total.partial[lane] * factor)
    return {m: result(accumulators[m].stage, value) for m, value in found.items()}


@dataclass(frozen=True, eq=False)
class Ending:
    """Reductions of one row that end together."""

    accumulators: list[Accumulator]
    position: Position
    program: Program
    barrier: Expr | None = None  # of a cluster


def finish(writer: Writer, endings: Sequence[Ending], mapping: Mapping) -> list[dict[Var, Expr]]:
    """Combine the partial results of all threads of each row; every thread gets the results.

    All reductions of a phase share one barrier, in a cluster one of its own: each has its own
    scratch, written before it and only read after it.
    """
    width, apart = min(mapping.threads, mapping.warp_threads), mapping.apart
    count = mapping.vector * mapping.steps
    totals: list[dict[Var, Expr]] = []
    for each in endings:
        own = {one.stage.output: [_of_lanes(writer, one)] for one in each.accumulators}
        _measure_from_zero(writer, each.accumulators, own, each.program, count)
        args = (writer, each.accumulators, own, each.program, width, count, apart)
        totals.append(_combined(*args))
    if needs_exchange(mapping):
        for each, found in zip(endings, totals, strict=True):
            _send(writer, each, found, mapping)
        _synchronise(writer, endings, mapping)
        partials = [_receive(writer, each, mapping) for each in endings]
        count *= width
        width = min(mapping.threads // width * mapping.cluster, width)
        totals = [
            _combined(writer, each.accumulators, found, each.program, width, count, apart)
            for each, found in zip(endings, partials, strict=True)
        ]
    return [_results(writer, each, found) for each, found in zip(endings, totals, strict=True)]


def _results(writer: Writer, ending: Ending, totals: MappingOf[Var, Expr]) -> dict[Var, Expr]:
    stages = [each.stage for each in ending.accumulators]
    return {s.output: writer.value(s.name, result(s, totals[s.output])) for s in stages}


def finish_in_warp(writer: Writer, accumulator: Accumulator, threads: int, apart: int = 1) -> Expr:
    """Combine the partial results of a row's threads, all of one warp; each gets the result."""
    total = butterfly(writer, accumulator.stage, accumulator.partial[int64(0)], threads, apart)
    return writer.value(accumulator.stage.name, result(accumulator.stage, total))


def _of_lanes(writer: Writer, accumulator: Accumulator) -> Expr:
    """The partial result of a thread."""
    lanes = [accumulator.partial[int64(lane)] for lane in range(accumulator.lanes)]
    return chained(writer, accumulator.stage, lanes)


def _measure_from_zero(
    writer: Writer,
    accumulators: list[Accumulator],
    own: dict[Var, list[Expr]],
    program: Program,
    count: int,
) -> None:
    """What a thread measured against its first value: the sum itself, squares around its mean."""
    for accumulator in accumulators:
        output, first = accumulator.stage.output, accumulator.first
        if first is None:
            continue
        distance = writer.value("distance", own[output][0])
        own[output] = [writer.value("own", distance + first * float(count))]
        for squares, total in program.variance_of.items():
            if total == output:
                own[squares] = [own[squares][0] - distance * distance * (1.0 / count)]


def _combined(
    writer: Writer,
    accumulators: list[Accumulator],
    partials: MappingOf[Var, list[Expr]],
    program: Program,
    width: int,
    count: int,
    apart: int,
) -> dict[Var, Expr]:
    """The partials of `width` threads of a row as one: first what others are measured against.

    `count` says how many values each partial is of, `apart` how far the threads lie.
    """
    online_after, variance_of = program.online_after, program.variance_of
    totals: dict[Var, Expr] = {}
    for accumulator in accumulators:
        output = accumulator.stage.output
        own = partials[output]
        if output in online_after:
            before, largest = partials[online_after[output]], totals[online_after[output]]
            own = [s * tirx.exp(b - largest) for s, b in zip(own, before, strict=True)]
        if output in variance_of:
            sums, size = partials[variance_of[output]], count * len(own) * width
            mean = writer.value("mean", totals[variance_of[output]] * (1.0 / size))
            offsets = [writer.value("offset", b * (1.0 / count) - mean) for b in sums]
            own = [s + o * o * float(count) for s, o in zip(own, offsets, strict=True)]
        value = chained(writer, accumulator.stage, own)
        totals[output] = butterfly(writer, accumulator.stage, value, width, apart)
    return totals


def result(stage: Stage, total: Expr) -> Expr:
    """A reduction's result in its own dtype."""
    dtype = dtype_of(stage.output)
    return total != 0 if dtype == "bool" else total.astype(dtype)


def _send(writer: Writer, ending: Ending, totals: MappingOf[Var, Expr], mapping: Mapping) -> None:
    """What each warp found goes to shared memory, in a cluster to that of every block."""
    thread, width = ending.position.thread, mapping.warp_threads
    warp, lane = tirx.floordiv(thread, width), tirx.floormod(thread, width)
    if ending.barrier is not None:
        warp = ending.position.rank * (mapping.threads // width) + warp
    at = _slot(mapping, ending.position, warp)
    # Each lane of a row tells a block, or several if it has fewer lanes than the cluster blocks.
    for first in range(0, mapping.cluster, width):
        block = lane + first if first else lane
        with writer.when(lane == 0 if ending.barrier is None else block < mapping.cluster):
            for accumulator in ending.accumulators:
                value, scratch = totals[accumulator.stage.output], accumulator.scratch
                assert scratch is not None
                if ending.barrier is None:
                    writer.store(scratch, at, value)
                else:
                    own, sent = scratch.ptr_to([at]), value.astype(dtype_of(scratch))
                    cluster_exchange.send(writer, sent, own, ending.barrier, block)


def _synchronise(writer: Writer, endings: Sequence[Ending], mapping: Mapping) -> None:
    """Behind it, what all warps have found is there."""
    barrier = endings[0].barrier  # one for all
    if barrier is not None:
        cluster_exchange.wait(writer, barrier)
    else:
        writer.add(tirx.Evaluate(T.tvm_storage_sync(scratch_scope(mapping))))


def _receive(writer: Writer, ending: Ending, mapping: Mapping) -> dict[Var, list[Expr]]:
    """Every warp gets the values of all in the same order: all get the same result to the bit."""
    thread, width = ending.position.thread, mapping.warp_threads
    warps = mapping.threads // width * mapping.cluster
    width = min(warps, width)
    found: dict[Var, list[Expr]] = {}
    for accumulator in ending.accumulators:
        partials, scratch = [], accumulator.scratch
        assert scratch is not None
        for iteration in range(warps // width):
            other = tirx.floormod(thread, width) + iteration * width
            at = _slot(mapping, ending.position, other)
            partial = scratch[at].astype(dtype_of(accumulator.partial))
            partials.append(writer.value(f"{accumulator.stage.name}_of_warp", partial))
        found[accumulator.stage.output] = partials
    return found


def _slot(mapping: Mapping, position: Position, warp: Expr) -> Expr:
    """Where a row's warp leaves its value: as its threads lie in a block, so do the values."""
    if mapping.apart > 1:
        return warp * mapping.apart + position.row_of_block
    return position.row_of_block * (mapping.threads // mapping.warp_threads) + warp
