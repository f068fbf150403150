"""The child process in which cases run, so that what kills a GPU's context kills no run.

In: one JSON object a line on standard input: {"do": "begin", …} once, then {"do": "case", …}.
Out: JSON objects a line on what was standard output: phases, rows, "done". Anything that systems
print goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol

import torch

from bench import check, flops
from bench.case import Case, Workload, make_inputs
from bench.cases import find
from bench.child import Send, answer_parent, begin
from bench.measure import Queued, Timing
from bench.results import CaseInfo, Row
from bench.systems import Gpu, Prepared, System, all_systems, why_missing

# Cases whose inputs are this large are not captured: a graph keeps its own outputs.
GRAPH_LIMIT = 8 * 2**30


class Instrument(Protocol):
    """What measures; bench.measure.Meter on a GPU."""

    def gpu_times(self, calls: dict[str, Callable[[], Any]]) -> dict[str, Timing]:
        """GPU time by system."""

    def wall_us(self, calls: dict[str, Queued], expected_us: dict[str, float]) -> dict[str, float]:
        """Wall time by system."""

    def graph_us(self, call: Callable[[], Any], on_stream: Callable[[], Any]) -> float:
        """Wall time of the call's CUDA graph."""

    def copy(self, size: int) -> Callable[[], Any]:
        """A call that copies size bytes in all."""


class ContextLost(Exception):
    """The GPU's context is unusable; only a new process gets another."""


class CaseRun:
    """One case on some systems: compile and check each, then measure them in turns."""

    def __init__(
        self,
        case: Case,
        systems: list[System],
        meter: Instrument,
        gpu: Gpu,
        send: Send,
        device: str = "cuda",
        small: bool = False,
    ) -> None:
        self._case, self._systems, self._meter, self._gpu = case, systems, meter, gpu
        self._send, self._device, self._small = send, device, small
        self._rows: dict[str, Row] = {}

    def run(self, graphs: bool, needs_info: bool = True) -> None:
        """Send a row for every system."""
        self._phase("", "making inputs")
        workload = self._case.workload(self._small)
        inputs = make_inputs(workload.arrays, self._device)
        ready: dict[str, Prepared] = {}
        size = 0
        for system in self._systems:
            prepared = self._prepare(system, workload, inputs)
            if prepared is not None:
                ready[system.name] = prepared
        if ready:
            with self._gpu.alone():
                size = self._measure(workload, inputs, ready, needs_info)
                if graphs and size < GRAPH_LIMIT:
                    self._graphs(ready)

    def _prepare(
        self, system: System, workload: Workload, inputs: tuple[torch.Tensor, ...]
    ) -> Prepared | None:
        row = Row(self._case.name, system.name, "failed")
        reason = system.supports(workload)
        if reason is not None:
            row.status, row.detail = "skipped", reason
            self._send_row(row)
            return None
        self._phase(system.name, "compiling")
        try:
            prepared = system.prepare(workload, inputs, self._gpu)
            row.compile_s = round(prepared.compile_s, 3)
            self._phase(system.name, "checking")
            result = prepared.call()
            prepared.wait(result)
            synchronize()
            row.error = check.error(workload, inputs, prepared.outputs(result))
        except Exception as error:
            row.detail = in_one_line(error)
            self._send_row(row)
            self._require_context()
            return None
        # A NaN compares false with everything, so the test is for being right.
        if not row.error <= workload.allowed:
            row.status = "wrong"
            row.detail = f"error {row.error:.2g}, allowed {workload.allowed:.0e}"
            row.error = min(row.error, 1e300)
            self._send_row(row)
            return None
        self._rows[system.name] = row
        return prepared

    def _measure(
        self,
        workload: Workload,
        inputs: tuple[torch.Tensor, ...],
        ready: dict[str, Prepared],
        needs_info: bool,
    ) -> int:
        first = next(iter(ready.values()))
        size = workload.state_bytes(first.outputs(first.call()))
        calls = {name: waiting_call(prepared) for name, prepared in ready.items()}
        self._phase(",".join(ready), "measuring")
        warm_up(calls)
        times = self._meter.gpu_times({"copy": self._meter.copy(size), **calls})
        case = self._case
        if needs_info:
            info = CaseInfo(
                case.title,
                case.group,
                "",
                size,
                flops.count(workload, inputs),
                times["copy"].us,
                list(case.grid) if case.grid else None,
            )
            self._send({"event": "case", "name": case.name, "info": asdict(info)})
        for name, row in self._rows.items():
            for field, value in asdict(times[name]).items():
                setattr(row, field, value)
            row.status = "ok"
        self._phase(",".join(ready), "timing calls")
        queued = {name: Queued(prepared.call, prepared.wait) for name, prepared in ready.items()}
        walls = self._meter.wall_us(queued, {name: times[name].us for name in ready})
        for name, row in self._rows.items():
            row.wall_us = walls[name]
            self._send_row(row)
        return size

    def _graphs(self, ready: dict[str, Prepared]) -> None:
        for name, prepared in ready.items():
            if prepared.capture is None:
                continue
            self._phase(name, "capturing")
            row = self._rows[name]
            try:
                row.graph_us = self._meter.graph_us(prepared.call, prepared.capture)
            except Exception as error:
                row.detail = f"no CUDA graph: {in_one_line(error)}"
                self._send_row(row)
                self._require_context()
            self._send_row(row)

    def _phase(self, system: str, phase: str) -> None:
        self._send({"event": "phase", "system": system, "phase": phase})

    def _send_row(self, row: Row) -> None:
        self._send({"event": "row", "row": asdict(row)})

    def _require_context(self) -> None:
        try:
            synchronize()
        except Exception as error:
            raise ContextLost(in_one_line(error)) from None


