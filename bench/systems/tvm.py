"""TVM: its default pipeline, MetaSchedule, and tvm_stitch.

All three read the same Relax module and run it in the same virtual machine.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from bench import symbolic
from bench.case import Workload, as_list
from bench.importing import by_itself, to_relax
from bench.systems.base import Gpu, Prepared, installed

Compile = Callable[[Any, Any], Any]


class Tvm:
    """One way to compile a Relax module, named."""

    def __init__(self, name: str, title: str, compile_: Compile, searches: bool = False) -> None:
        self.name, self.title, self.optional = name, title, searches
        self._compile, self._searches = compile_, searches

    def missing(self) -> str | None:
        """TVM with CUDA, and the compiler's own package."""
        reason = installed("tvm", "pip install apache-tvm")
        if reason is None:
            import tvm

            if not tvm.cuda().exist:
                reason = "TVM sees no CUDA device (a build without CUDA?)"
        return reason

    def supports(self, workload: Workload) -> str | None:
        """Every workload; what TVM cannot compile is a failing row."""
        return None

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """Read through torch.export, compiled, loaded and called once."""
        import tvm
        from tvm import relax

        from tvm_stitch.timing import stage

        device = tvm.cuda()
        target = tvm.target.Target.from_device(device)
        # Compiling needs no GPU, unless it tries candidates there.
        with contextlib.nullcontext() if self._searches else gpu.released():
            with stage("reading"):
                module, compile_ = self._read(workload, inputs)
            start = time.perf_counter()
            executable = compile_(module, target)
        with stage("loading"):
            machine = relax.VirtualMachine(executable, device)
            main = machine["main"]
        arguments = [tvm.runtime.from_dlpack(x.detach()) for x in inputs]
        with stage("first call"):
            main(*arguments)
            device.sync()
        return Prepared(
            call=lambda: main(*arguments),
            outputs=_outputs,
            wait=lambda result: None,
            compile_s=time.perf_counter() - start,
            capture=_on_torch_stream,
        )

    def _read(self, workload: Workload, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, Compile]:
        """What is compiled, and how."""
        return to_relax(workload, inputs), self._compile


class Stitch(Tvm):
    """tvm_stitch: with its defaults, with other settings or with a record store."""

    def __init__(
        self,
        name: str,
        title: str,
        records: str | None = None,
        searches: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(name, title, self._stitch, searches)
        self._records, self._settings = records, settings
        self.optional = bool(settings)

    def missing(self) -> str | None:
        """TVM, and tvm_stitch with its one-call compiler."""
        reason = installed("tvm_stitch", "pip install tvm-stitch") or super().missing()
        if reason is None:
            import tvm_stitch

            if not hasattr(tvm_stitch, "compile"):
                reason = "this tvm_stitch has no compile()"
        return reason

    def _stitch(self, module: Any, target: Any) -> Any:
        import tvm_stitch

        options = tvm_stitch.Options(**self._settings)
        return tvm_stitch.compile(module, target, options, self._records)


class TracedStitch(Stitch):
    """tvm_stitch of what its own reader makes of the workload, without torch.export."""

    def __init__(self) -> None:
        super().__init__("stitch-traced", "tvm_stitch, read by itself")
        self.optional = True

    def _read(self, workload: Workload, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, Compile]:
        return by_itself(workload, inputs), self._compile


class SymbolicStitch(Stitch):
    """tvm_stitch of the workload's symbolic twin, told which sizes it is likely to get."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"stitch-{kind}", f"tvm_stitch, symbolic {kind}")
        self.optional, self._kind = True, kind

    def supports(self, workload: Workload) -> str | None:
        """Workloads with dimensions of that kind."""
        return None if any(self._dims(workload)) else f"it has no {self._kind}"

    def _dims(self, workload: Workload) -> symbolic.Dims:
        return symbolic.dims_of(workload.arrays, self._kind)

    def _read(self, workload: Workload, inputs: tuple[torch.Tensor, ...]) -> tuple[Any, Compile]:
        module = to_relax(workload, inputs, self._dims(workload))
        sizes = symbolic.sizes_of(module, workload.arrays)
        if not sizes:
            raise ValueError(f"its function names the sizes of its {self._kind}")
        return module, partial(_at_sizes, sizes)


def _at_sizes(sizes: Mapping[str, tuple[int, ...]], module: Any, target: Any) -> Any:
    import tvm_stitch

    return tvm_stitch.compile(module, target, tvm_stitch.Options(extents=sizes))


def default(module: Any, target: Any) -> Any:
    """TVM's default pipeline for the target."""
    import tvm

    return tvm.compile(module, target)


def tuned_by_metaschedule(trials: int) -> Compile:
    """MetaSchedule with so many trials for a case, then TVM's pipeline for the rest."""

    def compile_(module: Any, target: Any) -> Any:
        from tvm.s_tir import meta_schedule
        from tvm.s_tir.meta_schedule.relax_integration import compile_relax, tune_relax

        with tempfile.TemporaryDirectory() as records:
            database = tune_relax(
                fused(module, target),
                {},
                target,
                records,
                max_trials_global=trials,
                seed=0,
                cost_model=_cost_model(meta_schedule),
            )
            return compile_relax(database, module, target, params=None)

    return compile_


def fused(module: Any, target: Any) -> Any:
    """What compile_relax makes of a module before it looks into the database.

    The tasks are the functions of the module as it is given; without this there are none.
    """
    import tvm
    from tvm import relax

    passes = [
        *relax.pipeline.library_dispatch_passes(target),
        *fusion_passes(),
    ]
    with target:
        return tvm.transform.Sequential(passes)(module)


def fusion_passes() -> list[Any]:
    """From operators to TVM's own fused functions."""
    from tvm import relax

    return [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]


def _cost_model(meta_schedule: Any) -> Any:
    if installed("xgboost", "") is None:
        return "xgb"
    return meta_schedule.cost_model.RandomModel()


def systems(records: str | None, trials: int) -> list[Any]:
    """Default, MetaSchedule, tvm_stitch in several ways, and tuned where records are given."""
    found: list[Any] = [
        Tvm("tvm", "TVM default", default),
        Tvm("metaschedule", "TVM MetaSchedule", tuned_by_metaschedule(trials), searches=True),
        Stitch("stitch", "tvm_stitch"),
        Stitch("stitch-fast", "tvm_stitch, fast_math", fast_math=True),
        Stitch(
            "stitch-timed",
            "tvm_stitch, timed libraries",
            timed_products=True,
            timed_convolutions=True,
        ),
        Stitch("stitch-3xtf32", "tvm_stitch, 3xTF32 products", tf32x3_products=True),
        Stitch("stitch-measured", "tvm_stitch, measured", searches=True, measure=True),
        TracedStitch(),
        *map(SymbolicStitch, symbolic.KINDS),
    ]
    if records is not None:
        found.append(Stitch("stitch-tuned", "tvm_stitch, tuned", records))
    return found


def _outputs(result: Any) -> list[torch.Tensor]:
    leaves = [result] if hasattr(result, "__dlpack__") else list(result)
    return [torch.from_dlpack(leaf) for leaf in as_list(leaves)]


def _on_torch_stream() -> contextlib.AbstractContextManager[Any]:
    import tvm_ffi

    return tvm_ffi.use_torch_stream()
