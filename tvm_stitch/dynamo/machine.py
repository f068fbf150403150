"""What runs a converted part: a compiled Relax module as a function of PyTorch's tensors.

In: a Converted and the Settings. Out: a function from the values of the symbols and contiguous
tensors to contiguous tensors. Tensors go over by DLPack, without copies, on PyTorch's current
stream; all memory is of PyTorch's allocator. Must not know graphs of PyTorch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline

from tvm_stitch.build import finishing_passes, lowering_context
from tvm_stitch.cache.store import Store, store_of
from tvm_stitch.checked_index import TRAP, OnHost
from tvm_stitch.device import device_of
from tvm_stitch.dynamo.lowering.lowering import Lowering
from tvm_stitch.dynamo.settings import CUDA, EXECUTOR, LLVM, Settings
from tvm_stitch.dynamo.sizes import Formula, Sizes, of_expression
from tvm_stitch.errors import SimtError
from tvm_stitch.executable.kept import KeptExecutable
from tvm_stitch.executable.link import Linking, linked_later
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.frontend.torch.convert import Converted
from tvm_stitch.frontend.torch.writer import ENTRY
from tvm_stitch.graph.back import destinations, storages
from tvm_stitch.graph.back.destinations import Destinations
from tvm_stitch.graph.back.storages import Storages
from tvm_stitch.graph.front.empty import FewerLoops, WithoutElements
from tvm_stitch.kernel.attention.build import AttentionKernels
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE
from tvm_stitch.target import full_target
from tvm_stitch.verify import stitched_for_cpu

# As Inductor's generated code allocates: a third of torch.empty's time. On the current device.
_guards: Any = torch._C._dynamo.guards
# A virtual machine holds what it returned last, be it an input: a function that returns nothing
# makes it let go, without which PyTorch's CUDA graphs find memory in use that is nobody's.
_NOTHING = "nothing"
_NOTHING_OVER: dict[int, int] = {}
_ALLOCATE = {"cpu": _guards._empty_strided_cpu, "cuda": _guards._empty_strided_cuda}

Tensors = Sequence[torch.Tensor]
Machine = Callable[[Sizes, Tensors, bool], list[torch.Tensor]]
"""Takes the values of the symbols, the tensors, and whether it may write over some, as told."""
_Tensor = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides, element type
# The sizes as an argument, where there are some; what to allocate for the results; and for what
# kernels leave for each other.
_Memory = tuple[tuple[tvm_ffi.Shape, ...], list[_Tensor | None], _Tensor | None]


def machine_for(
    converted: Converted,
    settings: Settings,
    device: torch.device,
    results: Results,
    lowered: Callable[[], tvm.IRModule | None] = lambda: None,
) -> Machine:
    """Compile a part for where it will run; `lowered`: see lowered_for_cuda."""
    if not results.dtypes:  # nothing that it returns has elements
        return lambda _sizes, _tensors, _in_place: []
    if settings.device == CUDA:
        with torch.cuda.device(device):  # TVM leaves another one current
            found = lowered_for_cuda(converted.module, settings, device, results.over, lowered)
            return _Compiled(found, device, results)
    if settings.device == EXECUTOR:
        return _Executor(converted.module, settings)
    store = store_of(settings.stitching.cache)
    return _Compiled(lowered_for_llvm(converted.module, store), device, results)


@dataclass(frozen=True)
class Results:
    """How the results of a part are made.

    shapes: by the values of the symbols.
    dtypes: of each result.
    over: numbers of results, with those of the tensors whose memory they may take.
    """

    shapes: Formula
    dtypes: tuple[torch.dtype, ...]
    over: tuple[tuple[int, int], ...] = ()


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

    def __call__(
        self, sizes: Sizes, tensors: Tensors, _in_place: bool = False
    ) -> list[torch.Tensor]:
        shape = (tvm_ffi.Shape(sizes),) if sizes else ()
        with self._lock:
            results = self._runner.call(*shape, *tensors)
            hazards = tuple(self._runner.hazards)
            self._runner.hazards.clear()
        if any(TRAP in hazard.source for hazard in hazards):
            raise IndexError("an index is out of bounds")
        if hazards:
            raise SimtError(f"a stitched kernel is wrong: {hazards[0]}")
        return _copies(results)


class _Compiled:
    """A virtual machine whose results and memory between kernels are of PyTorch's allocator."""

    def __init__(self, lowered: Lowered, device: torch.device, results: Results) -> None:
        on_gpu = device.type == CUDA
        self._index = device.index or 0
        self._allocate = _ALLOCATE[device.type]
        self._places, self._results = lowered.places, results
        self._storage = lowered.storage
        self._memory = lru_cache(maxsize=64)(self._memory_of)
        self._over = {r: tensor for r, tensor in results.over if r in lowered.in_place}
        self._several = on_gpu and torch.cuda.device_count() > 1
        self._executable: Linking | None = lowered.executable
        self.kept = KeptMachine.of(lowered, device, results)
        self._where = tvm.cuda(self._index) if on_gpu else tvm.cpu()
        self._main: Callable[..., Any] = self._first
        self._nothing: Callable[[], Any]
        self._lock = threading.Lock()  # a virtual machine serves one thread at a time

    def __call__(
        self, sizes: Sizes, tensors: Tensors, in_place: bool = False
    ) -> list[torch.Tensor]:
        over = self._over if in_place else _NOTHING_OVER
        if not self._several:
            return self._called(sizes, tensors, over)
        # Memory is of the thread's current device, which TVM sets, and leaves so.
        with torch.cuda.device(self._index):
            return self._called(sizes, tensors, over)

    def _called(
        self, sizes: Sizes, tensors: Tensors, over: Mapping[int, int]
    ) -> list[torch.Tensor]:
        allocate = self._allocate
        shape, memory, between = self._memory(sizes)
        made = [
            tensors[over[number]]
            if number in over
            else None
            if tensor is None
            else allocate(*tensor)
            for number, tensor in enumerate(memory)
        ]
        destinations = [tensor for tensor in made if tensor is not None]
        given = [*tensors, *destinations]
        if between is not None:
            given.append(allocate(*between))
        with self._lock:
            returned = self._main(*shape, *given)
            if len(destinations) == len(made):
                return destinations
            others = iter(_copies(returned))
            self._nothing()
        return [next(others) if tensor is None else tensor for tensor in made]

    def _first(self, *given: Any) -> Any:
        """Waits until all is compiled; from then on the virtual machine's function is called."""
        assert self._executable is not None
        machine = relax.VirtualMachine(self._executable(), self._where)
        self._main, self._nothing = machine[ENTRY], machine[_NOTHING]
        self._executable = None
        return self._main(*given)

    def _memory_of(self, sizes: Sizes) -> _Memory:
        """What a call at these sizes takes."""
        shape = (tvm_ffi.Shape(sizes),) if sizes else ()
        results = zip(self._results.shapes(sizes), self._results.dtypes, self._places, strict=True)
        made = [
            (shape, _strides(shape), dtype) if place >= 0 else None
            for shape, dtype, place in results
        ]
        if self._storage is None:
            return shape, made, None
        length = self._storage if isinstance(self._storage, int) else self._storage(sizes)
        return shape, made, ((length,), (1,), torch.uint8)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a contiguous tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True)