def waiting_call(prepared: Prepared) -> Callable[[], None]:
    """The call, returning when the host has handed all of it to the device."""
    return lambda: prepared.wait(prepared.call())


def warm_up(calls: dict[str, Callable[[], None]]) -> None:
    """Some calls of each, for allocators and clocks."""
    for call in calls.values():
        for _ in range(3):
            call()
    synchronize()


def synchronize() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_one_line(error: BaseException) -> str:
    """The kind of error and the line of its message that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # TVM and Triton put a traceback before the message.
    telling = next((line for line in reversed(lines) if "Error" in line or "error" in line), None)
    text = telling or (lines[0] if lines else "")
    return f"{type(error).__name__}: {text}"[:300]


def release_memory() -> None:
    """Give back what a case took, so that the next one has the whole device."""
    gc.collect()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def memory_is_short() -> bool:
    """Whether the allocators of the systems, which keep what they got, have taken most of it."""
    if not torch.cuda.is_available():
        return False
    free, total = torch.cuda.mem_get_info()
    return free < total // 4


def serve(commands: Any, send: Send) -> int:
    """Run commands until there are none or memory runs short; 3 if the GPU's context is lost."""
    systems: dict[str, System] = {}
    meter: Any = None
    gpu = Gpu()
    for line in commands:
        command = json.loads(line)
        if command["do"] == "begin":
            together = command["together"]
            gpu = Gpu(command["lock"], lambda event: send({"event": event}), together)
            systems = all_systems(command["records"], command["trials"])
            meter, machine = begin(gpu, command["calibrate"])
            wanted = command["systems"]
            missing = {n: why for n in wanted if (why := why_missing(systems[n])) is not None}
            send({"event": "ready", "machine": machine, "missing": missing})
            continue
        failure = _run_case(command, systems, meter, gpu, send)
        if failure is not None:
            send({"event": "failed", "detail": failure})
        try:
            release_memory()
            synchronize()
        except Exception as error:
            send({"event": "lost", "detail": in_one_line(error)})
            return 3
        retire = memory_is_short()
        send({"event": "done", "retire": retire})
        if retire:
            return 0
    return 0


def _run_case(
    command: dict[str, Any], systems: dict[str, System], meter: Instrument, gpu: Gpu, send: Send
) -> str | None:
    """Why the case could not be measured, if so."""
    try:
        with gpu.held():
            chosen = [systems[name] for name in command["systems"]]
            run = CaseRun(find(command["case"]), chosen, meter, gpu, send)
            run.run(command["graphs"], command["info"])
    except Exception as error:
        return in_one_line(error)
    return None


def main() -> int:
    """Serve the parent."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return answer_parent(serve)


if __name__ == "__main__":
    sys.exit(main())
