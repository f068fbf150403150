"""Emits reductions: lanes of a thread, threads of a warp, warps of a row."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Expr, Stage, Var
from tvm_stitch.kernel.writer import Writer, int64

WARP = 32
# Independent partial results of a thread: they shorten the chain of dependent additions.
LANES = 4


@dataclass(frozen=True, eq=False)
class Accumulator:
    """Where a thread collects its share of one reduction."""

    stage: Stage
    partial: Var  # one element for each lane
    lanes: int
    scratch: Var | None  # one element for each warp of the block

    def add(self, writer: Writer, lane: Expr, value: Expr) -> None:
        """Combine a value into a lane."""
        at = tirx.floormod(lane, int64(self.lanes)) if self.lanes > 1 else int64(0)
        value = value.astype(self.partial.ty.dtype)
        writer.store(self.partial, at, combine(self.stage.combiner, self.partial[at], value))


def scratch_scope(schedule: Schedule) -> str:
    """One kind of shared memory in a kernel: TVM takes a barrier to order one kind only."""
    return "shared" if schedule.residence == "register" else "shared.dyn"


def accumulator_dtype(stage: Stage) -> str:
    """Halves accumulate in float32, logic in int32."""
    dtype = stage.output.ty.dtype
    return {"float16": "float32", "bfloat16": "float32", "bool": "int32"}.get(dtype, dtype)


def combine(combiner: str, left: Expr, right: Expr) -> Expr:
    """Two partial results as one."""
    if combiner == "sum":
        return left + right
    if combiner == "prod":
        return left * right
    return tirx.max(left, right) if combiner in ("max", "any") else tirx.min(left, right)


def start(writer: Writer, stage: Stage, schedule: Schedule) -> Accumulator:
    """Allocate and initialise the partial results of a reduction."""
    dtype = accumulator_dtype(stage)
    lanes = min(schedule.vector, LANES)
    partial = writer.allocate(f"{stage.name}_partial", lanes, dtype)
    scratch = None
    if schedule.threads > WARP:
        warps = schedule.block_threads // WARP
        scratch = writer.allocate(f"{stage.name}_warps", warps, dtype, scratch_scope(schedule))
    with writer.unrolled(lanes, "lane") as lane:
        writer.store(partial, lane, stage.identity.astype(dtype))
    return Accumulator(stage, partial, lanes, scratch)


def finish(
    writer: Writer, accumulators: list[Accumulator], schedule: Schedule, thread: Var, row: Expr
) -> dict[Var, Expr]:
    """Combine the partial results of all threads of a row; every thread gets the result.

    All reductions of a phase share one barrier: each has its own scratch, written before it and
    only read after it.
    """
    results: dict[Var, Expr] = {}
    warp_results = []
    for accumulator in accumulators:
        combiner = accumulator.stage.combiner
        value = accumulator.partial[int64(0)]
        for lane in range(1, accumulator.lanes):
            value = combine(combiner, value, accumulator.partial[int64(lane)])
        warp_results.append(_butterfly(writer, accumulator, value, min(schedule.threads, WARP)))
    if schedule.threads > WARP:
        warp_results = _exchange(writer, accumulators, warp_results, schedule, thread, row)
    for accumulator, value in zip(accumulators, warp_results, strict=True):
        output = accumulator.stage.output
        result = value != 0 if output.ty.dtype == "bool" else value.astype(output.ty.dtype)
        results[output] = writer.value(accumulator.stage.name, result)
    return results


def _exchange(
    writer: Writer,
    accumulators: list[Accumulator],
    values: list[Expr],
    schedule: Schedule,
    thread: Var,
    row: Expr,
) -> list[Expr]:
    """One value of each warp through shared memory."""
    warps = schedule.threads // WARP
    first = row * warps
    with writer.when(tirx.floormod(thread, WARP) == 0):
        for accumulator, value in zip(accumulators, values, strict=True):
            writer.store(accumulator.scratch, first + tirx.floordiv(thread, WARP), value)
    writer.add(tirx.Evaluate(T.tvm_storage_sync(scratch_scope(schedule))))
    found = []
    for accumulator in accumulators:
        assert accumulator.scratch is not None
        value = accumulator.scratch[first + tirx.floormod(thread, warps)]
        found.append(_butterfly(writer, accumulator, value, warps))
    return found


def _butterfly(writer: Writer, accumulator: Accumulator, value: Expr, width: int) -> Expr:
    """Combine the values of `width` neighbouring threads; each gets the result."""
    stage = accumulator.stage
    if width == 1:
        return writer.value(f"{stage.name}_all", value)
    if stage.combiner != "prod":
        name = {"any": "max", "all": "min"}.get(stage.combiner, stage.combiner)
        return writer.value(f"{stage.name}_all", T.cuda.warp_reduce(value, name, width))
    everyone = tirx.IntImm("uint32", 0xFFFFFFFF)
    distance = width // 2
    while distance:
        mine = writer.value(f"{stage.name}_mine", value)
        other = T.cuda.__shfl_xor_sync(everyone, mine, distance, WARP)
        value = writer.value(f"{stage.name}_all", combine("prod", mine, other))
        distance //= 2
    return value
