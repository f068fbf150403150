"""Emits reductions: lanes of a thread, threads of a warp, warps of a row."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
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
    reference: Var | None = None  # the maximum that a sum of exponentials is measured against

    def add(self, writer: Writer, lane: Expr, value: Expr) -> None:
        """Combine a value into a lane."""
        at = tirx.floormod(lane, int64(self.lanes)) if self.lanes > 1 else int64(0)
        value = value.astype(dtype_of(self.partial))
        writer.store(self.partial, at, combine(self.stage.combiner, self.partial[at], value))


def needs_exchange(mapping: Mapping) -> bool:
    """Whether a row's threads are more than a warp."""
    return mapping.threads > WARP or mapping.cluster > 1


def scratch_scope(mapping: Mapping) -> str:
    """One kind of shared memory in a kernel: TVM takes a barrier to order one kind only.

    In a cluster TVM sees no barrier at all, nor reads of the scratch.
    """
    return "shared.dyn" if mapping.residence == "shared" and mapping.cluster == 1 else "shared"


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


def start(
    writer: Writer, stage: Stage, mapping: Mapping, maximum: Stage | None = None
) -> Accumulator:
    """Allocate and initialise the partial results of a reduction, which may follow a maximum."""
    dtype = accumulator_dtype(stage)
    lanes = min(mapping.vector, LANES)
    partial = writer.allocate(f"{stage.name}_partial", lanes, dtype)
    scratch = reference = None
    if needs_exchange(mapping):
        warps = mapping.block_threads // WARP
        scratch = writer.allocate(f"{stage.name}_warps", warps, dtype, scratch_scope(mapping))
    with writer.unrolled(lanes, "lane") as lane:
        writer.store(partial, lane, stage.identity.astype(dtype))
    if maximum is not None:
        reference = writer.allocate(f"{stage.name}_reference", 1, dtype)
        writer.store(reference, int64(0), maximum.identity.astype(dtype))
    return Accumulator(stage, partial, lanes, scratch, reference)


def grow(
    writer: Writer, accumulators: MappingOf[Var, Accumulator], follows: MappingOf[Var, Var]
) -> dict[Var, Expr]:
    """The maxima so far, to which the sums that follow them are rescaled."""
    found: dict[Var, Expr] = {}
    for output, maximum in follows.items():
        if output not in accumulators:
            continue
        total, largest = accumulators[output], accumulators[maximum]
        if maximum not in found:
            found[maximum] = writer.value("largest", _of_lanes(largest))
        assert total.reference is not None
        before = total.reference[int64(0)]
        factor = writer.value("rescaled", tirx.exp(before - found[maximum]))
        writer.store(total.reference, int64(0), found[maximum])
        with writer.unrolled(total.lanes, "lane") as lane:
            writer.store(total.partial, lane, total.partial[lane] * factor)
    return {m: result(accumulators[m].stage, value) for m, value in found.items()}


