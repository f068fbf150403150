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
from tvm_stitch.build import dispatch_passes, lowering_context, stitch_passes
from tvm_stitch.executable.on_cpu import SCANS, Runner, calls, leaves
from tvm_stitch.target import full_target, plain_target
from tvm_stitch.verify import stitched_for_cpu

Arrays = Sequence[np.ndarray]


def this_gpu() -> str:
    """The architecture of this machine's GPU."""
    return str(tvm.target.Target("cuda").attrs["arch"])


def target_of(arch: str) -> tvm.target.Target:
    """The CUDA target of an architecture."""
    return full_target({"kind": "cuda", "arch": arch})


class Executor:
    """A module whose kernels are run thread by thread on the CPU, from their CUDA source."""

    def __init__(self, lowered: tvm.IRModule, arch: str, partly: bool = False) -> None:
        counted = Counted.of(lowered)
        self.launches = None if partly else counted.launches
        self.sums_in_halves = counted.in_halves
        self.partly = partly
        self._runner = Runner(lowered, target_of(arch))

    @staticmethod
    def stitched(mod: tvm.IRModule, arch: str, options: Any) -> Executor:
        """All kernels of the stitched module, but scans and what goes with them, as in verify."""
        target = target_of(arch)
        scans = bool(calls(mod, SCANS))
        dispatch = [] if scans else dispatch_passes(target)
        with target:
            lowered = tvm.transform.Sequential([*dispatch, *stitch_passes(target, options)])(mod)
        return Executor(lowered, arch, partly=scans)

    @staticmethod
    def partly_stitched(mod: tvm.IRModule, arch: str, options: Any) -> Executor:
        """The stitched kernels; all others go through LLVM."""
        return Executor(stitched_for_cpu(mod, target_of(arch), options), arch, partly=True)

    @staticmethod
    def default(mod: tvm.IRModule, arch: str) -> Executor:
        """The kernels of TVM's default pipeline."""
        return Executor(default_lowered(mod, arch), arch)

    @property
    def hazards(self) -> list[str]:
        """What was found while running, each once."""
        return list(dict.fromkeys(map(str, self._runner.hazards)))

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs, for one thread order."""
        return [_wide(array) for array in self._runner.run(arrays, order)]


class Compiled:
    """The stitched module compiled as users compile it; it need not run."""

    def __init__(self, mod: tvm.IRModule, target: Any, options: Any) -> None:
        counted = Counted()
        with tvm.transform.PassContext(opt_level=3, instruments=[counted]):
            self.executable = tvm_stitch.compile(mod, target, options)
        self.launches, self.sums_in_halves = counted.launches, counted.in_halves


class Gpu:
    """The module on this machine's GPU: stitched, or by TVM's default pipeline."""

    def __init__(self, mod: tvm.IRModule, options: Any, stitched: bool = True) -> None:
        self.device = tvm.cuda(0)
        self.launches: int | None = None
        self.sums_in_halves = False
        if stitched:
            compiled = Compiled(mod, "cuda", options)
            executable, self.launches = compiled.executable, compiled.launches
            self.sums_in_halves = compiled.sums_in_halves
        else:
            executable = tvm.compile(mod, tvm.target.Target("cuda"))
        self.machine = relax.VirtualMachine(executable, self.device)

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs, once they are there."""
        given = [_given(array, self.device) for array in arrays]
        results = leaves(self.machine["main"](*given))
        self.device.sync()
        return [_wide(_fetched(result)) for result in results]


class Llvm:
    """The module as TVM's own pipeline for the CPU makes it: what unstitched kernels lose."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.machine = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())

    def __call__(self, arrays: Arrays, order: int = 0) -> list[np.ndarray]:
        """All outputs."""
        given = [_given(array, tvm.cpu()) for array in arrays]
        return [_wide(_fetched(result)) for result in leaves(self.machine["main"](*given))]


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


def _given(array: np.ndarray, device: Any) -> Any:
    tensor = tvm.runtime.empty(array.shape, array.dtype.name, device)
    return tensor.copyfrom(array) if array.size else tensor


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
