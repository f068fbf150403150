"""From a Relax module to an executable: the pipeline, and compiling in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from tvm_stitch import timing, transform
from tvm_stitch.cache.once import once_lowered
from tvm_stitch.cache.store import store_of
from tvm_stitch.device import Device, device_of
from tvm_stitch.dump.stages import Dump
from tvm_stitch.dump.text import Block
from tvm_stitch.errors import InputError
from tvm_stitch.executable.cuda import checks
from tvm_stitch.executable.link import Executable, calls_libraries, linked
from tvm_stitch.graph.back.dependent_launch import DependentLaunch
from tvm_stitch.graph.back.outputs import Views
from tvm_stitch.graph.back.vm_calls.captured_weights import CapturedWeights
from tvm_stitch.graph.front.attention import FusedAttention
from tvm_stitch.graph.front.canonicalize import CanonicalizeBindings
from tvm_stitch.graph.front.convolution import (
    ConvolutionProducts,
    DirectWeights,
    LibraryConvolutions,
)
from tvm_stitch.graph.front.empty import WithoutElements
from tvm_stitch.graph.front.functions.casts import NarrowOperands
from tvm_stitch.graph.front.functions.positions import OwnPositions
from tvm_stitch.graph.front.legalize import Legalize
from tvm_stitch.graph.front.scattered.sort_once import SortOnce
from tvm_stitch.graph.front.spelling import OneSpelling
from tvm_stitch.graph.front.sums import Contractions, LongSums, SplitFactors
from tvm_stitch.graph.front.undispatched import Undispatched
from tvm_stitch.kernel.attention.build import AttentionKernels
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.kernel.scattered.order import Sort, order_of_rows
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUBLASLT, CUDNN, is_off
from tvm_stitch.library.shim import unusable
from tvm_stitch.options import Options
from tvm_stitch.plan.plan import Fallback, Plan
from tvm_stitch.processes.forks import FORKS
from tvm_stitch.processes.modules import operators
from tvm_stitch.target import cuda_target, full_target
from tvm_stitch.tuning.apply import Database, Records
from tvm_stitch.tvm_default.default_schedules import DefaultSchedules
from tvm_stitch.tvm_default.settle import Settling
from tvm_stitch.workarounds.few_collections import few_collections
from tvm_stitch.workarounds.op_tags import keep_op_tags_by_thread
from tvm_stitch.workarounds.quick_objects import ask_objects_quickly

keep_op_tags_by_thread()
ask_objects_quickly()

# The stage that a pass begins.
_BEGINS = {
    "StitchOps": timing.PLANNING,
    "FuseOps": timing.FUSING,
    "StitchSchedule": timing.WRITING,
    "DefaultSchedules": timing.SCHEDULING,
    "ToNonDataflow": timing.MEMORY,
}
# How threads may hold a row to which indices send updates, as long as it is.
ROW_SCHEMES = {"local", "warp", "regional"}
KEEP_SCRATCH = "tirx.disable_storage_rewrite"
_CUDA_GRAPH = "relax.backend.use_cuda_graph"


def dispatch_passes(target: tvm.target.Target) -> list[tvm.transform.Pass]:
    """What comes first: TVM's own kernels for sorts and scans, which know no empty tensors."""
    return [WithoutElements(), Undispatched(), *cuda_pipeline.library_dispatch_passes(target)]


def stitch_passes(
    target: tvm.target.Target,
    options: Options | None = None,
    database: Database | None = None,
    plans: list[Plan] | None = None,
    left: list[Fallback] | None = None,
    default_schedules: bool = True,
    undone: dict[int, str] | None = None,
    asked: list[Fallback] | None = None,
) -> list[tvm.transform.Pass]:
    """From operators to scheduled kernels: what stands for TVM's legalisation passes.

    Without `default_schedules`, what is not stitched stays unscheduled. `plans`, `undone` and
    `left` receive what StitchOps and StitchSchedule decided; `undone` are operators, by their
    number in the module as it comes, that are left whole to TVM. `asked` receives the
    convolutions and attention that cuDNN does not take, and why.
    """
    dump = Dump(options)
    settings = options or Options()
    reasons: list[Fallback] = [] if left is None else left

    def heard(blocks: Sequence[Block], whole: Mapping[int, str]) -> None:
        if plans is not None:
            plans.extend(plan for _, plan in blocks)
        if undone is not None:
            undone.update(whole)
        dump.planned(blocks, whole)

    between = _legalizing_passes(settings, dump, device_of(target))
    store = store_of(options.cache if options else None)
    schedules = DefaultSchedules(target, store)
    is_read = plans is not None or dump.is_wanted
    settling = Settling(target, options, between, schedules, heard if is_read else None)
    return [
        WithoutElements(),
        Undispatched(),
        Contractions(),
        LongSums(),
        ConvolutionProducts(),
        *_library_passes(target, options, asked),
        DirectWeights(),
        *dump.relax(),
        settling.Decompose(),
        *between,
        settling.StitchOps(),
        *_fusing_passes(),
        *dump.programs(),
        transform.StitchSchedule(target, database, options, reasons),
        *dump.schedules(reasons),
        *([schedules] if default_schedules else []),
        *dump.kernels(target, launch_passes(target, options)),
    ]


