"""The passes that write down a module between the passes of a pipeline, and change nothing.

In: Options, and a module at each stage. Out: the files of a compilation, numbered in the order of
the stages. Must not decide anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import tirx

from tvm_stitch.dump.folder import Folder, wanted
from tvm_stitch.dump.text import Block, graph_text, phases_text, plan_text, programs_text
from tvm_stitch.errors import last_line
from tvm_stitch.kernel.implementations import IMPLEMENTATIONS
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.options import Options
from tvm_stitch.plan.plan import Fallback
from tvm_stitch.simt.lowering import cuda_source

_SCHEDULED = "tirx.is_scheduled"


class Dump:
    """What is written of the compilations of one pipeline, if anything is."""

    def __init__(self, options: Options | None) -> None:
        self._root = wanted(options)
        self._schemes = (options or Options()).ways
        self._folder: Folder | None = None
        self._fused: dict[str, tirx.PrimFunc] = {}  # what has not been scheduled yet

    @property
    def is_wanted(self) -> bool:
        """Whether anything is written."""
        return self._root is not None

    def relax(self) -> list[tvm.transform.Pass]:
        """The module as it comes; each gets a folder of its own."""

        def write(mod: tvm.IRModule) -> None:
            assert self._root is not None
            self._folder = Folder.within(self._root)
            self._write("01_relax.py", mod.script())

        return self._pass("DumpRelax", write)

    def decomposed(self) -> list[tvm.transform.Pass]:
        """The module with its operators written out: of several attempts, the last."""
        return self._pass("DumpDecomposed", lambda m: self._write("02_decomposed.py", m.script()))

    def planned(self, blocks: Sequence[Block], left: Mapping[int, str]) -> None:
        """Graph and plan of each dataflow block."""
        if self.is_wanted:
            self._write("03_graph.txt", graph_text([graph for graph, _ in blocks]))
            self._write("04_plan.txt", plan_text(blocks, left))

    def programs(self) -> list[tvm.transform.Pass]:
        """The programs of the functions that are to be scheduled."""

        def write(mod: tvm.IRModule) -> None:
            self._fused = {n: f for n, f in _functions(mod).items() if _SCHEDULED not in f.attrs}
            self._write("05_programs.txt", programs_text(self._fused, self._schemes))

        return self._pass("DumpPrograms", write)

    def schedules(self, left: Sequence[Fallback]) -> list[tvm.transform.Pass]:
        """The schedule of every stitched kernel, what that makes of its programs, and why others
        are none, which `left` says."""

        def write(mod: tvm.IRModule) -> None:
            found: dict[str, Any] = {}
            functions = _functions(mod)
            for name, function in functions.items():
                for attribute in (each.attribute for each in IMPLEMENTATIONS):
                    if attribute in function.attrs:
                        found[name] = {attribute: json.loads(str(function.attrs[attribute]))}
            found |= {each.op: {"not stitched": each.reason} for each in left}
            self._write("06_schedules.json", json.dumps(found, indent=2))
            emitted = {n: f for n, f in functions.items() if SCHEDULE_ATTRIBUTE in f.attrs}
            self._write("07_phases.txt", phases_text(self._fused, emitted))

        return self._pass("DumpSchedules", write)

    def kernels(
        self, target: tvm.target.Target, launching: Sequence[tvm.transform.Pass]
    ) -> list[tvm.transform.Pass]:
        """The TIR of all kernels as the passes `launching` will leave it, and the CUDA that TVM
        makes of it by the settings in scope."""

        def write(mod: tvm.IRModule) -> None:
            scheduled = {n: f for n, f in _functions(mod).items() if _SCHEDULED in f.attrs}
            kernels = tvm.IRModule(
                {name: f.with_attr("global_symbol", name) for name, f in scheduled.items()}
            )
            kernels = tvm.transform.Sequential(list(launching))(kernels)
            self._write("08_tir.py", kernels.script())
            self._write("09_cuda.cu", _cuda(kernels, target))

        return self._pass("DumpKernels", write)

    def _pass(self, name: str, write: Callable[[tvm.IRModule], None]) -> list[tvm.transform.Pass]:
        """The pass that writes, if anything is written."""
        if not self.is_wanted:
            return []

        @tvm.transform.module_pass(opt_level=0, name=name)
        def written(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
            write(mod)
            return mod

        return [written]

    def _write(self, name: str, text: str) -> None:
        assert self._folder is not None, "the module as it comes is the first stage"
        self._folder.write(name, text)


def _functions(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The PrimFuncs of a module, by name."""
    return {
        var.name_hint: function
        for var, function in sorted(mod.functions_items(), key=lambda item: item[0].name_hint)
        if isinstance(function, tirx.PrimFunc)
    }


def _cuda(kernels: tvm.IRModule, target: tvm.target.Target) -> str:
    if not kernels.functions:
        return "// no kernels"
    try:
        # The host half is not shown: C is what TVM writes soonest.
        return cuda_source(tvm.tirx.build(kernels, tvm.target.Target(target, host="c")))
    except Exception as error:  # where it matters, it will be raised again by what compiles them
        return f"// TVM does not build these kernels: {last_line(error)}"
