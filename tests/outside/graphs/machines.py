"""What runs a module: the executor on CUDA source, a GPU, or TVM's LLVM for comparison.

In: a module and a target. Out: functions from arrays to arrays, floating ones in float64. Knows
tvm_stitch by its public names, and the executor's way of running a whole module from verify.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

import tvm_stitch
from tests.outside.graphs.graph import numpy_dtype
from tests.outside.graphs.launches import Counted
from tvm_stitch.build import lowering_context, stitch_passes
from tvm_stitch.target import full_target, plain_target
from tvm_stitch.verify import _leaves, _Runner, stitched_for_cpu

Arrays = Sequence[np.ndarray]
CUDA = "cuda"


def target_of(arch: str) -> tvm.target.Target:
    """The CUDA target of an architecture; a host without which TVM would ask this machine."""
    return full_target({"kind": "cuda", "arch": arch})


class Executor:
    """The stitched module, its kernels run thread by thread on the CPU.

    All of them, or where that cannot be, `partly`: what is not stitched goes through LLVM.
    """

    def __init__(
        self, mod: tvm.IRModule, arch: str, options: Any, orders: int, partly: bool = False
    ) -> None:
        target = target_of(arch)
        self.orders, self.partly = orders, partly
        passes = [*cuda_pipeline.library_dispatch_passes(target), *stitch_passes(target, options)]
        with target:
            lowered = tvm.transform.Sequential(passes)(mod)
        self.launches = Counted.of(lowered)
        run = stitched_for_cpu(mod, target, options) if partly else lowered
        self._runner = _Runner(run, target)

    @property
    def hazards(self) -> list[str]:
        """What was found while running, each once."""
        return list(dict.fromkeys(map(str, self._runner.hazards)))

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs, for one thread order."""
        return [_wide(array) for array in self._runner.run(arrays, order)]


class Gpu:
    """The module compiled for this machine's GPU: stitched, or by TVM's default pipeline."""

    def __init__(self, mod: tvm.IRModule, options: Any, stitched: bool = True) -> None:
        self.device = tvm.cuda(0)
        counted = Counted()
        with tvm.transform.PassContext(opt_level=3, instruments=[counted]):
            if stitched:
                executable = tvm_stitch.compile(mod, "cuda", options)
            else:
                executable = tvm.compile(mod, tvm.target.Target("cuda"))
        self.launches = counted.launches
        self.machine = relax.VirtualMachine(executable, self.device)

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs, once they are there."""
        given = [tvm.runtime.tensor(array, self.device) for array in arrays]
        results = _leaves(self.machine["main"](*given))
        self.device.sync()
        return [_wide(_fetched(result)) for result in results]


class Llvm:
    """The module as TVM's own pipeline for the CPU makes it: what unstitched kernels lose."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs."""
        given = [tvm.runtime.tensor(array) for array in arrays]
        return [_wide(_fetched(result)) for result in _leaves(self.machine["main"](*given))]


def default_lowered(mod: tvm.IRModule, arch: str) -> tvm.IRModule:
    """The module after TVM's default passes for CUDA, with its kernels scheduled."""
    target = plain_target(target_of(arch))
    passes = [
        *cuda_pipeline.library_dispatch_passes(target),
        *cuda_pipeline.legalize_passes(target),
    ]
    with target, lowering_context():
        return tvm.transform.Sequential(passes)(mod)


def default_source(mod: tvm.IRModule, arch: str) -> None:
    """Takes the module through the whole of TVM's default pipeline for that architecture."""
    target = plain_target(target_of(arch))
    with target:
        tvm.compile(mod, target)


def fed(arrays: Arrays, dtypes: Sequence[str]) -> list[np.ndarray]:
    """Arrays as the module takes them."""
    return [
        np.ascontiguousarray(array.astype(numpy_dtype(dtype))).reshape(array.shape)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def _fetched(tensor: Any) -> np.ndarray:
    array = tensor.numpy()
    if str(tensor.dtype) == "bfloat16" and array.dtype == np.uint16:
        array = array.view(numpy_dtype("bfloat16"))
    return array


def _wide(array: np.ndarray) -> np.ndarray:
    """Floating arrays in float64, also bfloat16; others as they are."""
    if array.dtype.kind in "iub":
        return array
    return array.astype("float64")


Machine = Callable[[Arrays], list[np.ndarray]]