class Lowered:
    """An executable that writes where its caller says.

    executable: waits until it is compiled.
    places: for each result the number of its destination, or -1 where it is returned.
    storage: the bytes of memory between kernels that it wants, perhaps by the values of symbols.
    in_place: the results that may be written over the tensors that they were to be.
    """

    executable: Linking
    places: list[int]
    storage: int | Formula | None
    in_place: frozenset[int] = frozenset()


@dataclass(frozen=True)
class KeptMachine:
    """What later processes make a machine of without compiling: it can be pickled."""

    executable: KeptExecutable
    places: list[int]
    storage: int | Formula | None
    in_place: frozenset[int]
    device: torch.device
    results: Results

    @staticmethod
    def of(lowered: Lowered, device: torch.device, results: Results) -> KeptMachine | None:
        """None if it has to be compiled anew."""
        executable = lowered.executable.kept
        if executable is None:
            return None
        rest = lowered.places, lowered.storage, lowered.in_place
        return KeptMachine(executable, *rest, device, results)

    def machine(self, store: Store) -> Machine | None:
        """None if what it consists of is no longer there."""
        executable = self.executable.linked(store)
        if executable is None:
            return None
        linking = Linking(lambda: executable, self.executable)
        lowered = Lowered(linking, self.places, self.storage, self.in_place)
        return _Compiled(lowered, self.device, self.results)