def finish(
    writer: Writer,
    accumulators: list[Accumulator],
    mapping: Mapping,
    position: Position,
    follows: MappingOf[Var, Var],
) -> dict[Var, Expr]:
    """Combine the partial results of all threads of a row; every thread gets the result.

    All reductions of a phase share one barrier: each has its own scratch, written before it and
    only read after it.
    """
    own = {each.stage.output: [_of_lanes(each)] for each in accumulators}
    totals = _combined(writer, accumulators, own, follows, min(mapping.threads, WARP))
    if needs_exchange(mapping):
        shares = _exchange(writer, accumulators, totals, mapping, position)
        width = min(mapping.threads // WARP * mapping.cluster, WARP)
        totals = _combined(writer, accumulators, shares, follows, width)
    results: dict[Var, Expr] = {}
    for output, stage in ((each.stage.output, each.stage) for each in accumulators):
        results[output] = writer.value(stage.name, result(stage, totals[output]))
    return results


def _of_lanes(accumulator: Accumulator) -> Expr:
    """The partial result of a thread."""
    value = accumulator.partial[int64(0)]
    for lane in range(1, accumulator.lanes):
        value = combine(accumulator.stage.combiner, value, accumulator.partial[int64(lane)])
    return value


def _combined(
    writer: Writer,
    accumulators: list[Accumulator],
    shares: MappingOf[Var, list[Expr]],
    follows: MappingOf[Var, Var],
    width: int,
) -> dict[Var, Expr]:
    """The shares of `width` neighbouring threads as one: maxima first, then what follows them."""
    totals: dict[Var, Expr] = {}
    for accumulator in accumulators:
        output, combiner = accumulator.stage.output, accumulator.stage.combiner
        own = shares[output]
        if output in follows:
            before, largest = shares[follows[output]], totals[follows[output]]
            own = [s * tirx.exp(b - largest) for s, b in zip(own, before, strict=True)]
        value = own[0]
        for other in own[1:]:
            value = combine(combiner, value, other)
        totals[output] = _butterfly(writer, accumulator, value, width)
    return totals


def result(stage: Stage, total: Expr) -> Expr:
    """A reduction's result in its own dtype."""
    dtype = dtype_of(stage.output)
    return total != 0 if dtype == "bool" else total.astype(dtype)


def _exchange(
    writer: Writer,
    accumulators: list[Accumulator],
    totals: MappingOf[Var, Expr],
    mapping: Mapping,
    position: Position,
) -> dict[Var, list[Expr]]:
    """What each warp found through shared memory, in a cluster through that of all its blocks.

    Every warp gets the values of all in the same order: all get the same result to the bit.
    """
    thread = position.thread
    warps = mapping.threads // WARP
    first = position.row_of_block * warps
    with writer.when(tirx.floormod(thread, WARP) == 0):
        for accumulator in accumulators:
            value = totals[accumulator.stage.output]
            writer.store(accumulator.scratch, first + tirx.floordiv(thread, WARP), value)
    barrier = T.tvm_storage_sync(scratch_scope(mapping))
    writer.add(tirx.Evaluate(T.cuda.cluster_sync() if mapping.cluster > 1 else barrier))
    width = min(warps * mapping.cluster, WARP)
    found: dict[Var, list[Expr]] = {}
    for accumulator in accumulators:
        assert accumulator.scratch is not None
        shares = found[accumulator.stage.output] = []
        for turn in range(warps * mapping.cluster // width):
            number = tirx.floormod(thread, width) + turn * width
            if mapping.cluster > 1:
                shares.append(_remote(writer, accumulator.scratch, number, warps))
            else:
                share = accumulator.scratch[first + number]
                shares.append(writer.value(f"{accumulator.stage.name}_share", share))
    return found


def _remote(writer: Writer, scratch: Var, number: Expr, warps: int) -> Expr:
    """The value of a warp of the cluster."""
    address, dtype = writer.allocate("address", 1, "uint64"), dtype_of(scratch)
    own = scratch.ptr_to([tirx.floormod(number, warps)])
    rank = tirx.floordiv(number, warps).astype("uint32")
    writer.add(tirx.Evaluate(T.ptx.mapa.u64(address[int64(0)], own, rank)))
    ctype = CUDA_TYPES[dtype]
    name = f"tvm_stitch_remote_{dtype}"
    source = (
        f"__device__ __forceinline__ {ctype} {name}(unsigned long long address) "
        f"{{ return *(volatile {ctype}*)address; }}"
    )
    loaded = T.cuda.func_call(name, address[int64(0)], source_code=source, return_type=dtype)
    return writer.value("other", loaded)


def arrive_to_leave(writer: Writer) -> None:
    """Says that this block reads no other's shared memory any more."""
    writer.add(tirx.Evaluate(T.ptx.barrier.cluster.arrive.release.aligned()))


def leave_cluster(writer: Writer) -> None:
    """No block may end before all have said so."""
    writer.add(tirx.Evaluate(T.ptx.barrier.cluster.wait.acquire.aligned()))


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
