"""What the passes of an explained compilation tell on their way, and how long each takes.

In: the module between passes. Out: Notes. Must not decide anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx

from tvm_stitch import timing
from tvm_stitch.plan.plan import Fallback, Plan
from tvm_stitch.report.data import PassTime, Source
from tvm_stitch.report.findings.launches import FunctionCall, function_calls
from tvm_stitch.report.findings.operators import Operator, operators
from tvm_stitch.report.findings.reasons import factors
from tvm_stitch.report.findings.sources import sources_of


@dataclass
class Notes:
    """What the passes told on their way."""

    ops: dict[str, tuple[Operator, ...]] = field(default_factory=dict)  # by fused function
    fused: dict[str, tirx.PrimFunc] = field(default_factory=dict)  # before StitchSchedule
    plans: list[Plan] = field(default_factory=list)
    left: list[Fallback] = field(default_factory=list)
    undone: dict[int, str] = field(default_factory=dict)  # operators left whole to TVM, and why
    asked: list[Fallback] = field(default_factory=list)  # of a library
    sources: tuple[Source, ...] = ()  # the operators before any is written out
    calls: tuple[FunctionCall, ...] = ()
    # By stage and pass, in seconds.
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def passes(self) -> tuple[PassTime, ...]:
        """Where the time went, the most first."""
        found = [
            PassTime(name, stage, sum(times), len(times))
            for (stage, name), times in self.times.items()
        ]
        return tuple(sorted(found, key=lambda each: -each.seconds))

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """What happens within is a stage that is no pass."""
        start = time.perf_counter()
        with timing.stage(stage):
            yield
        self.times[stage, stage] = [time.perf_counter() - start]

    def note_ops(self, mod: tvm.IRModule) -> None:
        """After FuseOps: the operators of every Primitive function."""
        for var, function in mod.functions_items():
            if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {}):
                self.ops[var.name_hint] = tuple(operators(mod, function))

    def note_fused(self, mod: tvm.IRModule) -> None:
        """After FuseTIR: the functions that StitchSchedule will read."""
        for var, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in function.attrs:
                self.fused[var.name_hint] = function


@tvm.ir.instrument.pass_instrument
class Listener:
    """Notes what is between passes, also those that a pass runs itself, and which one runs."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.running = ""
        self._inner: list[float] = []  # seconds in passes within each that runs
        self._starts: list[float] = []

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """The innermost pass is the one to be named in an error."""
        self.running = info.name
        if info.name == "Decompose":
            self.notes.sources = sources_of(mod)
        elif info.name == "CallTIRRewrite":
            multiplied = {name: factors(held) for name, held in self.notes.ops.items()}
            self.notes.calls = function_calls(mod, multiplied)
        self._inner.append(0.0)
        self._starts.append(time.perf_counter())

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """Look at what will be gone after later passes."""
        seconds = time.perf_counter() - self._starts.pop()
        times = self.notes.times.setdefault((timing.running(), info.name), [])
        times.append(seconds - self._inner.pop())
        if self._inner:
            self._inner[-1] += seconds
        if info.name == "FuseOps":
            self.notes.note_ops(mod)
        elif info.name == "FuseTIR":
            self.notes.note_fused(mod)
