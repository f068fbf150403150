"""One graph from module to outcome: compiled, run at all sizes, judged, and told from TVM's own."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

import tvm_stitch
from tests.outside.graphs import machines
from tests.outside.graphs.generate import EVERYTHING, SYMBOLIC, generate
from tests.outside.graphs.graph import Graph, module_of
from tests.outside.graphs.judge import Difference, differences
from tests.outside.graphs.launches import Counted
from tests.outside.graphs.meaning import evaluated
from tests.outside.graphs.number import Noise, Number
from tests.outside.graphs.outcome import OK, WRONG, Outcome, last_line, signature
from tvm_stitch import Options, StitchError

Ran = tuple[Any, list[tuple[int, Difference]], list[str]]
# How the executor says that CUDA source is none.
_UNCOMPILABLE = "compiler refused the kernel"
# Of these TVM's own kernels add up in any order.
_UNORDERED = {"scatter_elements"}


@dataclass(frozen=True)
class Settings:
    """How graphs are run: on this machine's GPU or in the executor, in how many thread orders.

    Without `run` they are compiled only: crashes and launches show, numbers do not. Seeds are of
    graphs with `symbolic` extents only, or of any.
    """

    gpu: bool = False
    orders: int = 1
    run: bool = True
    symbolic: bool = False

    def graph(self, seed: int) -> Graph:
        """The graph of a seed."""
        return generate(seed, SYMBOLIC if self.symbolic else EVERYTHING)


class Trial:
    """The run of one graph; `note` is told of each stage, should the process end in it."""

    def __init__(self, graph: Graph, settings: Settings, note: Callable[[str], None]) -> None:
        self.graph, self.settings, self.note = graph, settings, note
        options = dict(graph.options)
        self.options = Options(**options)
        self.noise = Noise(settings.gpu, bool(options.get("fast_math")))
        self.launches: tuple[int | None, int | None] = (None, None)
        self.stage = ""
        self.arch = machines.this_gpu() if settings.gpu else graph.arch

    def outcome(self) -> Outcome:
        """What becomes of the graph."""
        start = time.monotonic()
        found = self._outcome()
        return replace(
            found,
            operators=len(self.graph.operators),
            seconds=round(time.monotonic() - start, 2),
            launches=self.launches,
            stage=self.stage,
        )

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self.note(stage)

    def _outcome(self) -> Outcome:
        try:
            self._enter("oracle")
            module = module_of(self.graph)
            numbers = [evaluated(self.graph, n, self.noise) for n, _ in self._bindings()]
        except Exception as error:
            return self._of("invalid", error)
        self._enter("compile")
        way = self._on_gpu if self.settings.gpu else self._simulated
        ran = way(module, numbers) if self.settings.run else self._compiled(module)
        if isinstance(ran, Outcome):
            return ran
        machine, wrong, restless = ran
        if wrong:
            return self._wrong(machine, module, numbers, wrong)
        hazards = [*getattr(machine, "hazards", ()), *restless]
        if hazards:
            return Outcome(
                self.graph.seed, "hazard", str(hazards[0])[:400], where=_kind(hazards[0])
            )
        return self._counted(module, machine)

    def _bindings(self) -> list[tuple[int, dict[str, int]]]:
        return list(enumerate(self.graph.bindings))

    def _compiled(self, module: tvm.IRModule) -> Outcome | Ran:
        try:
            return machines.Compiled(module, self.arch, self.options), [], []
        except Exception as error:
            return self._failed(module, error)

    def _on_gpu(self, module: tvm.IRModule, numbers: list[Any]) -> Outcome | Ran:
        try:
            machine = machines.Gpu(module, self.options)
        except Exception as error:
            return self._failed(module, error)
        try:
            self._enter("run")
            return machine, *self._run(machine, numbers)
        except Exception as error:
            # This process' device may be lost: another is asked about TVM's own.
            kind = "died" if "cuda" in str(error).lower() else "crash"
            return replace(self._of(kind, error), fatal=True)

    def _simulated(self, module: tvm.IRModule, numbers: list[Any]) -> Outcome | Ran:
        """All of it in the executor; where that cannot be, the stitched kernels."""
        arch, options = self.graph.arch, self.options
        try:
            machine = machines.Executor.stitched(module, arch, options)
            self._enter("run")
            return machine, *self._run(machine, numbers)
        except Exception as error:
            unable = error
        # Is it the module, or the executor that has not got what a kernel needs?
        self._enter("compile")
        try:
            tvm_stitch.compile(module, machines.target_of(arch), options)
        except Exception as error:
            return self._failed(module, error)
        if _UNCOMPILABLE in str(unable):
            return self._uncompilable(module, unable)
        try:
            machine = machines.Executor.partly_stitched(module, arch, options)
            self._enter("run")
            return machine, *self._run(machine, numbers)
        except Exception:
            return self._of("executor", unable)

    def _uncompilable(self, module: tvm.IRModule, error: Exception) -> Outcome:
        """CUDA that a C++ compiler refuses; TVM's default may be no better."""
        try:
            machines.Executor.default(module, self.graph.arch)
        except Exception as other:
            return self._of("tvm" if _UNCOMPILABLE in str(other) else "crash", error)
        return self._of("crash", error)

    def _run(self, machine: Any, numbers: list[Any]) -> tuple[list[tuple[int, Difference]], list]:
        """What is wrong at which sizes, and what was different the second time."""
        wrong: list[tuple[int, Difference]] = []
        restless: list[str] = []
        orders = max(self.settings.orders, 2 if self.settings.gpu else 1)
        if _UNORDERED & set(self.graph.operators):
            orders = 1
        for binding, found in enumerate(numbers):
            first: list[np.ndarray] = []
            for order in range(orders):
                outputs = machine(self._inputs(found), order)
                wanted = [found[place] for place in self.graph.outputs]
                wrong += [(binding, each) for each in differences(outputs, wanted)]
                first = first or outputs
                pairs = zip(first, outputs, strict=True)
                if not all(np.array_equal(*pair, equal_nan=_real(pair[0])) for pair in pairs):
                    sizes = self.graph.bindings[binding]
                    restless.append(f"other bits in order {order} at {sizes}")
            if wrong:
                break
        return wrong, restless

    def _inputs(self, numbers: list[Any]) -> list[np.ndarray]:
        places = self.graph.inputs
        arrays = [numbers[place].value for place in places]
        return machines.fed(arrays, [value.dtype for value in places.values()])

    def _wrong(
        self,
        machine: Any,
        module: tvm.IRModule,
        numbers: list[Any],
        wrong: list[tuple[int, Difference]],
    ) -> Outcome:
        binding, worst = wrong[0]
        text = f"{worst}{f' at {self.graph.bindings[binding]}' if self.graph.symbols else ''}"
        self.note(f"{WRONG}{text}")  # should TVM's own end the process
        others = self._default(module, numbers[binding])
        names = f"{self.graph.values[self.graph.outputs[worst.output]]}"[:160]
        if others is not None and _as_wrong(wrong, others):
            return self._tvm_wrong(text, "as wrong where nothing is stitched", names)
        if machine.sums_in_halves and self._right_in_halves(machine, binding):
            return self._tvm_wrong(text, "right but for TVM's sums in halves", names)
        return Outcome(self.graph.seed, "wrong", text, where=names)

    def _tvm_wrong(self, text: str, why: str, names: str) -> Outcome:
        return Outcome(self.graph.seed, "tvm-wrong", text, where=f"{why}: {names}")

    def _right_in_halves(self, machine: Any, binding: int) -> bool:
        """Whether it is right if whatever TVM has kernels for is summed up in halves."""
        noise = replace(self.noise, halves=True)
        return not self._differences(machine, evaluated(self.graph, binding, noise))

    def _default(self, module: tvm.IRModule, numbers: list[Any]) -> list[Difference] | None:
        """What is wrong where nothing is stitched; None where that cannot run."""
        try:
            if self.settings.gpu:
                machine: Any = machines.Gpu(module, self.options, stitched=False)
            elif self._stitched_wrong(module, numbers):
                machine = machines.Llvm(module)
            else:
                # It is TVM's kernels. Some count on warps in lockstep, which the executor has not.
                machine = machines.Executor.default(module, self.arch)
            return self._differences(machine, numbers)
        except Exception:
            return None

    def _stitched_wrong(self, module: tvm.IRModule, numbers: list[Any]) -> bool:
        """Whether it is wrong with LLVM's code for what is not stitched, where there is any."""
        try:
            machine = machines.Executor.partly_stitched(module, self.arch, self.options)
            return bool(self._differences(machine, numbers))
        except Exception:
            return False

    def _differences(self, machine: Any, numbers: list[Any]) -> list[Difference]:
        wanted: list[Number] = [numbers[place] for place in self.graph.outputs]
        return differences(machine(self._inputs(numbers)), wanted)

    def _failed(self, module: tvm.IRModule, error: Exception) -> Outcome:
        self._enter("default")
        kind = "refused" if isinstance(error, StitchError) else "crash"
        try:
            if self.settings.gpu:
                machines.Gpu(module, self.options, stitched=False)
            else:
                machines.default_source(module, self.arch)
        except Exception as other:
            self._enter("compile")
            same = last_line(other) == last_line(error)
            found = self._of("tvm" if same else "tvm-other", error)
            return (
                found if same else replace(found, where=f"{found.where}; TVM's: {signature(other)}")
            )
        self._enter("compile")
        return self._of(kind, error)

    def _counted(self, module: tvm.IRModule, machine: Any) -> Outcome:
        partly = getattr(machine, "partly", False)
        seed = self.graph.seed
        default = None
        try:
            default = Counted.of(machines.default_lowered(module, self.arch)).launches
        except Exception:  # where TVM has no pipeline for it there is nothing to compare with
            return Outcome(seed, OK, "TVM's default pipeline refuses it")
        finally:
            self.launches = (machine.launches, default)
        kept_small = self.options.largest_kernel < Options().largest_kernel
        if machine.launches is not None and machine.launches > default and not kept_small:
            return Outcome(
                seed, "launches", f"{machine.launches} launches, TVM's default {default}",
                where=" ".join(sorted(set(self.graph.operators)))[:160],
            )  # fmt: skip
        return Outcome(seed, OK, "partly by LLVM" if partly else "")

    def _of(self, kind: str, error: Exception) -> Outcome:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
        found = Outcome(self.graph.seed, kind, text, where=signature(error))
        if kind in ("invalid", "crash"):
            traceback.print_exception(error)
        return found


def default_only(graph: Graph, settings: Settings, note: Callable[[str], None]) -> Outcome:
    """Whether TVM's default pipeline compiles and runs the graph, in a process of its own."""
    trial = Trial(graph, settings, note)
    try:
        module = module_of(graph)
        note("default")
        if settings.gpu:
            machine = machines.Gpu(module, trial.options, stitched=False)
            for binding, _ in enumerate(graph.bindings):
                machine(trial._inputs(evaluated(graph, binding, trial.noise)))
        else:
            machines.default_source(module, graph.arch)
    except Exception as error:
        return replace(trial._of("tvm", error), fatal=settings.gpu)
    return Outcome(graph.seed, OK)


def _as_wrong(ours: list[tuple[int, Difference]], others: list[Difference]) -> bool:
    """Whether TVM's own is wrong in all outputs that ours is wrong in."""
    return {each.output for _, each in ours} <= {each.output for each in others}


def _real(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def _kind(hazard: str) -> str:
    return hazard.split(":")[0][:80]
