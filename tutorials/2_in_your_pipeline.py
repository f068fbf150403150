"""In your pipeline
================

Stitching inside a TVM compilation pipeline.

Run it with `python tutorials/2_in_your_pipeline.py`; it needs no GPU. For those who come from
Relay, the last part says where its pieces went.
"""

import tvm
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline
from tvm.s_tir import dlight

import tvm_stitch
from tvm_stitch.commands import demo

# A Transformer block: matrix products, and between them softmax, norms and GELU.
model = demo.block(batch=1, heads=4, tokens=64, features=128)
target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


def kernels_called(mod: tvm.IRModule) -> int:
    """Calls of TIR functions in main: each launches a kernel, views aside."""
    calls = []

    def visit(expr):
        if isinstance(expr, tvm.ir.Call) and getattr(expr.op, "name", "") == "relax.call_tir":
            calls.append(expr)

    relax.analysis.post_order_visit(mod["main"], visit)
    return len(calls)


# %%
# 1. TVM's default
# ----------------
#
# tvm.compile takes the target's own pipeline: LegalizeOps turns operators into TIR, FuseOps and
# FuseTIR merge neighbours, DLight schedules what comes out. A reduction ends a kernel.

with target:
    default = tvm.transform.Sequential(cuda_pipeline.legalize_passes(target))(model)
print("TVM's default pipeline: ", kernels_called(default), "calls of kernels")

# %%
# 2. The drop-in
# --------------
#
# One argument more. Whatever is not stitched goes TVM's way, with the same passes as above.

executable = tvm.compile(model, target, relax_pipeline=tvm_stitch.pipeline(target))
report = tvm_stitch.explain(model, target)
print("tvm_stitch.pipeline:    ", report.launches, "kernel launches;", end=" ")
print(sum(kernel.stitched for kernel in report.kernels), "different stitched kernels")

# relax.build is the same function under its older name, and takes the same argument:
relax.build(model, target, relax_pipeline=tvm_stitch.pipeline(target))

# %%
# 3. A pipeline of one's own
# --------------------------
#
# The pipeline is a list of passes, four of them from tvm_stitch. Put your own among them: this one
# shows how many calls are left after each step.


def show(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
    """Print the number of calls; change nothing."""
    print(f"  {kernels_called(mod):3} calls of TIR functions")
    return mod


look = tvm.transform.module_pass(show, opt_level=0, name="Look")
gpu = dlight.gpu
passes = [
    *cuda_pipeline.library_dispatch_passes(target),
    # Softmax, norms and the like become element-wise operators and reductions in float32.
    tvm_stitch.transform.Decompose(),
    relax.transform.LegalizeOps(),
    look,
    relax.transform.AnnotateTIROpPattern(),
    relax.transform.FoldConstant(),
    relax.transform.ConvertToDataflow(),
    # Groups that one kernel can hold. This stands where FuseOps stood; FuseOps itself may follow,
    # for what is left: it merges a matrix product with the element-wise operators after it.
    tvm_stitch.transform.StitchOps(target),
    relax.transform.FuseOps(),
    relax.transform.FuseTIR(),
    look,
    # Fused functions become kernels; DLight then schedules those that did not.
    tvm_stitch.transform.StitchSchedule(target),
    dlight.ApplyDefaultSchedule(
        gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()
    ),
    *cuda_pipeline.dataflow_lower_passes(target),
    *cuda_pipeline.finalize_passes(target),
    # Arguments are checked by one function of the host instead of two calls for each.
    tvm_stitch.transform.FewerCalls(),
]

print("a pipeline of one's own, after LegalizeOps and after FuseTIR:")


@tvm.transform.module_pass(opt_level=0, name="mine")
def mine(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
    """All passes, for this target."""
    with target:
        return tvm.transform.Sequential(passes)(mod)


executable = tvm.compile(model, target, relax_pipeline=mine)
source = executable.mod.imports[0].imports[0].inspect_source()
names = {kernel.name for kernel in report.kernels if kernel.stitched}
print("the same stitched kernels as the drop-in's:", all(name in source for name in names))

# %%
# 4. Choices
# ----------
#
# Options say what stitching may use. Here: nothing that crosses threads, so rows that a warp would
# share are left to TVM, and the report says so.

options = tvm_stitch.Options(schemes=("local",))
narrow = tvm_stitch.explain(model, target, options)
print("with the local scheme alone:", narrow.launches, "kernel launches")
print("  for instance", next(f"{f.op}: {f.reason}" for f in narrow.fallbacks if "off" in f.reason))

# %%
# 5. If you come from Relay
# -------------------------
#
# TVM removed Relay in 0.20; Relax holds its place. Where its pieces went::
#
#   relay.build(mod, target, params)        tvm.compile(mod, target)  (relax.build is the same)
#   relay.transform.FuseOps                 relax.transform.FuseOps, and FuseTIR after it;
#                                           StitchOps stands where FuseOps stood
#   TOPI's compute definitions              relax.transform.LegalizeOps
#   TOPI's schedules                        DLight; StitchSchedule for stitched kernels
#   graph_executor.GraphModule              relax.VirtualMachine
#   relay.frontend.from_onnx, from_pytorch  tvm.relax.frontend.onnx.from_onnx,
#                                           tvm.relax.frontend.torch.from_exported_program
#   params passed to build                  relax.transform.BindParams, or arguments of main
#
# So the Relay program `relay.build(mod, "cuda", params=params)` is today:

bound = relax.transform.BindParams("main", {})(model)
executable = tvm.compile(bound, target, relax_pipeline=tvm_stitch.pipeline(target))
print("compiled:", type(executable).__name__)
