"""How the blocks of a cluster tell each other their values.

A value goes straight into the shared memory of the block that needs it, and the bytes that arrive
there are counted by a barrier of that block (an mbarrier), which its threads wait for. The barrier
of the cluster would do, but it waits for everything that a multiprocessor has on its way to memory:
measured on an H200, a tenth of the time of a long row. It is needed once, before anything is sent,
when there is nothing to wait for yet.

What is as large as the shared memory that would receive it stays where it is, and others read it:
between two barriers of the cluster, of which the second keeps blocks from leaving too early.
"""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

# Of a value that is sent: its type in CUDA, in PTX, and its kind of register.
_TYPES = {
    "float32": ("float", "b32", "f"),
    "int32": ("int", "b32", "r"),
    "float64": ("double", "b64", "d"),
    "int64": ("long long", "b64", "l"),
}
_WAIT = """__device__ __forceinline__ void tvm_stitch_wait(void* barrier, unsigned phase) {
  unsigned address = (unsigned)__cvta_generic_to_shared(barrier);
  unsigned done;
  do {
    asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(address), "r"(phase) : "memory");
  } while (!done);
}
"""
_SEND = """__device__ __forceinline__ void tvm_stitch_send_{dtype}(
    void* to, {type} value, void* barrier, unsigned rank) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  unsigned counter = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile(
    "{{ .reg .b32 there, counted; mapa.shared::cluster.u32 there, %0, %3; "
    "mapa.shared::cluster.u32 counted, %2, %3; "
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.{ptx} [there], %1, [counted]; }}"
    :: "r"(place), "{register}"(value), "r"(counter), "r"(rank) : "memory");
}}
"""
_READ = """__device__ __forceinline__ void tvm_stitch_add_{count}(
    float* sums, const void* from, unsigned rank) {{
  unsigned place = (unsigned)__cvta_generic_to_shared(from);
  float read[{count}];
  asm volatile(
    "{{ .reg .b32 there; mapa.shared::cluster.u32 there, %{count}, %{after}; "
    "ld.shared::cluster.{vector}f32 {registers}, [there]; }}"
    : {outputs} : "r"(place), "r"(rank));
  for (int i = 0; i < {count}; ++i) sums[i] += read[i];
}}
"""


def sent_dtype(dtype: str) -> str:
    """What values of a dtype are sent as: nothing is narrower than four bytes."""
    return "int32" if dtype in ("int8", "uint8") else dtype


def open_barriers(writer: Writer, first: Expr, expected: list[int]) -> Var:
    """A barrier for each exchange, which expects so many bytes; `first` thread makes them."""
    barriers = writer.allocate("arrivals", len(expected), "uint64", "shared")
    with writer.when(first):
        for number, size in enumerate(expected):
            barrier = barriers.ptr_to([int64(number)])
            writer.call(T.ptx.mbarrier.init.shared__cta.b64(barrier, _unsigned(1)))
            arrive = T.ptx.mbarrier.arrive.expect_tx.shared__cta.b64
            writer.call(arrive(barrier, _unsigned(size)))
        writer.call(T.ptx.fence.mbarrier_init.release.cluster())
    writer.call(T.ptx.barrier.cluster.arrive.relaxed.aligned())
    return barriers


def await_barriers(writer: Writer) -> None:
    """All blocks of the cluster have their barriers."""
    writer.call(T.ptx.barrier.cluster.wait.acquire.aligned())


def send(writer: Writer, value: Expr, to: Expr, barrier: Expr, rank: Expr) -> None:
    """A value into another block's shared memory, by addresses of one's own."""
    dtype = dtype_of(value)
    kind, ptx, register = _TYPES[dtype]
    source = _SEND.format(dtype=dtype, type=kind, ptx=ptx, register=register)
    name = f"tvm_stitch_send_{dtype}"
    rank = rank.astype("uint32")
    writer.call(T.cuda.func_call(name, to, value, barrier, rank, source_code=source))


def wait(writer: Writer, barrier: Expr) -> None:
    """Until all that a barrier expects has arrived."""
    writer.call(T.cuda.func_call("tvm_stitch_wait", barrier, _unsigned(0), source_code=_WAIT))


def publish(writer: Writer) -> None:
    """What any block has written into its shared memory, all of the cluster may now read."""
    writer.call(T.ptx.barrier.cluster.arrive.release.aligned())
    writer.call(T.ptx.barrier.cluster.wait.acquire.aligned())


def add_from(writer: Writer, sums: Expr, at: Expr, count: int, rank: Expr) -> None:
    """So many float32 of another block, by an address of one's own, added to a thread's sums."""
    registers = ", ".join(f"%{number}" for number in range(count))
    source = _READ.format(
        count=count,
        after=count + 1,
        vector="" if count == 1 else f"v{count}.",
        registers=registers if count == 1 else f"{{{registers}}}",
        outputs=", ".join(f'"=f"(read[{number}])' for number in range(count)),
    )
    name = f"tvm_stitch_add_{count}"
    writer.call(T.cuda.func_call(name, sums, at, rank.astype("uint32"), source_code=source))


def leave(writer: Writer) -> None:
    """Nobody reads this block's shared memory any more. What is on its way to memory may be."""
    writer.call(T.ptx.barrier.cluster.arrive.relaxed.aligned())
    await_barriers(writer)


def _unsigned(value: int) -> Expr:
    return tirx.IntImm("uint32", value)