def _legalizing_passes(settings: Options, dump: Dump, device: Device) -> list[tvm.transform.Pass]:
    """From decomposed operators to calls of TIR in dataflow blocks."""
    schemes = set(settings.schemes)
    scattered = schemes >= ROW_SCHEMES
    sorts = scattered and "global" in schemes
    return [
        *dump.decomposed(),
        relax.transform.EliminateCommonSubexpr(),
        # Symbols that are found to be numbers become numbers, before there is TIR of the symbols:
        # ConvertToDataflow would do it afterwards, and FuseTIR takes no TIR of other shapes.
        CanonicalizeBindings(),
        *([SortOnce(partial(_sorting, device))] if sorts else []),
        Legalize(scattered=scattered),
        OneSpelling(),
        *([transform.Approximate()] if settings.fast_math else []),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.ConvertToDataflow(),
        NarrowOperands(),
        relax.transform.FoldConstant(),
        OwnPositions(settings.recomputed),
    ]


def _sorting(device: Device, wanted: Sequence[tuple[int, int, str]]) -> tirx.PrimFunc:
    return order_of_rows([Sort(*each) for each in wanted], device)


def kernel_passes(
    target: tvm.target.Target,
    options: Options | None = None,
    database: Database | None = None,
) -> list[tvm.transform.Pass]:
    """The later of stitch_passes: from dataflow blocks of TIR calls to scheduled kernels."""
    return [
        transform.StitchOps(target, options),
        *_fusing_passes(),
        transform.StitchSchedule(target, database, options),
        DefaultSchedules(target),
    ]


def _library_passes(
    target: tvm.target.Target, options: Options | None, asked: list[Fallback] | None
) -> list[tvm.transform.Pass]:
    """What libraries are to compute, where they are and the options let them.

    Convolutions by cuDNN, attention by cuDNN or a kernel of ours; products of float32 by cuBLASLt
    as three of TF32.
    """
    chosen = options or Options()
    allowed = LIBRARY in chosen.schemes and not is_off()

    def hear(operator: str, reason: str) -> None:
        if asked is not None:
            asked.append(Fallback(operator, reason))

    device = device_of(target)
    own = AttentionKernels.of(device, chosen.schemes)
    if not allowed:
        off = "libraries are switched off"
        return [FusedAttention(device, missing=off, own=own)] if own else []
    missing = unusable(CUDNN)
    attention = FusedAttention(device, hear, missing, own)
    is_split = chosen.tf32x3_products and not unusable(CUBLASLT)
    products = [SplitFactors()] if is_split else []
    if missing:
        return [attention, *products]
    how = chosen.tf32_convolutions, chosen.timed_convolutions or chosen.measure
    return [attention, LibraryConvolutions(hear, *how), *products]


def _fusing_passes() -> list[tvm.transform.Pass]:
    """From groups, which are functions, to a PrimFunc for each."""
    return [
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        Views(),
    ]


def launch_passes(
    target: tvm.target.Target, options: Options | None = None
) -> list[tvm.transform.Pass]:
    """What makes scheduled kernels as they are launched; put it behind TVM's dataflow passes."""
    wanted = (options or Options()).dependent_launch
    # What a compiler of the user's makes, nobody checks.
    return [DependentLaunch(device_of(target))] if wanted and checks() else []


def finishing_passes(
    finalize: Sequence[tvm.transform.Pass],
    lowered: Sequence[tvm.transform.Pass] = (),
    planned: Sequence[tvm.transform.Pass] = (),
) -> list[tvm.transform.Pass]:
    """What comes last: TVM's finalize passes, others where memory is planned, and two of ours."""
    names = [str(each.info.name) for each in finalize]
    at = names.index("LowerRuntimeBuiltin")
    last = [CapturedWeights(), transform.FewerCalls()]
    return [*lowered, *finalize[:at], *planned, *finalize[at:], *last]


