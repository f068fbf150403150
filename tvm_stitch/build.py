"""From a Relax module to an executable: the pipeline, and compiling in one call."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import tvm
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline
from tvm.s_tir import dlight

from tvm_stitch import transform
from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError
from tvm_stitch.graph.back.outputs import ViewOutputs
from tvm_stitch.options import Options
from tvm_stitch.plan.plan import Fallback, Plan
from tvm_stitch.target import cuda_target, full_target, plain_target
from tvm_stitch.tuning.apply import Database, Records

KEEP_SCRATCH = "tirx.disable_storage_rewrite"


def default_rules() -> list[Any]:
    """The DLight rules of TVM's CUDA pipeline, for what is not stitched."""
    gpu = dlight.gpu
    return [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()]


def stitch_passes(
    target: tvm.target.Target,
    options: Options | None = None,
    database: Database | None = None,
    plans: list[Plan] | None = None,
    left: list[Fallback] | None = None,
    default_schedules: bool = True,
) -> list[tvm.transform.Pass]:
    """From operators to scheduled kernels: what stands for TVM's legalisation passes.

    Without `default_schedules`, what is not stitched stays unscheduled. `plans` and `left` receive
    what StitchOps and StitchSchedule decided.
    """
    return [
        transform.Decompose(),
        relax.transform.EliminateCommonSubexpr(),
        relax.transform.LegalizeOps(),
        *([transform.Approximate()] if options is not None and options.fast_math else []),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.ConvertToDataflow(),
        *kernel_passes(target, options, database, plans, left, default_schedules),
    ]


def kernel_passes(
    target: tvm.target.Target,
    options: Options | None = None,
    database: Database | None = None,
    plans: list[Plan] | None = None,
    left: list[Fallback] | None = None,
    default_schedules: bool = True,
) -> list[tvm.transform.Pass]:
    """The later of stitch_passes: from dataflow blocks of TIR calls to scheduled kernels."""
    passes = [
        transform.StitchOps(target, options, plans),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        ViewOutputs(),
        transform.StitchSchedule(target, database, options, left),
    ]
    return [*passes, DefaultSchedules(target)] if default_schedules else passes


def DefaultSchedules(target: tvm.target.Target) -> tvm.transform.Pass:
    """TVM's schedules for what is not stitched."""
    plain = plain_target(target)

    @tvm.transform.module_pass(opt_level=0, name="DefaultSchedules")
    def schedule(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        with plain:
            return dlight.ApplyDefaultSchedule(*default_rules())(mod)

    return schedule


def pipeline(
    target: Any, options: Options | None = None, database: Database | None = None
) -> tvm.transform.Pass:
    """A drop-in for `tvm.compile(mod, target, relax_pipeline=...)`.

    `database` is the path of a record store that `tvm_stitch.tune` wrote: kernels with a record
    for this GPU get the best schedule found.
    """
    cuda = cuda_target(target)
    records = None if database is None else Records.open(database, device_of(cuda))

    @tvm.transform.module_pass(opt_level=0, name="tvm_stitch.pipeline")
    def stitched(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        check_well_formed(mod)
        passes = [
            *cuda_pipeline.library_dispatch_passes(cuda),
            *stitch_passes(cuda, options, records),
            *cuda_pipeline.dataflow_lower_passes(cuda),
            *cuda_pipeline.finalize_passes(cuda),
            transform.FewerCalls(),
        ]
        with cuda:
            return tvm.transform.Sequential(passes)(mod)

    return stitched


def check_well_formed(mod: tvm.IRModule) -> None:
    """InputError if values of a module wait for each other, are defined twice or nowhere."""
    try:
        # Types may still be missing: the passes find them.
        relax.analysis.well_formed(relax.transform.Normalize()(mod))
    except Exception as error:
        summary = str(error).strip().splitlines()[0]
        raise InputError(
            f"the module is not well formed: {summary} See tvm.relax.analysis.well_formed."
        ) from error


def lowering_context() -> tvm.transform.PassContext:
    """The current settings without StorageRewrite, which the CUDA compiler can do without.

    Kernels are measured, tuned and verified this way. In a pipeline of one's own, where it has its
    way, they are as right.
    """
    config = {**tvm.transform.PassContext.current().config, KEEP_SCRATCH: True}
    return tvm.transform.PassContext(opt_level=3, config=config)


def compile(
    mod: tvm.IRModule,
    target: Any = "cuda",
    options: Options | None = None,
    database: Database | None = None,
) -> tvm.relax.VMExecutable:
    """Compile a Relax module with stitching; `database` as for `pipeline`."""
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"expected a Relax IRModule, not {type(mod).__name__}")
    cuda = full_target(target)
    # TVM compiles for the target in scope, and for this machine's GPU where there is none.
    scope = cuda if device_of(cuda).warpgroups else nullcontext()
    with lowering_context(), scope:
        return tvm.compile(mod, cuda, relax_pipeline=pipeline(cuda, options, database))
