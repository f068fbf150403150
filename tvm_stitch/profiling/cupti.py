"""Kernels timed by CUPTI, by way of PyTorch's profiler, where a PyTorch with CUDA is installed.

In: a call of the model. Out: a Run with every kernel, copy and fill of the device, whoever
launched it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm_stitch.errors import StitchError
from tvm_stitch.profiling.data import Event, Run

_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


class Cupti:
    """Takes a profiler session a call: nothing of one call is counted to another."""

    how = "CUPTI (torch.profiler)"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.run(lambda: None)  # the first session loads CUPTI, and misses what runs early

    def run(self, call: Callable[[], object]) -> Run:
        """Call once, and see what ran on the device."""
        torch = self._torch
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CUDA]
        # acc_events: otherwise PyTorch warns that events of earlier cycles are gone.
        with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
            call()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            return Run(device_events(json.loads(path.read_text(encoding="utf-8"))))


def device_events(trace: Mapping[str, Any]) -> tuple[Event, ...]:
    """What ran on the device, in order, of a profiler's Chrome trace."""
    found = [each for each in trace.get("traceEvents", ()) if each.get("cat") in _ON_DEVICE]
    found.sort(key=_start)
    first = _start(found[0]) if found else 0.0
    return tuple(Event(each["name"], _start(each) - first, float(each["dur"])) for each in found)


def _start(event: Mapping[str, Any]) -> float:
    return float(event["ts"])


def cupti() -> Cupti | None:
    """The source, where there is a PyTorch that sees the GPU."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    try:
        return Cupti(torch)
    except (RuntimeError, StitchError):  # a container may not have the rights
        return None
