"""The machine, the versions and the commit a result belongs to, and what is missing to measure.

Nothing here names the machine: a result says which GPU, not whose.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch", "triton", "jax", "jaxlib", "jax-cuda13-plugin", "apache-tvm", "apache-tvm-ffi",
    "tvm-stitch", "quack-kernels", "liger-kernel", "numpy", "transformers", "timm",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The GPU and the processor; call it where a CUDA context may be made."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "sms": properties.multi_processor_count,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        "l2_mib": round(getattr(properties, "L2_cache_size", 0) / 2**20, 1),
        "driver": _nvidia_smi("driver_version"),
        "fp32_tflops": _fp32_tflops(properties),
        "cuda": torch.version.cuda,
        "cpu_cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
    }


def about_run(
    arguments: list[str], commit: str | None = None, program: str = "bench"
) -> dict[str, Any]:
    """When, from which commit and by which command."""
    return {
        "command": " ".join([f"python -m {program}", *arguments]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit or _commit(),
        "versions": versions(),
    }


def missing_package(name: str) -> str | None:
    """One line if a package that the bench extra brings is not installed."""
    try:
        found = importlib.util.find_spec(name) is not None
    except ValueError:  # somebody has ruled it out
        found = False
    return None if found else f"{name} is not installed: pip install 'tvm-stitch[bench]'"


def missing_for_measuring() -> str | None:
    """One line saying what a run needs and does not find."""
    if (reason := missing_package("torch")) is not None:
        return reason
    import torch

    if not torch.version.cuda:
        return f"no CUDA: PyTorch {torch.__version__} was built without it"
    if not torch.cuda.is_available():
        return "no GPU: PyTorch finds no usable NVIDIA GPU and driver"
    return None


def _nvidia_smi(field: str) -> str | None:
    return _first_line(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"])


def _fp32_tflops(properties: Any) -> float | None:
    """What the float32 units could do at the highest clock: a roof, never reached."""
    clock = _nvidia_smi("clocks.max.sm")
    if clock is None or not clock.strip().isdigit():
        return None
    lanes = 64 if (properties.major, properties.minor) in ((6, 0), (7, 0), (7, 5), (8, 0)) else 128
    return round(properties.multi_processor_count * lanes * 2 * int(clock) / 1e6, 1)


def _commit() -> str | None:
    here = str(Path(__file__).parent)
    commit = _first_line(["git", "-C", here, "rev-parse", "HEAD"])
    if commit and _first_line(["git", "-C", here, "status", "--porcelain", "-uno"]):
        commit += " (modified)"
    return commit


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.splitlines()), None)
