"""Rows whose updates several groups of a block's threads add up, and one of these all of them.

In: a scattered reduction, its Mapping. Writes TIR into a Writer. Must not know which row it is.
"""

from __future__ import annotations

from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Place, Writer
from tvm_stitch.kernel.codegen.warp_shuffle import combine
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.scattered.lists.indices import IN_CUDA, as_int32, int32
from tvm_stitch.kernel.scattered.mapping import Scattered
from tvm_stitch.stages.extremes import EXTREMES
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import Expr, Var, dtype_of, element_bytes
from tvm_stitch.stages.symbolic_analyzer import int64

# A tree reduction over the groups of threads that have a row, side by side: in the end the first
# has all of it.
_COMBINE = """
__device__ __forceinline__ void {name}(void* partials, int width, int least, int elements) {{
  {type}* own = ({type}*)partials + threadIdx.x;
  for (int left = width / 2; left >= least; left /= 2) {{
    __syncthreads();
    if ((threadIdx.x & (width - 1)) < left) {{
      for (int n = 0; n < elements; ++n) {{
        {type} mine = own[n * blockDim.x], other = own[n * blockDim.x + left];
        own[n * blockDim.x] = {combined};
      }}
    }}
  }}
  __syncthreads();
}}
"""
# By combiners; what is not a number stays, and is left of an extreme of floats.
_COMBINED = {
    "sum": "mine + other",
    "max": "max(mine, other)",
    "min": "min(mine, other)",
    "largest": "mine >= other || mine != mine ? mine : other",
    "smallest": "mine <= other || mine != mine ? mine : other",
}


def without_idle(mapping: Mapping) -> Mapping:
    """The same threads, of which those without elements of their row have some of others."""
    if not mapping.idle:
        return mapping
    rows = mapping.block_threads // mapping.working
    return Scattered(mapping.working, rows, mapping.vector, mapping.steps, mapping.blocks)


def shares_rows(mapping: Mapping) -> bool:
    """Whether several groups of a block's threads may add up updates of one row."""
    return mapping.partitioned or mapping.block_threads > mapping.working


def shared_sum_bytes(wanted: ScatteredReduction, mapping: Mapping) -> int:
    """Shared memory where the threads of a block combine their sums of one row's updates."""
    if not shares_rows(mapping):
        return 0
    return mapping.elements * mapping.block_threads * element_bytes(wanted.stage.output)


def clear(writer: Writer, wanted: ScatteredReduction, tile: Var, mapping: Mapping) -> None:
    """Nothing is added up yet."""
    with writer.unrolled(mapping.elements, "element") as element:
        writer.store(tile, element, wanted.nothing(dtype_of(tile)))


def put_together(
    writer: Writer, wanted: ScatteredReduction, tile: Var, at: Expr, value: Expr
) -> None:
    """An update, or what others have added up, to what a thread has."""
    if wanted.combiner in EXTREMES:  # which name their operands several times
        value = writer.value(f"{wanted.stage.name}_other", value)
    writer.store(tile, at, combine(wanted.combiner, tile[at], value))


class Partials:
    """What all threads have added up, in shared memory."""

    def __init__(self, wanted: ScatteredReduction, mapping: Mapping, place: Place) -> None:
        self.wanted, self.writer, self.thread = wanted, place.writer, place.thread
        self.threads, self.dtype = mapping.block_threads, dtype_of(wanted.stage.output)
        size, name = mapping.elements * self.threads, f"{wanted.stage.name}_partials"
        self.buffer = self.writer.allocate(name, size, self.dtype, "shared.dyn")

    def combine(self, tile: Var, mapping: Mapping, width: int | Expr) -> None:
        """Add up what so many threads have, side by side, that share a row; a barrier is behind."""
        writer = self.writer
        with writer.unrolled(mapping.elements, "element") as element:
            writer.store(self.buffer, element * self.threads + self.thread, tile[element])
        combiner = self.wanted.combiner
        name = f"tvm_stitch_combine_{combiner}_{self.dtype}"
        source = _COMBINE.format(name=name, type=IN_CUDA[self.dtype], combined=_COMBINED[combiner])
        sizes = as_int32(width), int32(mapping.working), int32(mapping.elements)
        own = self.buffer.ptr_to([int64(0)])
        writer.call(T.cuda.func_call(name, own, *sizes, source_code=source))

    def take(self, tile: Var, mapping: Mapping, thread: Expr) -> None:
        """Add what a thread has then; others may be combined behind a barrier."""
        with self.writer.unrolled(mapping.elements, "element") as element:
            others = self.buffer[element * self.threads + thread]
            put_together(self.writer, self.wanted, tile, element, others)
