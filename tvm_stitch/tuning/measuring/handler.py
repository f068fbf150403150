"""What a measuring process does, one message at a time; see worker (pipes) and rpc (sockets).

In: messages as plain data. Out: answers as plain data. A handler knows one workload at a time:

    {"do": "hello"}                                        -> {"gpu": name, or "" without one}
    {"do": "workload", "function", "target", "reference"}  -> {}
    {"do": "build", "schedule", "library"}                 -> {}          on any machine
    {"do": "reference", "library"}                         -> {}          needs a GPU
    {"do": "run", "library", "schedule", "best"}           -> {"cost"}    needs a GPU
    {"do": "compare"}                                      -> {}          what the last run computed
    {"do": "race", "runners": [{"library", "schedule"}]}   -> {"costs"}   timed interleaved
    {"do": "count", "schedule"}                            -> {"cost"}    the CPU executor
    {"do": "build_module", "module", "plan", "schemes", "dependent_launch", "target", "library"}
                                                           -> {}          on any machine
    {"do": "time_module", "module", "library"}             -> {"cost"}    needs a GPU

Whatever goes wrong is answered with {"error": reason}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_stitch.device import device_of
from tvm_stitch.errors import StitchError
from tvm_stitch.stages.stage import Refused, dtype_of, is_buffer
from tvm_stitch.tuning.measuring.arrays import disagreement, make_array, numpy_dtype, shape_of
from tvm_stitch.tuning.measuring.message import Message
from tvm_stitch.tuning.products import workload_with
from tvm_stitch.tuning.records import PACKAGE
from tvm_stitch.tuning.workload import Workload, layout_from

LONGEST_ERROR = 300


@dataclass
class Handler:
    """Answers messages; keeps the workload that the last ones were about."""

    function: tirx.PrimFunc | None = None
    target: tvm.target.Target | None = None
    reference: str = ""  # the default schedule
    workload: Workload | None = None  # once asked for
    gpu: Any = None  # gpu.Gpu, once asked for
    expected: list[np.ndarray] = field(default_factory=list)  # of the CPU executor

    def answer(self, message: Message) -> Message:
        """One message; never raises for what a message or a kernel can bring about."""
        try:
            return getattr(self, f"_{message['do']}")(**_without(message, "do")) or {}
        except Exception as error:
            return {"error": _in_one_line(error)}

    def _hello(self) -> Message:
        here = tvm.cuda(0)
        return {"gpu": here.device_name if here.exist else "", "package": PACKAGE}

    def _workload(self, function: str, target: str, reference: str) -> None:
        self.gpu, self.workload, self.expected = None, None, []
        self.function = tvm.ir.load_json(function)
        self.target = tvm.target.Target(json.loads(target))
        self.reference = reference

    def _build(self, schedule: str, library: str) -> None:
        from tvm_stitch.build import lowering_context

        mod = tvm.IRModule({"main": self._kernel(schedule).with_attr("global_symbol", "main")})
        target = tvm.target.Target(self.target, host="llvm")
        with lowering_context(), target:
            tvm.compile(mod, target=target).export_library(library)

    def _reference(self, library: str) -> None:
        from tvm_stitch.tuning.measuring.gpu import Gpu

        assert self.function is not None
        self.gpu = None  # its memory is free before the next takes some
        self.gpu = Gpu(self.function, self._outputs())
        self.gpu.set_reference(library, self._workspaces(self.reference))

    def _run(self, library: str, schedule: str, best: float | None) -> Message:
        return {"cost": self.gpu.run(library, self._workspaces(schedule), best)}

    def _compare(self) -> Message:
        wrong = self.gpu.compare()
        return {"error": wrong} if wrong else {}

    def _race(self, runners: list[Message]) -> Message:
        each = [(one["library"], self._workspaces(one["schedule"])) for one in runners]
        return {"costs": self.gpu.race(each)}

    def _count(self, schedule: str) -> Message:
        """Accesses to memory: a measure that needs no GPU and is the same on every machine."""
        if not self.expected:
            _, self.expected = self._execute(self.reference)
        cost, outputs = self._execute(schedule)
        wrong = disagreement(outputs, self.expected, self._dtypes())
        return {"error": wrong} if wrong else {"cost": float(cost)}

    def _build_module(
        self,
        module: str,
        plan: str,
        schemes: list[str],
        dependent_launch: bool,
        target: str,
        library: str,
    ) -> None:
        from tvm_stitch.options import Options
        from tvm_stitch.plan.saved import SavedPlan
        from tvm_stitch.tuning.measuring.module import build

        given = {"plan": SavedPlan.from_json(plan), "dependent_launch": dependent_launch}
        build(module, Options.of_ways(schemes, **given), target, library)

    def _time_module(self, module: str, library: str) -> Message:
        from tvm_stitch.tuning.measuring.module import Model

        self.gpu = None  # its memory is free before the module takes some
        return {"cost": Model(tvm.ir.load_json(module)).time(library)}

    def _execute(self, schedule: str) -> tuple[int, list[np.ndarray]]:
        from tvm_stitch import simt
        from tvm_stitch.build import lowering_context

        assert self.function is not None
        kernel = self._kernel(schedule)
        with lowering_context():
            call = simt.Function(kernel, self.target)
        outputs = self._outputs()
        arrays = [
            np.full(shape_of(param), 0, numpy_dtype(dtype_of(param)))
            if number in outputs
            else make_array(self.function, param)
            for number, param in enumerate(self.function.params)
        ]
        workspaces = kernel.params[len(arrays) :]
        arrays += [np.zeros(shape_of(each), numpy_dtype(dtype_of(each))) for each in workspaces]
        bits = [a.view("uint16") if a.dtype.name == "bfloat16" else a for a in arrays]
        run = call(*bits)
        if not run.ok:
            raise StitchError(str(run.hazards[0]))
        return run.instructions, [arrays[number].reshape(-1) for number in outputs]

    def _kernel(self, schedule: str) -> tirx.PrimFunc:
        kernel = self._known().emit(layout_from(schedule))
        if isinstance(kernel, Refused):
            raise StitchError(kernel.reason)
        return kernel

    def _known(self) -> Workload:
        """What the function computes, of which the default schedule says the kind."""
        if self.workload is None:
            assert self.function is not None and self.target is not None
            default = layout_from(self.reference)
            found = workload_with(default, self.function, device_of(self.target))
            if isinstance(found, Refused):
                raise StitchError(found.reason)
            self.workload = found
        return self.workload

    def _workspaces(self, schedule: str) -> list[Any]:
        """Buffers that the kernel takes besides the function's."""
        return self._known().workspaces(layout_from(schedule))

    def _outputs(self) -> list[int]:
        """The parameters that the function writes, by number."""
        assert self.function is not None
        written = self._known().outputs
        params = enumerate(self.function.params)
        return [number for number, param in params if is_buffer(param) and param in written]

    def _dtypes(self) -> list[str]:
        assert self.function is not None
        return [dtype_of(self.function.params[number]) for number in self._outputs()]


def _without(message: Message, name: str) -> Message:
    return {key: value for key, value in message.items() if key != name}


def _in_one_line(error: Exception) -> str:
    """The line of an error that says most: TVM puts a traceback before the message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")
    kind = "" if isinstance(error, StitchError) else f"{type(error).__name__}: "
    return (kind + telling)[:LONGEST_ERROR]
