"""The child process that compiles the kernels of a graph and times them.

In: JSON objects a line on standard input: {"do": "begin", …} once, then {"do": "graph", …}.
Out: JSON objects a line on what was standard output: phases, samples, failures, "done".
Compiling goes on in all workers at once; only one at a time uses the GPU.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
import tvm
from tvm import tirx

from bench.calibration import groups
from bench.calibration.samples import CASE, Sample
from bench.calibration.variants import Variant, variants
from bench.calibration.work import work_of
from bench.cases import find
from bench.child import Send, answer_parent, begin
from bench.importing import module_of
from bench.systems import Gpu
from bench.worker import in_one_line
from tvm_stitch.build import lowering_context
from tvm_stitch.stages.stage import buffer_shape, constant, dtype_of
from tvm_stitch.target import cuda_target

REPEATS = 7
# Tensors that lie on the GPU at the same time.
MOST_BYTES = 16 * 2**30

Call = Callable[[], Any]


def module_of_graph(graph: str) -> tvm.IRModule:
    """The Relax module of a generated graph or of a case of the bench; moves no data."""
    if not graph.startswith(CASE):
        return groups.generate(graph)
    return module_of(find(graph.removeprefix(CASE)).workload())


def target() -> tvm.target.Target:
    """This machine's GPU as the bench compiles for it; without one, the architecture of an H200."""
    here = tvm.cuda()
    return tvm.target.Target.from_device(here) if here.exist else cuda_target("cuda")


class GraphRun:
    """One graph: compile its kernels, run each once, time those that ran."""

    def __init__(self, command: dict[str, Any], gpu: Gpu, meter: Any, send: Send) -> None:
        self._graph, self._skip = command["graph"], set(command["skip"])
        self._each, self._gpu, self._meter, self._send = command["each"], gpu, meter, send

    def run(self) -> None:
        """Send a sample for every kernel."""
        self._phase("reading", None)
        found = variants(module_of_graph(self._graph), target(), self._each)
        wanted = {n: v for n, v in enumerate(found) if n not in self._skip}
        self._phase("compiling", None)
        compiled = self._compile(wanted)
        if self._meter is None:
            for number in compiled:
                self._sample(wanted[number], None)
            return
        self._phase("waiting", None)
        with self._gpu.held():
            try:
                for chunk in _by_memory({n: wanted[n] for n in compiled}):
                    self._time(chunk, compiled)
            finally:
                release()

    def _compile(self, wanted: dict[int, Variant]) -> dict[int, Any]:
        """Functions by number. Stitched kernels ask for settings that TVM's own do without."""
        stitched = {n: v for n, v in wanted.items() if v.schedule is not None}
        own = {n: v for n, v in wanted.items() if v.schedule is None}
        with lowering_context():
            compiled = self._build(stitched)
        return {**compiled, **self._build(own)}

    def _build(self, wanted: dict[int, Variant]) -> dict[int, Any]:
        if not wanted:
            return {}
        functions = {
            f"k{n}": variant.kernel.with_attr("global_symbol", f"k{n}")
            for n, variant in wanted.items()
        }
        try:
            built = tvm.compile(tvm.IRModule(functions), target())
            if self._meter is None:
                return dict.fromkeys(wanted)
            return {n: built[f"k{n}"] for n in wanted}
        except Exception as error:
            if len(wanted) == 1:
                (number,) = wanted
                self._fail(number, in_one_line(error))
                return {}
        # One of them spoils the others.
        alone = [self._build({n: variant}) for n, variant in wanted.items()]
        return {n: function for each in alone for n, function in each.items()}

    def _time(self, chunk: dict[int, Variant], compiled: dict[int, Any]) -> None:
        arguments: dict[str, list[Any]] = {}
        calls: dict[str, Call] = {}
        for number, variant in chunk.items():
            self._phase("running", number)
            params = len(variant.kernel.params)  # those in rounds have workspaces
            key = f"{variant.function} {variant.schedule is None} {params}"
            if key not in arguments:
                arguments[key] = [_tensor(p, variant.kernel) for p in variant.kernel.params]
            call = _call(compiled[number], arguments[key])
            try:
                for _ in range(2):
                    call()
                torch.cuda.synchronize()
                calls[str(number)] = call
            except Exception as error:
                self._fail(number, in_one_line(error))
                torch.cuda.synchronize()  # raises if the context is lost
        if not calls:
            return
        self._phase("timing", None)
        times = self._meter.gpu_times(calls, REPEATS)
        for name, timing in times.items():
            self._sample(chunk[int(name)], timing)

    def _phase(self, phase: str, kernel: int | None) -> None:
        self._send({"event": "phase", "phase": phase, "kernel": kernel})

    def _fail(self, number: int, reason: str) -> None:
        self._send({"event": "failure", "kernel": number, "reason": reason})

    def _sample(self, variant: Variant, timing: Any) -> None:
        schedule = None if variant.schedule is None else json.loads(variant.schedule.to_json())
        us, low, high = (timing.us, timing.us_q1, timing.us_q3) if timing else (None,) * 3
        sample = Sample(
            self._graph, variant.function, schedule, variant.chosen, work_of(variant), us, low, high
        )
        self._send({"event": "sample", "sample": asdict(sample)})