def pipeline(
    target: Any,
    options: Options | None = None,
    database: Database | None = None,
    *,
    lowered: Sequence[tvm.transform.Pass] = (),
    planned: Sequence[tvm.transform.Pass] = (),
    kept_as: str | None = None,
) -> tvm.transform.Pass:
    """A drop-in for `tvm.compile(mod, target, relax_pipeline=...)`.

    `database` is the path of a record store that `tvm_stitch.tune` wrote: kernels with a record
    for this GPU get the best schedule found. The passes `lowered` run when operators are calls of
    kernels, before memory is planned; `planned` when it is, and storages are allocated. `kept_as`
    says what they are, in a word for the cache; without, it keeps nothing that they had a part in.
    """
    cuda = cuda_target(target)
    records = None if database is None else Records.open(database, device_of(cuda))

    def lower(mod: tvm.IRModule) -> tvm.IRModule:
        FORKS.begin_for(operators(mod))
        passes = [
            *dispatch_passes(cuda),
            *stitch_passes(cuda, options, records),
            *cuda_pipeline.dataflow_lower_passes(cuda),
            *launch_passes(cuda, options),
            *finishing_passes(cuda_pipeline.finalize_passes(cuda), lowered, planned),
        ]
        with cuda, few_collections(), graphs_context(options):
            for name, part in in_stages(passes):
                with timing.stage(name):
                    mod = tvm.transform.Sequential(part)(mod)
        return mod

    @tvm.transform.module_pass(opt_level=0, name="tvm_stitch.pipeline")
    def stitched(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        check_well_formed(mod)
        named = kept_as or ("" if not (lowered or planned) else None)
        found = _with_libraries(
            lambda: once_lowered(mod, cuda, options or Options(), records, named, lower)
        )
        if records is not None:
            records.warn()  # also where the passes that use them were not asked
        return found

    return stitched


def _with_libraries(lowered: Callable[[], tvm.IRModule]) -> tvm.IRModule:
    """What is lowered while the libraries' shim is compiled; anew if there comes to be none."""
    with shim.assumed():
        found = lowered()
    if calls_libraries(found) and shim.failure() is not None:
        return lowered()
    return found


def in_stages(
    passes: Sequence[tvm.transform.Pass],
) -> Iterator[tuple[str, list[tvm.transform.Pass]]]:
    """The passes of a pipeline by the stages that a user hears of."""
    stage = timing.DECOMPOSING
    part: list[tvm.transform.Pass] = []
    for each in passes:
        begun = _BEGINS.get(each.info.name, stage)
        if begun != stage:
            yield stage, part
            stage, part = begun, []
        part.append(each)
    yield stage, part


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
    return _context(opt_level=3, config={KEEP_SCRATCH: True})


def graphs_context(options: Options | None) -> AbstractContextManager[Any]:
    """The current settings, with CUDA graphs where the options ask for them."""
    if options is None or not options.cuda_graph:
        return nullcontext()
    return _context(config={_CUDA_GRAPH: True})


def without_folding() -> tvm.transform.PassContext:
    """The current settings, but what depends on no input is computed where it is used.

    Folded, a mask of a graph that makes its own would be as large as it is in memory, and a module
    of constants alone would need a C compiler to be loaded.
    """
    return _context(disabled=["FoldConstant"])


def _context(
    opt_level: int | None = None,
    disabled: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> tvm.transform.PassContext:
    """The current settings and these; whoever times or prints passes goes on doing so."""
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=int(current.opt_level) if opt_level is None else opt_level,
        required_pass=list(current.required_pass),
        disabled_pass=[*current.disabled_pass, *disabled],
        instruments=list(current.instruments),
        config={**current.config, **(config or {})},
    )


def compile(
    mod: tvm.IRModule,
    target: Any = "cuda",
    options: Options | None = None,
    database: Database | None = None,
) -> Executable:
    """Compile a Relax module with stitching, to what `relax.VirtualMachine` runs.

    mod: the Relax module; `tvm_stitch.onnx.load`, `torch.load` and `relay.load` make one of other
        formats. It is not changed.
    target: the GPU: an architecture ("sm_90"), a name ("H100 PCIe"), a TVM tag, target or dict;
        "cuda" is this machine's GPU, or sm_90 where there is none.
    options: what planning may do, such as the schemes, the sizes that plans are made for, fast
        maths and CUDA graphs; the defaults of `Options` if left out.
    database: the path of a record store that `tvm_stitch.tune` wrote: kernels with a record for
        this GPU get the best schedule found.
    """
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"expected a Relax IRModule, not {type(mod).__name__}")
    cuda = full_target(target)
    # TVM compiles for the target in scope, and for this machine's GPU where there is none.
    scope = cuda if device_of(cuda).warpgroups else nullcontext()
    with lowering_context(), scope:
        with cuda:
            lowered = pipeline(cuda, options, database)(mod)
        return linked(lowered, cuda, store_of(options.cache if options else None))
