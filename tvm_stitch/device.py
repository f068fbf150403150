"""What is known of a GPU: presets by architecture, and what a TVM target says."""

from __future__ import annotations

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
    step: float = 0.836  # a vector's addresses and guards, in operations
    l2_bytes: float = 51.4  # bytes a cycle between a multiprocessor and the L2
    flying: float = 51.2  # bytes of a thread's loads that are on their way at once
    flying_later: float = 25.7  # the same where loads are not issued ahead of their use
    overlap: float = 2.18  # how well unlike work overlaps: 1 not at all, large perfectly


@dataclass(frozen=True)
class Device:
    """The figures that mapping and cost depend on."""

    name: str
    capability: int  # 90 for compute capability 9.0
    multiprocessors: int
    registers: int  # 32-bit registers of a multiprocessor
    max_threads: int  # resident threads of a multiprocessor
    shared_block: int  # bytes of shared memory a block may ask for
    shared_total: int  # bytes of shared memory of a multiprocessor
    bandwidth: float  # bytes a second that a large copy moves, reads and writes counted
    l2_size: int  # bytes
    lanes: int  # float32 operations that a multiprocessor starts in a cycle
    clock: float  # cycles a second, the data sheet's boost clock
    timing: Timing = Timing()
    warpgroups: bool = False  # four warps may multiply together, in code for this GPU alone


RESERVED_SHARED = 1024  # bytes of shared memory that CUDA takes of every block
WARPGROUPS = "sm_90a"  # the architecture that has wgmma, which code for sm_90 may not use
_KB = 1024
_MB = 1 << 20
# Copy bandwidth: about nine tenths of the data sheet's figure, measured for the H200. L2, lanes
# and clocks: NVIDIA's data sheets and architecture white papers.
_PRESETS = (
    Device("V100", 70, 80, 65536, 2048, 96 * _KB, 96 * _KB, 0.80e12, 6 * _MB, 64, 1.53e9),
    Device("T4", 75, 40, 65536, 1024, 64 * _KB, 64 * _KB, 0.26e12, 4 * _MB, 64, 1.59e9),
    Device("A100", 80, 108, 65536, 2048, 163 * _KB, 164 * _KB, 1.75e12, 40 * _MB, 64, 1.41e9),
    Device("RTX 3090", 86, 82, 65536, 1536, 99 * _KB, 100 * _KB, 0.85e12, 6 * _MB, 128, 1.70e9),
    Device("L4", 89, 58, 65536, 1536, 99 * _KB, 100 * _KB, 0.27e12, 48 * _MB, 128, 2.04e9),
    Device("H200", 90, 132, 65536, 2048, 227 * _KB, 228 * _KB, 4.26e12, 50 * _MB, 128, 1.98e9),
    Device("B200", 100, 148, 65536, 2048, 227 * _KB, 228 * _KB, 7.2e12, 126 * _MB, 128, 1.97e9),
    Device("RTX 5090", 120, 170, 65536, 1536, 99 * _KB, 100 * _KB, 1.6e12, 96 * _MB, 128, 2.41e9),
)


def preset(name: str) -> Device:
    """A device by its name."""
    return next(device for device in _PRESETS if device.name == name)


def device_of(target: tvm.target.Target) -> Device:
    """The device a CUDA target stands for: this machine's GPU if that is of its architecture,
    else the newest preset not newer."""
    if target.kind.name != "cuda":
        raise InputError(f"stitching is for CUDA; the target is {target.kind.name!r}")
    arch = str(target.attrs.get("arch", "sm_80"))
    digits = arch.removeprefix("sm_").rstrip("af")
    if not digits.isdigit():
        raise InputError(f"target arch {arch!r} is not of the form sm_90")
    capability = int(digits)
    fitting = [preset for preset in _PRESETS if preset.capability <= capability]
    if not fitting:
        oldest = _PRESETS[0].capability
        raise InputError(f"target arch {arch} is older than sm_{oldest}, the oldest supported")
    found = replace(fitting[-1], warpgroups=arch == WARPGROUPS)
    return _read_off(found, capability)


def _read_off(preset: Device, capability: int) -> Device:
    """The preset with what this machine's GPU says of itself, if it is of that architecture."""
    here = tvm.cuda(0)
    if not here.exist or here.compute_version.replace(".", "") != str(capability):
        return preset
    return replace(preset, name=here.device_name, multiprocessors=here.multi_processor_count)