def _call(function: Any, arguments: list[Any]) -> Call:
    return lambda: function(*arguments)


def _by_memory(wanted: dict[int, Variant]) -> Iterator[dict[int, Variant]]:
    """Kernels whose tensors fit on the GPU together; those of a function share theirs."""
    chunk: dict[int, Variant] = {}
    size, seen = 0, set()
    for number, variant in wanted.items():
        if variant.function not in seen:
            seen.add(variant.function)
            more = sum(map(_bytes, variant.kernel.params))
            if chunk and size + more > MOST_BYTES:
                yield chunk
                chunk, size = {}, 0
            size += more
        chunk[number] = variant
    if chunk:
        yield chunk


def _shape(buffer: Any) -> list[int]:
    return [constant(extent) or 0 for extent in buffer_shape(buffer)]


def _bytes(buffer: Any) -> int:
    size = tvm.DataType(dtype_of(buffer)).itemsize
    for extent in _shape(buffer):
        size *= extent
    return size


def _tensor(buffer: Any, kernel: tirx.PrimFunc) -> Any:
    """Data for a parameter. Integers may be indices into any other tensor of the kernel."""
    shape, dtype = _shape(buffer), dtype_of(buffer)
    if dtype.startswith(("int", "uint")):
        others = [e for p in kernel.params if dtype_of(p).startswith(("float", "bfloat"))
                  for e in _shape(p) if e > 1]  # fmt: skip
        high = min(others, default=2)
        made = torch.randint(min(high, 127), shape, device="cuda").to(getattr(torch, dtype))
    elif dtype == "bool":
        made = torch.rand(shape, device="cuda") < 0.5
    else:
        made = torch.rand(shape, device="cuda", dtype=torch.float32).add_(0.5)
        made = made.to(getattr(torch, dtype))
    return tvm.runtime.from_dlpack(made)


def release() -> None:
    """Give back what a graph took: the next one may be another worker's."""
    gc.collect()
    torch.cuda.empty_cache()


def serve(commands: Any, send: Send) -> int:
    """Run commands until there are none; 3 if the GPU's context is lost."""
    gpu, meter = Gpu(), None
    for line in commands:
        command = json.loads(line)
        if command["do"] == "begin":
            gpu = Gpu(command["lock"])
            machine: dict[str, Any] = {}
            if not command["dry"]:
                meter, machine = begin(gpu, command["calibrate"])
                release()
            send({"event": "ready", "machine": machine})
            continue
        try:
            GraphRun(command, gpu, meter, send).run()
        except Exception as error:
            send({"event": "failure", "kernel": None, "reason": in_one_line(error)})
        try:
            if meter is not None:
                torch.cuda.synchronize()
        except Exception as error:
            send({"event": "failure", "kernel": None, "reason": in_one_line(error)})
            return 3
        send({"event": "done"})
    return 0


def main() -> int:
    """Serve the parent."""
    return answer_parent(serve)


if __name__ == "__main__":
    sys.exit(main())
