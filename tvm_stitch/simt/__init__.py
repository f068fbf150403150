"""Runs TVM-generated CUDA kernels on the CPU, and says what is wrong with them.

    run = simt.run(primfunc, arrays={"x": x, "y": y})   # y is written in place
    assert run.ok, run                                  # races, stray accesses, deadlocks ...

Takes CUDA source, runtime modules and thread-bound PrimFuncs; needs g++, no GPU. Knows TVM and
NumPy only: nothing of graphs, plans or schedules.
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
