"""A model tried one way under the systems: called, compared with float64, then timed in turns.

In: a Model, an element type, which systems. Out: Rows, sent as they are known. Expects to be alone
in its process: what dynamo counts and remembers is the process's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.measure import Queued
from bench.torch_models.exact import Exact, errors, in_float64
from bench.torch_models.model import Inputs, Model, Size, leaves, placed
from bench.torch_models.row import DYNAMIC, INFERENCE, Row
from bench.torch_models.systems import CUDA, System
from bench.worker import in_one_line, synchronize

HOST_CALLS = 20

Call = Callable[[], Any]
Send = Callable[[dict[str, Any]], None]


class Try:
    """What all ways have in common: a row and a call for every system, and their times."""

    kind = INFERENCE

    def __init__(self, model: Model, dtype: str, device: str, small: bool, send: Send) -> None:
        self.model, self.dtype, self.device, self._send = model, dtype, device, send
        self.place = "cuda" if device == CUDA else "cpu"
        self.type = getattr(torch, dtype)
        self.size = model.size(small)

    def phase(self, system: str, phase: str) -> None:
        """Say what is done now."""
        self._send({"event": "phase", "system": system, "phase": phase})

    def run(self, names: list[str], meter: Callable[[], Any] | None, held: Any) -> None:
        """Send a row for every system; times only where there is a meter."""
        self.phase("", "making the model")
        self.prepare()
        rows: dict[str, Row] = {}
        calls: dict[str, Call] = {}
        for name in names:
            row = Row(self.model.name, self.dtype, self.kind, name)
            self.phase(name, "calling")
            try:
                calls[name] = self.one(System(name, self.device), row)
                row.status = "ok"
                rows[name] = row
            except Exception as error:
                row.detail = in_one_line(error)
            self._send({"event": "row", "row": vars(row)})
        if meter is None or not calls:
            return
        self.phase(",".join(calls), "timing")
        with held():
            measure(meter(), rows, calls)
        for row in rows.values():
            self._send({"event": "row", "row": vars(row)})

    def prepare(self) -> None:
        """The module, its inputs, and the results in float64."""
        torch.manual_seed(0)
        with torch.device(self.place):
            module = self.model.make(self.size)
        self.module = module.to(self.place).to(self.type).eval()
        self.inputs = self.made(self.size)
        self.references = self.exact(self.inputs)

    def made(self, size: Size) -> Inputs:
        """Inputs where the model is."""
        return placed(self.model.inputs(size), self.place, self.type)

    def exact(self, inputs: Inputs) -> list[torch.Tensor]:
        """The results in float64."""
        with Exact(), torch.no_grad():
            results = in_float64(self.module)(**placed(inputs, self.place, torch.float64))
        return leaves(results)

    def one(self, system: System, row: Row) -> Call:
        """Call it for the first time and fill in the row; the call to be timed."""
        function = system.compile(self.module)

        def call() -> Any:
            with torch.no_grad():
                return function(**self.inputs)

        results = first_call(call, row)
        row.error, row.rms_error = errors(self.references, leaves(results))
        system.tell(row)
        return call


class Dynamic(Try):
    """Sizes that change: one compilation should serve them."""

    kind = DYNAMIC

    def prepare(self) -> None:
        """Three sizes."""
        # PyTorch takes a size of 1 for a constant.
        self.size = replace(self.size, batch=max(2, self.size.batch))
        super().prepare()
        batch, length, small = self.size.batch, self.size.length, self.size.small
        names = {name for dims in (self.model.dynamic or {}).values() for name in dims.values()}
        longer = length + length // 4 if "length" in names else length
        shorter = max(3, length // 3) if "length" in names else length
        sizes = [Size(batch + 1, longer, small), Size(batch + 3, shorter, small)]
        self.all = [self.inputs, *map(self.made, sizes)]
        for inputs in self.all:
            for name, dims in (self.model.dynamic or {}).items():
                for dim in dims if name in inputs else ():
                    torch._dynamo.mark_dynamic(inputs[name], dim)
        self.expected = [self.references, *map(self.exact, self.all[1:])]

    def one(self, system: System, row: Row) -> Call:
        """The first size, then the others."""
        call = super().one(system, row)
        graphs = row.graphs
        for inputs, expected in zip(self.all[1:], self.expected[1:], strict=True):
            self.inputs = inputs
            found = errors(expected, leaves(call()))
            row.error = max(row.error or 0.0, found[0])
            row.rms_error = max(row.rms_error or 0.0, found[1])
        self.inputs = self.all[0]
        system.tell(row)
        row.recompiled = row.graphs - graphs
        return call


def first_call(call: Call, row: Row) -> Any:
    """Call it; the seconds go into the row."""
    synchronize()
    start = time.perf_counter()
    results = call()
    synchronize()
    row.first_s = round(time.perf_counter() - start, 3)
    return results


def measure(meter: Any, rows: dict[str, Row], calls: dict[str, Call]) -> None:
    """GPU, wall and host time of every call, and its memory, into the rows."""
    for call in calls.values():
        for _ in range(3):
            call()
    synchronize()
    times = meter.gpu_times(calls)
    for name, row in rows.items():
        for field, value in vars(times[name]).items():
            setattr(row, field, value)
    queued = {name: Queued(call, lambda result: None) for name, call in calls.items()}
    walls = meter.wall_us(queued, {name: times[name].us for name in calls})
    for name, row in rows.items():
        row.wall_us, row.host_us = walls[name], host_us(calls[name])
        row.peak_mb = peak_mb(calls[name])


def host_us(call: Call) -> float:
    """Until a call returns, with nothing queued ahead of it: the median."""
    times = []
    for _ in range(HOST_CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return round(statistics.median(times) * 1e6, 2)


def peak_mb(call: Call) -> float:
    """What PyTorch's allocator gives out at most while a call runs, beyond what was there."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    del result
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 2)
