"""What is known of a GPU: presets by architecture, and what a TVM target says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import tvm

from tvm_stitch.errors import InputError


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
    launch_us: float = 1.5  # what a kernel costs that moves next to nothing


_KB = 1024
# Copy bandwidth: about nine tenths of the data sheet's figure, measured for the H200.
_PRESETS = (
    Device("V100", 70, 80, 65536, 2048, 96 * _KB, 96 * _KB, 0.80e12),
    Device("T4", 75, 40, 65536, 1024, 64 * _KB, 64 * _KB, 0.26e12),
    Device("A100", 80, 108, 65536, 2048, 163 * _KB, 164 * _KB, 1.75e12),
    Device("RTX 3090", 86, 82, 65536, 1536, 99 * _KB, 100 * _KB, 0.85e12),
    Device("L4", 89, 58, 65536, 1536, 99 * _KB, 100 * _KB, 0.27e12),
    Device("H200", 90, 132, 65536, 2048, 227 * _KB, 228 * _KB, 4.26e12),
    Device("B200", 100, 148, 65536, 2048, 227 * _KB, 228 * _KB, 7.2e12),
    Device("RTX 5090", 120, 170, 65536, 1536, 99 * _KB, 100 * _KB, 1.6e12),
)


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
    return _read_off(fitting[-1], capability)


def _read_off(preset: Device, capability: int) -> Device:
    """The preset with what this machine's GPU says of itself, if it is of that architecture."""
    here = tvm.cuda(0)
    if not here.exist or here.compute_version.replace(".", "") != str(capability):
        return preset
    return replace(preset, name=here.device_name, multiprocessors=here.multi_processor_count)
