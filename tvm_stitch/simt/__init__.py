"""Runs TVM-generated CUDA kernels on the CPU, and says what is wrong with them.

    run = simt.run(primfunc, arrays={"x": x, "y": y})   # y is written in place
    assert run.ok, run                                  # races, stray accesses, deadlocks ...

Takes CUDA source, runtime modules and thread-bound PrimFuncs; needs g++ and Linux, no GPU. Knows
TVM and NumPy only: nothing of graphs, plans or schedules.

How: the source is compiled as C++ against runtime/, a fiber for every thread, switching at
barriers and warp operations in an order drawn from the seed. The compiler's thread sanitizer calls
the runtime at every access, whose shadow memory knows who touched what since which barrier.

Of tensor cores there are ldmatrix, and the mma.sync and wgmma of halves, whose sums the device may
add in another order. What is not there: wmma, other types of mma, TMA, 8-bit floats (refused with
their name). Fast maths is computed exactly, nothing is contracted to fma. Synchronisation by
atomics and flags runs, but what it orders is reported as a race; so is code that counts on warps in
lockstep. Checks need 36 bytes of memory for every element that is touched.
"""

from tvm_stitch.simt.function import Function, as_array, available, run
from tvm_stitch.simt.hazards import Hazard
from tvm_stitch.simt.launch import Kernel, Launch, Run, compile_many, load
from tvm_stitch.simt.memory import from_bfloat16, to_bfloat16
from tvm_stitch.simt.source import kernel_names

__all__ = [
    "Function",
    "Hazard",
    "Kernel",
    "Launch",
    "Run",
    "as_array",
    "available",
    "compile_many",
    "from_bfloat16",
    "kernel_names",
    "load",
    "run",
    "to_bfloat16",
]
