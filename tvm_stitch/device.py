"""What is known of a GPU: presets by name and architecture, and what a TVM target says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import tvm

from tvm_stitch.errors import InputError


@dataclass(frozen=True)
class Timing:
    """How a multiprocessor spends its time, apart from its size; kernel/cost_model is fitted by it.

    The values are a least-squares fit to kernels measured on an H200 (bench/calibration).
    """

    launch_us: float = 0.486  # what a kernel costs that moves next to nothing
    block_us: float = 0.779  # a block's start and end
    dram_latency_us: float = 0.169
    l2_latency_us: float = 0.0748
    dispatch_ns: float = 0.51  # handing a block to a multiprocessor
    cluster_dispatch_ns: float = 1.99  # the same for a block of a cluster
    narrow: float = 0.312  # by what memory is slower for half a line at a time, as panels read it
    serial: float = 1.05  # share of a step's loads of shared vectors that the next step waits for
    shuffle_us: float = 0.00608  # one exchange between the lanes of a warp
    barrier_us: float = 0.0351  # of a block
    warp_us: float = 0.00769  # what every warp of the block adds to that
    # Barrier of the whole grid. Measured on an H200, 1000 in a row: 132 blocks take 0.99 us, 264
    # 1.02, 528 1.25, 1056 2.2, nearly the same for 128 to 1024 threads a block.
    grid_us: float = 1.0
    grid_block_ns: float = 2.1  # what every block takes of that, where there are many
    cluster_start_us: float = 1.25  # until all blocks of a cluster find room
    # Blocks of a cluster tell each other a value. Fitted when they met at the cluster's barrier for
    # it; they wait for its bytes alone since (kernel/codegen/cluster_exchange), which is sooner.
    cluster_us: float = 0.801
    chain: float = 2.33  # cycles from one dependent operation of a thread to the next
    issue: float = 0.921  # cycles of a lane for an operation
    special: float = 0.574  # cycles of a special-function unit for a function
    access: float = 3.07  # a memory access, in operations
    shuffle: float = 3.15  # one exchange between the lanes of a warp, in operations
    send: float = 66.2  # a value to another block of a cluster, in operations
    step: float = 0.836  # a vector's addresses and guards, in operations
    l2_bytes: float = 51.4  # bytes a cycle between a multiprocessor and the L2
    in_flight: float = 51.2  # bytes of a thread's loads that are on their way at once
    in_flight_later: float = 25.7  # the same where loads are not issued ahead of their use
    overlap: float = 2.18  # how well unlike work overlaps: 1 not at all, large perfectly


@dataclass(frozen=True)
class Device:
    """The figures that mapping and cost depend on."""

    name: str
    capability: int  # 90 for compute capability 9.0
    multiprocessors: int
    registers: int  # 32-bit registers of a multiprocessor
    max_threads: int  # resident threads of a multiprocessor
    max_blocks: int  # resident blocks of a multiprocessor
    shared_block: int  # bytes of shared memory a block may ask for
    shared_total: int  # bytes of shared memory of a multiprocessor
    bandwidth: float  # bytes a second that a large copy moves, reads and writes counted
    l2_size: int  # bytes
    lanes: int  # float32 operations that a multiprocessor starts in a cycle
    clock: float  # cycles a second, the data sheet's boost clock
    timing: Timing = Timing()
    warpgroups: bool = False  # four warps may multiply together, in code for this GPU alone

    @property
    def float32_rate(self) -> float:
        """Operations a second outside of tensor cores, a multiplication with an addition as two."""
        return 2.0 * self.lanes * self.multiprocessors * self.clock

    @property
    def tensor_rate(self) -> float:
        """Operations a second of its tensor cores on float16, at most; a GeForce card does half."""
        newest = max(each for each in _TENSOR_OPERATIONS if each <= self.capability)
        return float(_TENSOR_OPERATIONS[newest] * self.multiprocessors * self.clock)


_told: ContextVar[Device | None] = ContextVar("told", default=None)
RESERVED_SHARED = 1024  # bytes of shared memory that CUDA takes of every block
WARPGROUPS = "sm_90a"  # the architecture that has wgmma, which code for sm_90 may not use
MODEL = "model"  # the attribute of a TVM target that names the GPU: one of the presets
REGISTERS = 65536  # of a multiprocessor, the same on all of them
_KB = 1024
_MB = 1 << 20
# By capability: registers, resident threads and resident blocks of a multiprocessor, shared memory
# of a block and of a multiprocessor, and lanes. NVIDIA's CUDA programming guide.
_LIMITS = {
    70: (REGISTERS, 2048, 32, 96 * _KB, 96 * _KB, 64),
    75: (REGISTERS, 1024, 16, 64 * _KB, 64 * _KB, 64),
    80: (REGISTERS, 2048, 32, 163 * _KB, 164 * _KB, 64),
    86: (REGISTERS, 1536, 16, 99 * _KB, 100 * _KB, 128),
    89: (REGISTERS, 1536, 24, 99 * _KB, 100 * _KB, 128),
    90: (REGISTERS, 2048, 32, 227 * _KB, 228 * _KB, 128),
    100: (REGISTERS, 2048, 32, 227 * _KB, 228 * _KB, 128),
    120: (REGISTERS, 1536, 24, 99 * _KB, 100 * _KB, 128),
}
# Operations that a multiprocessor's tensor cores do in a cycle: products of float16, not sparse,
# summed in float32. NVIDIA's architecture white papers.
_TENSOR_OPERATIONS = {70: 1024, 80: 2048, 86: 1024, 90: 4096, 100: 8192, 120: 1024}
# Architectures there are; one without limits of its own counts as the nearest older one.
ARCHITECTURES = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)


def _preset(
    name: str, capability: int, multiprocessors: int, terabytes: float, megabytes: int, ghz: float
) -> Device:
    registers, threads, blocks, block, total, lanes = _LIMITS[capability]
    return Device(
        name, capability, multiprocessors, registers, threads, blocks, block, total,
        terabytes * 1e12, megabytes * _MB, lanes, ghz * 1e9,
    )  # fmt: skip


# Name, capability, multiprocessors, copy bandwidth in TB/s, L2 in MB, boost clock in GHz. The first
# of a capability stands for all of it. Copy bandwidth: about nine tenths of the data sheet's
# figure, measured for the H200. The rest: NVIDIA's data sheets and architecture white papers.
_PRESETS = (
    _preset("V100", 70, 80, 0.80, 6, 1.53),
    _preset("T4", 75, 40, 0.26, 4, 1.59),
    _preset("A100", 80, 108, 1.75, 40, 1.41),
    _preset("A100 40GB", 80, 108, 1.40, 40, 1.41),
    _preset("A30", 80, 56, 0.84, 24, 1.44),
    _preset("RTX 3090", 86, 82, 0.85, 6, 1.70),
    _preset("A10", 86, 72, 0.54, 6, 1.70),
    _preset("A40", 86, 84, 0.63, 6, 1.74),
    _preset("RTX A6000", 86, 84, 0.69, 6, 1.80),
    _preset("L4", 89, 58, 0.27, 48, 2.04),
    _preset("L40S", 89, 142, 0.78, 96, 2.52),
    _preset("L40", 89, 142, 0.78, 96, 2.49),
    _preset("RTX 4090", 89, 128, 0.91, 72, 2.52),
    _preset("H200", 90, 132, 4.26, 50, 1.98),
    _preset("H100 SXM", 90, 132, 3.00, 50, 1.98),
    _preset("H100 PCIe", 90, 114, 1.80, 50, 1.76),
    _preset("H100 NVL", 90, 132, 3.50, 50, 1.79),
    _preset("GH200", 90, 132, 3.60, 50, 1.98),
    _preset("H20", 90, 78, 3.60, 60, 1.98),
    _preset("B200", 100, 148, 7.20, 126, 1.97),
    _preset("RTX 5090", 120, 170, 1.60, 96, 2.41),
    _preset("RTX 5080", 120, 84, 0.86, 64, 2.62),
    _preset("RTX PRO 6000", 120, 188, 1.60, 128, 2.60),
)


def preset(name: str) -> Device:
    """A device by its name."""
    for device in _PRESETS:
        if _words(device.name) == _words(name):
            return device
    raise InputError(f"no GPU called {name!r} is known; known are {known_names()}")


def known_names() -> str:
    """The GPUs that there are presets for."""
    return ", ".join(device.name for device in _PRESETS)


def is_preset(name: str) -> bool:
    """Whether there is a device of that name."""
    return any(_words(device.name) == _words(name) for device in _PRESETS)


def _words(name: str) -> frozenset[str]:
    """What tells GPUs apart: the SXM module is the one that goes without saying."""
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold())) - {"nvidia", "geforce", "sxm"}


def device_of(target: tvm.target.Target) -> Device:
    """The device a CUDA target stands for.

    The GPU that its attribute "model" names; else this machine's, if that is of its architecture;
    else the one preset that stands for the architecture.
    """
    if target.kind.name != "cuda":
        raise InputError(
            f"stitching is for CUDA, and the target is {target.kind.name!r}: name an architecture "
            "(sm_90) or a GPU (H100 PCIe)"
        )
    arch = str(target.attrs.get("arch", "sm_80"))
    form = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if not form:
        raise InputError(f"target arch {arch!r} is not of the form sm_90 (compute capability 9.0)")
    capability, model = int(form[1]), str(target.attrs.get(MODEL, "unknown"))
    if capability < ARCHITECTURES[0]:
        raise InputError(
            f"target arch {arch} is older than sm_{ARCHITECTURES[0]}, the oldest supported"
        )
    if capability not in ARCHITECTURES:
        known = ", ".join(f"sm_{each}" for each in ARCHITECTURES)
        raise InputError(f"target arch {arch} is none that is known: {known}")
    if model == "unknown":  # TVM's word
        found = _read_off(_standing_for(capability), capability)
    elif (found := preset(model)).capability != capability:
        raise InputError(f"target model {model} is of sm_{found.capability}, the arch is {arch}")
    return replace(found, warpgroups=arch == WARPGROUPS)


def _standing_for(capability: int) -> Device:
    newest = max(each.capability for each in _PRESETS if each.capability <= capability)
    return next(each for each in _PRESETS if each.capability == newest)


@contextmanager
def told(here: Device) -> Iterator[None]:
    """Meanwhile this machine's GPU is not asked what it is: another process has asked it."""
    token = _told.set(here)
    try:
        yield
    finally:
        _told.reset(token)


def _read_off(standing: Device, capability: int) -> Device:
    """What this machine's GPU says of itself, if it is of that architecture; else as it stands."""
    if (found := _told.get()) is not None and found.capability == capability:
        return found
    here = tvm.cuda(0)
    if not here.exist or here.compute_version.replace(".", "") != str(capability):
        return standing
    found = _called(here.device_name, capability)
    if found is None:
        found = replace(standing, l2_size=here.l2_cache_size_bytes, clock=here.max_clock_rate * 1e3)
    # Fewer than the data sheet's where the GPU is divided.
    return replace(found, name=here.device_name, multiprocessors=here.multi_processor_count)


def _called(name: str, capability: int) -> Device | None:
    """The preset whose words a GPU's own name has, the one with most of them."""
    words = _words(name)
    fitting = [
        device
        for device in _PRESETS
        if device.capability == capability and _words(device.name) <= words
    ]
    return max(fitting, key=lambda device: len(_words(device.name)), default=None)
