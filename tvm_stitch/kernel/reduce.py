"""Emits reductions: lanes of a thread, threads of a warp, warps of a row."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.position import Position
from tvm_stitch.kernel.schedule import WARP, Mapping
from tvm_stitch.kernel.stage import Expr, Stage, Var, dtype_of
from tvm_stitch.kernel.writer import Writer, int64

# Independent partial results of a thread: they shorten the chain of dependent additions.
LANES = 4
CUDA_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long",
              "int8": "signed char", "uint8": "unsigned char"}  # fmt: skip


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
        value = value.astype(dtype_of(self.partial))
        writer.store(self.partial, at, combine(self.stage.combiner, self.partial[at], value))


def scratch_scope(mapping: Mapping) -> str:
    """One kind of shared memory in a kernel: TVM takes a barrier to order one kind only."""
    return "shared.dyn" if mapping.residence == "shared" else "shared"


def accumulator_dtype(stage: Stage) -> str:
    """Halves accumulate in float32, logic in int32."""
    dtype = dtype_of(stage.output)
    return {"float16": "float32", "bfloat16": "float32", "bool": "int32"}.get(dtype, dtype)


def combine(combiner: str, left: Expr, right: Expr) -> Expr:
    """Two partial results as one."""
    if combiner == "sum":
        return left + right
    if combiner == "prod":
        return left * right
    return tirx.max(left, right) if combiner in ("max", "any") else tirx.min(left, right)


def start(writer: Writer, stage: Stage, mapping: Mapping) -> Accumulator:
    """Allocate and initialise the partial results of a reduction."""
    dtype = accumulator_dtype(stage)
    lanes = min(mapping.vector, LANES)
    partial = writer.allocate(f"{stage.name}_partial", lanes, dtype)
    scratch = None
    if mapping.threads > WARP:
        warps = mapping.block_threads // WARP
        scratch = writer.allocate(f"{stage.name}_warps", warps, dtype, scratch_scope(mapping))
    with writer.unrolled(lanes, "lane") as lane:
        writer.store(partial, lane, stage.identity.astype(dtype))
    return Accumulator(stage, partial, lanes, scratch)


def finish(
    writer: Writer, accumulators: list[Accumulator], mapping: Mapping, position: Position
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
        warp_results.append(_butterfly(writer, accumulator, value, min(mapping.threads, WARP)))
    if mapping.threads > WARP:
        warp_results = _exchange(writer, accumulators, warp_results, mapping, position)
    if mapping.cluster > 1:
        warp_results = _exchange_blocks(writer, accumulators, warp_results, mapping, position)
    for accumulator, value in zip(accumulators, warp_results, strict=True):
        stage = accumulator.stage
        results[stage.output] = writer.value(stage.name, result(stage, value))
    return results


def finish_in_warp(writer: Writer, accumulator: Accumulator, threads: int) -> Expr:
    """Combine the partial results of a row's threads, all of one warp; each gets the result."""
    total = _butterfly(writer, accumulator, accumulator.partial[int64(0)], threads)
    return writer.value(accumulator.stage.name, result(accumulator.stage, total))


def result(stage: Stage, total: Expr) -> Expr:
    """A reduction's result in its own dtype."""
    dtype = dtype_of(stage.output)
    return total != 0 if dtype == "bool" else total.astype(dtype)


def _exchange(
    writer: Writer,
    accumulators: list[Accumulator],
    values: list[Expr],
    mapping: Mapping,
    position: Position,
) -> list[Expr]:
    """One value of each warp through shared memory."""
    thread = position.thread
    warps = mapping.threads // WARP
    first = position.row_of_block * warps
    with writer.when(tirx.floormod(thread, WARP) == 0):
        for accumulator, value in zip(accumulators, values, strict=True):
            writer.store(accumulator.scratch, first + tirx.floordiv(thread, WARP), value)
    writer.add(tirx.Evaluate(T.tvm_storage_sync(scratch_scope(mapping))))
    found = []
    for accumulator in accumulators:
        assert accumulator.scratch is not None
        value = accumulator.scratch[first + tirx.floormod(thread, warps)]
        found.append(_butterfly(writer, accumulator, value, warps))
    return found


def _exchange_blocks(
    writer: Writer,
    accumulators: list[Accumulator],
    values: list[Expr],
    mapping: Mapping,
    position: Position,
) -> list[Expr]:
    """One value of each block of the cluster through distributed shared memory.

    Every block reads the values in the order of their ranks: all get the same result to the bit.
    """
    totals = []
    for accumulator, value in zip(accumulators, values, strict=True):
        dtype = dtype_of(accumulator.partial)
        total = writer.allocate(f"{accumulator.stage.name}_total", 1, dtype, "shared")
        with writer.when(position.thread == 0):
            writer.store(total, int64(0), value)
        totals.append(total)
    writer.add(tirx.Evaluate(T.cuda.cluster_sync()))
    found = []
    for accumulator, total in zip(accumulators, totals, strict=True):
        dtype = dtype_of(total)
        name = f"{accumulator.stage.name}_cluster"
        result = writer.allocate(name, 1, dtype)
        writer.store(result, int64(0), accumulator.stage.identity.astype(dtype))
        with writer.unrolled(mapping.cluster, "rank") as rank:
            other = _remote(writer, total, rank, dtype)
            combined = combine(accumulator.stage.combiner, result[int64(0)], other)
            writer.store(result, int64(0), combined)
        found.append(result[int64(0)])
    return found


def _remote(writer: Writer, total: Var, rank: Expr, dtype: str) -> Expr:
    """The element of another block of the cluster."""
    address = writer.allocate("address", 1, "uint64")
    # The element is named as well as pointed to: TVM drops shared buffers that only pointers reach.
    writer.add(
        tirx.Evaluate(
            T.ptx.mapa.u64(address[int64(0)], total.ptr_to([int64(0)]), rank.astype("uint32"))
        )
    )
    ctype = CUDA_TYPES[dtype]
    name = f"tvm_stitch_remote_{dtype}"
    source = (
        f"__device__ __forceinline__ {ctype} {name}(unsigned long long address) "
        f"{{ return *(volatile {ctype}*)address; }}"
    )
    loaded = T.cuda.func_call(name, address[int64(0)], source_code=source, return_type=dtype)
    return writer.value("other", loaded)


def leave_cluster(writer: Writer) -> None:
    """No block may end while another still reads its shared memory."""
    writer.add(tirx.Evaluate(T.cuda.cluster_sync()))


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
