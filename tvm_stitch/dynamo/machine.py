"""What runs a converted part: a compiled Relax module as a function of PyTorch's tensors.

In: a Converted and the Settings. Out: a function from the values of the symbols and contiguous
tensors to contiguous tensors. Tensors go over by DLPack, without copies, on PyTorch's current
stream. Must not know graphs of PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from tvm_stitch import transform
from tvm_stitch.build import dispatch_passes, lowering_context, stitch_passes
from tvm_stitch.device import device_of
from tvm_stitch.dynamo.settings import CUDA, EXECUTOR, Settings
from tvm_stitch.errors import SimtError
from tvm_stitch.frontend.torch.convert import ENTRY, Converted
from tvm_stitch.graph.back.destinations import ATTRIBUTE, Destinations
from tvm_stitch.on_cpu import Runner
from tvm_stitch.target import full_target
from tvm_stitch.tuning.apply import Records
from tvm_stitch.verify import stitched_for_cpu

Sizes = tuple[int, ...]
Tensors = Sequence[torch.Tensor]
Machine = Callable[[Sizes, Tensors], list[torch.Tensor]]
Shapes = Callable[[Sizes], list[tuple[int, ...]]]
"""The shapes of the results, by the values of the symbols."""


def machine_for(
    converted: Converted, settings: Settings, device: torch.device, results: Results
) -> Machine:
    """Compile a part for where it will run."""
    if settings.device == CUDA:
        return _Cuda(converted.module, settings, device, results)
    if settings.device == EXECUTOR:
        return _Executor(converted.module, settings)
    return _Returning(tvm.compile(converted.module, "llvm"))


class Results:
    """How the results of a part are made: shapes by the values of the symbols, and dtypes."""

    def __init__(self, shapes: Shapes, dtypes: Sequence[torch.dtype]) -> None:
        self.shapes = shapes
        self.dtypes = tuple(dtypes)


class _Machine:
    """A virtual machine, which serves one thread at a time."""

    def __init__(self, executable: Any, device: Any) -> None:
        self._machine = relax.VirtualMachine(executable, device)
        self._main = self._machine[ENTRY]
        self._lock = threading.Lock()

    def _call(self, sizes: Sizes, tensors: Tensors) -> Any:
        shape = (tvm_ffi.Shape(sizes),) if sizes else ()
        with self._lock:
            return self._main(*shape, *tensors)


class _Returning(_Machine):
    """Results come in memory of the virtual machine, on the CPU."""

    def __init__(self, executable: Any) -> None:
        super().__init__(executable, tvm.cpu())

    def __call__(self, sizes: Sizes, tensors: Tensors) -> list[torch.Tensor]:
        return _copies(self._call(sizes, tensors))


class _Executor:
    """Stitched kernels on the CPU executor, the rest by TVM's LLVM target."""

    def __init__(self, mod: tvm.IRModule, settings: Settings) -> None:
        target = full_target(settings.target)
        self._runner = Runner(stitched_for_cpu(mod, target, settings.stitching), target)
        self._lock = threading.Lock()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The stitched kernels that ran."""
        return tuple(self._runner.ran)

    def __call__(self, sizes: Sizes, tensors: Tensors) -> list[torch.Tensor]:
        shape = (tvm_ffi.Shape(sizes),) if sizes else ()
        with self._lock:
            results = self._runner.call(*shape, *tensors)
            hazards = tuple(self._runner.hazards)
            self._runner.hazards.clear()
        if hazards:
            raise SimtError(f"a stitched kernel is wrong: {hazards[0]}")
        return _copies(results)


class _Cuda(_Machine):
    """Results are written into tensors of PyTorch's allocator."""

    def __init__(
        self, mod: tvm.IRModule, settings: Settings, device: torch.device, results: Results
    ) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        lowered, places = written_to_destinations(mod, settings)
        self._places = places
        self._results = results
        self._device, self._index = device, index
        self._several = torch.cuda.device_count() > 1
        super().__init__(lowered, tvm.cuda(index))

    def __call__(self, sizes: Sizes, tensors: Tensors) -> list[torch.Tensor]:
        shapes = self._results.shapes(sizes)
        made = [
            torch.empty(shape, dtype=dtype, device=self._device) if place >= 0 else None
            for shape, dtype, place in zip(shapes, self._results.dtypes, self._places, strict=True)
        ]
        destinations = [tensor for tensor in made if tensor is not None]
        # TVM makes this device the thread's current one, and leaves it so.
        with torch.cuda.device(self._index) if self._several else nullcontext():
            returned = self._call(sizes, [*tensors, *destinations])
        if len(destinations) == len(made):
            return destinations
        others = iter(_copies(returned))
        return [next(others) if tensor is None else tensor for tensor in made]


def written_to_destinations(mod: tvm.IRModule, settings: Settings) -> tuple[Any, list[int]]:
    """The executable that writes its results where the caller says, and which of them it does."""
    cuda = full_target(settings.target)
    places: list[int] = []

    @tvm.transform.module_pass(opt_level=0, name="NotePlaces")
    def note(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        places.extend(int(place) for place in mod.attrs[ATTRIBUTE])
        return mod

    database = settings.database
    records = None if database is None else Records.open(database, device_of(cuda))
    passes = [
        *dispatch_passes(cuda),
        *stitch_passes(cuda, settings.stitching, records),
        *cuda_pipeline.dataflow_lower_passes(cuda),
        Destinations(ENTRY),
        note,
        *cuda_pipeline.finalize_passes(cuda),
        transform.FewerCalls(),
    ]
    with lowering_context(), cuda:
        pipeline = tvm.transform.Sequential(passes)
        return tvm.compile(mod, cuda, relax_pipeline=pipeline), places


def _copies(results: Any) -> list[torch.Tensor]:
    """What a virtual machine returned, in memory of its own: it may be an input or a constant."""
    return [torch.from_dlpack(result).clone() for result in results]
