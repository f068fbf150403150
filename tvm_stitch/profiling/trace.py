"""A Profile as a Chrome trace, which Perfetto reads as well.

Two tracks: the launches as they were, and the same by prediction, each where it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tvm_stitch.profiling.data import Figures

_PROCESS = 1
_TRACKS = {1: "measured", 2: "predicted"}


def chrome_trace(profile: Figures) -> dict[str, Any]:
    """What json.dump writes."""
    return {"displayTimeUnit": "ns", "traceEvents": [*_names(profile), *_slices(profile)]}


def _names(profile: Figures) -> Iterator[dict[str, Any]]:
    process = f"{profile.device}, {profile.how}"
    yield _metadata("process_name", 0, process)
    for track, name in _TRACKS.items():
        yield _metadata("thread_name", track, name)


def _metadata(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _slices(profile: Figures) -> Iterator[dict[str, Any]]:
    kernels = {kernel.name: kernel for kernel in profile.kernels}
    expected = 0.0  # where launches that were not timed would begin, one behind the other
    for launch in profile.launches:
        kernel = kernels[launch.name]
        start = expected if launch.us is None else launch.start_us
        about = {name: value for name, value in asdict(kernel).items() if value is not None}
        for track, us in ((1, launch.us), (2, kernel.predicted_us)):
            if us is not None:
                yield {
                    "ph": "X", "name": launch.name, "cat": kernel.scheme or "other",
                    "pid": _PROCESS, "tid": track, "ts": start, "dur": us, "args": about,
                }  # fmt: skip
        expected += kernel.predicted_us or 0.0