def lowered_for_cuda(
    mod: tvm.IRModule,
    settings: Settings,
    device: torch.device | None = None,
    over: Sequence[tuple[int, int]] = (),
    lowered: Callable[[], tvm.IRModule | None] = lambda: None,
) -> Lowered:
    """Stitched, for the GPU that the tensors lie on; results may be written over some of them.

    `lowered` says what another process has made of it, if one has.
    """
    found = lowered() or lowering_of(settings, device, over)(mod)
    with lowering_context():
        return _linked(found, target_of(settings, device), store_of(settings.stitching.cache))


def lowering_of(
    settings: Settings, device: torch.device | None, over: Sequence[tuple[int, int]]
) -> Lowering:
    """What the lowering of a part depends on, for the GPU that its tensors lie on."""
    target = target_of(settings, device)
    return Lowering.of(target, settings.stitching, settings.database, over)


def lowered_for_llvm(mod: tvm.IRModule, store: Store | None = None) -> Lowered:
    """By TVM's own passes, for the CPU."""
    target = tvm.target.Target("llvm")
    before = [
        WithoutElements(),
        relax.transform.LegalizeOps(),
        FewerLoops(),
        OnHost(),
        *cpu_pipeline.library_dispatch_passes(target),
        *cpu_pipeline.legalize_passes(target),
        *cpu_pipeline.dataflow_lower_passes(target),
    ]

    finishing = finishing_passes(
        cpu_pipeline.finalize_passes(target), [Destinations(ENTRY)], [Storages(ENTRY)]
    )
    with target:
        lowered = tvm.transform.Sequential([*before, *finishing])(mod)
    return _linked(lowered, target, store)


def target_of(settings: Settings, device: torch.device | None) -> tvm.target.Target:
    """What the user asked for; "cuda" is the GPU that the tensors lie on."""
    if settings.target == CUDA and device is not None and device.index:
        return full_target(tvm.target.Target.from_device(tvm.cuda(device.index)))
    return full_target(settings.target)


def attention_of(settings: Settings, device: torch.device | None) -> AttentionKernels | None:
    """Who makes this package's kernels for attention; None for a CPU, or without such schemes."""
    if settings.device == LLVM:
        return None
    gpu = device_of(target_of(settings, device))
    return AttentionKernels.of(gpu, settings.stitching.schemes)


def _linked(mod: tvm.IRModule, target: tvm.target.Target, store: Store | None) -> Lowered:
    """A lowered module as an executable, with what its passes have noted on it."""
    with target:
        whole = mod.clone()
        nothing = relax.Function([], relax.Tuple([]), relax.TupleType([]))
        whole[_NOTHING] = nothing.with_attr("global_symbol", _NOTHING)
        executable = linked_later(whole, target, store)
    attributes, params = mod.attrs, mod[ENTRY].params
    symbols = [param.ty for param in params[:1] if isinstance(param.ty, relax.ShapeType)]
    variables = [variable for each in symbols for variable in each.values]
    size = attributes.get(storages.ATTRIBUTE)
    storage = None if size is None else of_expression(variables, size)
    places = [int(place) for place in attributes[destinations.ATTRIBUTE]]
    in_place = frozenset(int(number) for number in attributes.get(IN_PLACE_ATTRIBUTE, ()))
    return Lowered(executable, places, storage, in_place)


def _copies(results: Any) -> list[torch.Tensor]:
    """What a virtual machine returned, in memory of its own: it may be an input or a constant."""
    return [torch.from_dlpack(result).clone() for result in results]
