"""Times on a GPU: kernel durations from CUPTI, wall time a call, wall time of a CUDA graph.

In: calls by system. Out: Timings. Systems take turns within one profiler session, every call
behind a flush of the L2 cache and a marker kernel, by which the trace is cut into calls.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

REPEATS = 12
QUEUED = 50
WALL_ROUNDS = 3
# A round of queued calls is cut short at about this much GPU time, at no fewer than five calls.
ROUND_US = 1e5
# Names of C++ templates run to thousands of characters.
NAME_LENGTH = 160


class MeasureError(Exception):
    """The profiler did not deliver what a measurement needs."""


@dataclass(frozen=True)
class DeviceEvent:
    """Something that ran on the device: a kernel, a copy or a fill."""

    name: str
    is_kernel: bool
    us: float


@dataclass(frozen=True)
class Timing:
    """GPU time of a call: the sum over its kernels and copies, median and quartiles over calls."""

    us: float
    us_q1: float
    us_q3: float
    kernels: int
    copies: int
    # [name, launches a call, microseconds a call], longest first.
    parts: list[list[Any]]


def turns(names: list[str], repeats: int) -> list[str]:
    """The order of calls: every system once a round, each round starting with the next one."""
    return [names[(first + i) % len(names)] for first in range(repeats) for i in range(len(names))]


def device_events(trace: dict[str, Any]) -> list[DeviceEvent]:
    """What ran on the device, in order of time, from a profiler's Chrome trace."""
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    found = [e for e in trace.get("traceEvents", []) if e.get("cat") in kinds]
    found.sort(key=lambda e: float(e["ts"]))
    return [DeviceEvent(e["name"], e["cat"] == "kernel", float(e["dur"])) for e in found]


def cut(events: list[DeviceEvent], marker: str, calls: int) -> list[list[DeviceEvent]]:
    """The events of every call: what follows its marker, less the next call's flush."""
    found: list[list[DeviceEvent]] = []
    for event in events:
        if event.name == marker:
            if found:
                found[-1].pop()
            found.append([])
        elif found:
            found[-1].append(event)
    if len(found) != calls:
        raise MeasureError(
            f"the profiler saw {len(found)} of {calls} calls; is CUPTI usable here, and is no "
            "other profiler attached?"
        )
    return found


def summarise(calls: list[list[DeviceEvent]]) -> Timing:
    """Median and quartiles over the calls; counts and parts from the median call."""
    totals = [sum(e.us for e in events) for events in calls]
    if not any(calls):
        raise MeasureError("no kernel was seen on the device")
    # Some systems copy more in one call than in another; the call nearest the median stands.
    middle = statistics.median(totals)
    typical = min(calls, key=lambda events: abs(sum(e.us for e in events) - middle))
    q1, _, q3 = statistics.quantiles(totals, n=4) if len(totals) > 1 else (middle,) * 3
    parts: dict[str, list[float]] = defaultdict(list)
    for event in typical:
        parts[event.name[:NAME_LENGTH]].append(event.us)
    by_time = sorted(parts.items(), key=lambda part: -sum(part[1]))
    return Timing(
        us=round(middle, 3),
        us_q1=round(q1, 3),
        us_q3=round(q3, 3),
        kernels=sum(e.is_kernel for e in typical),
        copies=sum(not e.is_kernel for e in typical),
        parts=[[name, len(times), round(sum(times), 3)] for name, times in by_time],
    )


@dataclass(frozen=True)
class Queued:
    """A call that may return before its work is done, and what waits for its result."""

    call: Callable[[], Any]
    wait: Callable[[Any], Any]


class Meter:
    """Measures calls on the current CUDA device."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        # Several times any L2: what a call left in it is gone afterwards.
        size = max(256 * 2**20, 4 * getattr(properties, "L2_cache_size", 0))
        self._flush = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._mark = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._marker = self._learn_marker()

    def gpu_times(
        self, calls: dict[str, Callable[[], Any]], repeats: int = REPEATS
    ) -> dict[str, Timing]:
        """GPU time by system, the systems taking turns."""
        order = turns(list(calls), repeats)
        with self._profiled() as events:
            for name in order:
                self._flush.zero_()
                self._mark.bitwise_xor_(1)
                torch.cuda.synchronize()
                calls[name]()
                torch.cuda.synchronize()
        segments = defaultdict(list)
        for name, segment in zip(order, cut(events, self._marker, len(order)), strict=True):
            segments[name].append(segment)
        return {name: summarise(segments[name]) for name in calls}

    def wall_us(self, calls: dict[str, Queued], expected_us: dict[str, float]) -> dict[str, float]:
        """Wall time a call while calls queue up, the systems taking turns."""
        times = defaultdict(list)
        for name in turns(list(calls), WALL_ROUNDS):
            queued = calls[name]
            count = max(5, min(QUEUED, int(ROUND_US / max(expected_us[name], 1.0))))
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                result = queued.call()
            queued.wait(result)
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / count * 1e6)
        return {name: round(statistics.median(times[name]), 2) for name in calls}

    def graph_us(self, call: Callable[[], Any], on_stream: Callable[[], Any]) -> float:
        """Wall time a replay of the call's CUDA graph while replays queue up."""
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream), on_stream():
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        # Relaxed: allocators other than PyTorch's may ask for memory while capturing.
        with (
            torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"),
            on_stream(),
        ):
            result = call()
        graph.replay()
        replays = Queued(graph.replay, lambda nothing: None)
        taken = self.wall_us({"": replays}, {"": self._one_us(graph.replay)})[""]
        del result
        return taken

    def copy(self, size: int) -> Callable[[], Any]:
        """A call that copies on the device: size bytes in all, half read and half written."""
        half = max(1, size // 2)
        source = torch.ones(half, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    def bandwidth(self) -> float:
        """Bytes a second of a large copy, in GB/s, read and written bytes counted."""
        free, _ = torch.cuda.mem_get_info()
        size = min(2**30, free // 4)
        timing = self.gpu_times({"copy": self.copy(size)})["copy"]
        return size / timing.us / 1e3

    def _one_us(self, call: Callable[[], Any]) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e6

    def _learn_marker(self) -> str:
        # Twice: the first session of a process also loads CUPTI and may miss what runs early.
        for _ in range(2):
            with self._profiled() as events:
                self._mark.bitwise_xor_(1)
        names = {e.name for e in events}
        if len(names) != 1:
            raise MeasureError(
                f"the profiler saw {len(names)} kinds of kernels where one ran; is CUPTI usable "
                "here (a container may need more rights)?"
            )
        return names.pop()

    @contextlib.contextmanager
    def _profiled(self) -> Any:
        """A list that holds the block's device events once the block has ended."""
        events: list[DeviceEvent] = []
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            yield events
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                events.extend(device_events(json.load(file)))
