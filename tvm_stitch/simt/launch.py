"""A kernel of CUDA source and NumPy arrays in, a Run out: the launch itself."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from _ctypes import dlclose
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from tvm_stitch.errors import InputError, SimtError
from tvm_stitch.simt import build
from tvm_stitch.simt.hazards import Hazard, Layout, Place, RawHazard, describe
from tvm_stitch.simt.memory import Arena, RawArray, check_array, scalar
from tvm_stitch.simt.source import KernelSource, read_kernel

_HAZARDS = 256  # distinct pairs of places; more than that nobody reads
STACK_BYTES = 256 << 10
_BLOCKS = 1 << 22
_KEPT_OBJECTS = 512  # of some five mappings each; the kernel allows a process about 65,000
# The runtime has one machine: launches of a process take turns.
_MACHINE = threading.Lock()


class _Slot(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("element_bytes", ctypes.c_uint64),
    ]


class _Request(ctypes.Structure):
    """`simt_launch_request` of runtime/abi.h."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("cooperative", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("arrays", ctypes.POINTER(RawArray)),
        ("array_count", ctypes.c_uint64),
        ("slots", ctypes.POINTER(_Slot)),
        ("slot_count", ctypes.c_uint64),
        ("dynamic_bytes", ctypes.c_uint64),
        ("stack_bytes", ctypes.c_uint64),
        ("code_begin", ctypes.c_uint64),
        ("code_end", ctypes.c_uint64),
        ("arena_begin", ctypes.c_uint64),
        ("arena_end", ctypes.c_uint64),
        ("hazards", ctypes.POINTER(RawHazard)),
        ("hazard_capacity", ctypes.c_uint64),
        ("hazard_count", ctypes.c_uint64),
        ("switches", ctypes.c_uint64),
        ("accesses", ctypes.c_uint64),
        ("global_bytes", ctypes.c_uint64),
        ("barriers", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched: the numbers between <<< and >>>."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    cooperative: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)

    @staticmethod
    def of(
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int = 0,
        cooperative: bool | None = None,
        cluster: int | Sequence[int] | None = None,
    ) -> Launch:
        """From extents of one to three dimensions; refuses what no GPU launches."""
        launch = Launch(
            _extents("grid", grid),
            _extents("block", block),
            int(shared_bytes),
            bool(cooperative),
            _extents("cluster", 1 if cluster is None else cluster),
        )
        launch.validate()
        return launch

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def validate(self) -> None:
        """Raises InputError for a launch that the hardware or this executor would refuse."""
        if self.threads > 1024:
            raise InputError(f"a block of {self.threads} threads; CUDA allows 1024")
        if self.blocks > _BLOCKS:
            raise InputError(f"a grid of {self.blocks} blocks; the CPU executor takes {_BLOCKS}")
        size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        if size > 16:
            raise InputError(f"a cluster of {size} blocks; Hopper allows 16")
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            raise InputError(f"the grid {self.grid} is no multiple of the cluster {self.cluster}")
        if self.shared_bytes < 0:
            raise InputError(f"shared_bytes is {self.shared_bytes}")


NO_LAUNCH = Launch((0, 0, 0), (0, 0, 0))  # of a function that had nothing to do


@dataclass(frozen=True)
class Run:
    """What one launch did. The outputs are in the caller's arrays; with hazards, do not trust them.

    `instructions` counts the accesses to global and shared memory: the same for every seed and
    machine, as long as the kernel has no races; `global_bytes` is what those to global memory come
    to. Both are 0 without checks. `barriers` are those that blocks have passed, their own, the
    cluster's and the grid's, each counted by every block.
    """

    kernel: str
    launch: Launch
    hazards: tuple[Hazard, ...]
    switches: int
    instructions: int
    seconds: float
    global_bytes: int = 0
    barriers: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.hazards

    def __str__(self) -> str:
        head = (
            f"{self.kernel}: {self.launch.blocks} blocks of {self.launch.threads} threads, "
            f"{self.instructions} accesses, {self.seconds * 1e3:.1f} ms"
        )
        if self.ok:
            return f"{head}, no hazards"
        return "\n".join([f"{head}, {len(self.hazards)} hazard(s)", *map(str, self.hazards)])


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, to be launched any number of times. Made by `simt.load`."""

    source: KernelSource
    library: Path
    checked: bool

    @property
    def name(self) -> str:
        """The kernel's name in the source."""
        return self.source.name

    def launch(
        self,
        arrays: Mapping[str, object] | Sequence[object],
        launch: Launch,
        seed: int = 0,
        stack_bytes: int = STACK_BYTES,
    ) -> Run:
        """Runs it: `arrays` by parameter name (`x` or `x_ptr`), or in the kernel's order."""
        values = bind(self.source, arrays)
        pointers = {
            p.name: check_array(p, values[p.name]) for p in self.source.parameters if p.pointer
        }
        return self._run(Arena(pointers), values, launch, seed, stack_bytes)

    def _run(
        self, arena: Arena, values: Mapping[str, object], launch: Launch, seed: int, stack: int
    ) -> Run:
        loaded = _load(str(self.library))
        keep = [
            ctypes.c_void_p(arena.address(p.name)) if p.pointer else scalar(p, values[p.name])
            for p in self.source.parameters
        ]
        arguments = (ctypes.c_void_p * max(len(keep), 1))(*(ctypes.addressof(k) for k in keep))
        raw = (RawHazard * _HAZARDS)()
        slots = len(self.source.shared_arrays)
        request = _Request(
            entry=loaded.entry, arguments=arguments, grid=launch.grid, block=launch.block,
            cluster=launch.cluster, cooperative=launch.cooperative, check=self.checked,
            seed=seed, arrays=arena.raw(), array_count=len(arena.arrays),
            slots=loaded.slots, slot_count=slots, dynamic_bytes=launch.shared_bytes,
            stack_bytes=stack, code_begin=loaded.begin, code_end=loaded.end,
            arena_begin=arena.begin, arena_end=arena.end, hazards=raw,
            hazard_capacity=_HAZARDS,
        )  # fmt: skip
        with _MACHINE:
            started = time.perf_counter()
            failed = loaded.launch(ctypes.byref(request))
            seconds = time.perf_counter() - started
        if failed:
            raise SimtError(
                f"{self.name}: no memory for {launch.blocks} blocks of {launch.threads} threads; "
                "use a smaller grid or a smaller stack_bytes"
            )
        layout = self._layout(arena, loaded, launch)
        hazards = describe(raw[: request.hazard_count], layout)
        if not self.checked:
            hazards += _trespasses(arena, layout)
        arena.copy_back()
        return Run(
            self.name, launch, hazards, request.switches, request.accesses, seconds,
            request.global_bytes, request.barriers,
        )  # fmt: skip

    def _layout(self, arena: Arena, loaded: _Loaded, launch: Launch) -> Layout:
        arrays = [
            Place(name, a.nbytes, max(a.itemsize, 1))
            for name, a in zip(arena.names, arena.arrays, strict=True)
        ]
        shared = [
            Place(name, loaded.slots[i].bytes, max(loaded.slots[i].element_bytes, 1))
            for i, name in enumerate(self.source.shared_arrays)
        ]
        shared.append(Place("dynamic shared memory", launch.shared_bytes, 1))
        return Layout(self.source, self.library, loaded.begin, arrays, shared)


def load(source: str, kernel: str | None = None, check: bool = True) -> Kernel:
    """Compiles a kernel of a CUDA source for the CPU; `kernel` may be left out if it has one.

    With `check`, every memory access is watched. Without, runs are several times faster and find
    deadlocks, divergent barriers and stray writes only.
    """
    read = read_kernel(source, kernel)
    return Kernel(read, build.build_kernel(read.cpp, check), check)


def compile_many(
    sources: Sequence[str | tuple[str, str]], jobs: int | None = None, check: bool = True
) -> tuple[Kernel, ...]:
    """Compiles several kernels at once: CUDA sources, or (source, kernel name) pairs."""
    read = [read_kernel(s) if isinstance(s, str) else read_kernel(*s) for s in sources]
    paths = build.build_many([r.cpp for r in read], check, jobs)
    return tuple(Kernel(r, path, check) for r, path in zip(read, paths, strict=True))


def bind(
    source: KernelSource, arrays: Mapping[str, object] | Sequence[object]
) -> dict[str, object]:
    """The value of every kernel parameter, by the parameter's own name."""
    parameters = source.parameters
    if not isinstance(arrays, Mapping):
        if len(arrays) != len(parameters):
            raise InputError(
                f"{source.name} takes {len(parameters)} arguments "
                f"({', '.join(p.name for p in parameters)}), not {len(arrays)}"
            )
        return {p.name: value for p, value in zip(parameters, arrays, strict=True)}
    values, used = {}, set()
    for parameter in parameters:
        short = parameter.name.removesuffix("_ptr")
        key = parameter.name if parameter.name in arrays else short
        if key not in arrays:
            raise InputError(
                f"{source.name} needs {short!r}; given were: {', '.join(map(str, arrays))}"
            )
        values[parameter.name] = arrays[key]
        used.add(key)
    if unknown := [key for key in arrays if key not in used]:
        raise InputError(
            f"{source.name} has no parameter {', '.join(map(repr, unknown))}; "
            f"it has: {', '.join(p.name for p in parameters)}"
        )
    return values


def _trespasses(arena: Arena, layout: Layout) -> tuple[Hazard, ...]:
    return tuple(
        Hazard(
            "out-of-bounds write", layout.arrays[index].name, -1, -1, 0, "",
            f"byte {offset} of {layout.arrays[index].name}, which has "
            f"{layout.arrays[index].bytes}, was written; run with check=True for the line",
        )
        for index, offset in arena.trespasses()
    )  # fmt: skip


def _extents(what: str, given: int | Sequence[int]) -> tuple[int, int, int]:
    values = [given] if isinstance(given, (int, np.integer)) else list(given)
    if not 1 <= len(values) <= 3 or any(int(v) < 1 for v in values):
        raise InputError(f"{what} is {given!r}; pass one to three positive extents")
    x, y, z = (int(v) for v in [*values, 1, 1][:3])
    return x, y, z


@dataclass(frozen=True)
class _Loaded:
    library: ctypes.CDLL  # keeps the object mapped
    entry: int | None
    launch: ctypes._NamedFuncPointer
    slots: ctypes.Array[_Slot]
    begin: int
    end: int


@lru_cache(maxsize=_KEPT_OBJECTS)
def _load(path: str) -> _Loaded:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise SimtError(
            f"the compiled kernel cannot be loaded: {error}; does it call a function that is "
            "neither in its source nor CUDA's?"
        ) from error
    # ctypes never unloads; a launch that still holds the object keeps it.
    weakref.finalize(library, dlclose, library._handle)
    entry = ctypes.cast(library.simt_entry, ctypes.c_void_p).value
    begin, end = _mapped(path)
    slots = (_Slot * 4096).in_dll(library, "simt_slots")
    launch = library.simt_launch
    launch.argtypes, launch.restype = [ctypes.POINTER(_Request)], ctypes.c_int
    return _Loaded(library, entry, launch, slots, begin, end)


def _mapped(path: str) -> tuple[int, int]:
    """The addresses where an object lies in this process."""
    begins, ends = [], []
    resolved = str(Path(path).resolve())
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].strip() == resolved:
                low, high = fields[0].split("-")
                begins.append(int(low, 16))
                ends.append(int(high, 16))
    return min(begins), max(ends)
