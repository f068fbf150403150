"""How stitching works, kernel by kernel
=====================================

How stitching works, from a softmax to a barrier of the whole grid.

Run it with `python tutorials/5_how_stitching_works.py`. It needs no GPU; g++ lets it run the
kernels on the CPU, thread by thread.

A kernel ends where one thread needs what another has computed, unless the two can synchronise.
Stitching is finding the nearest place where they can: registers of a warp, shared memory of a
block, the blocks of a cluster, the whole grid. Each section takes one step outwards and
shows the plan, the lines of the generated CUDA where threads synchronise, and the result beside
NumPy's.
"""

import pathlib
import re
import tempfile

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

import tvm_stitch
from tvm_stitch import simt, transform
from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of

target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
random = np.random.default_rng(0)


def model(build, **shapes):
    """A Relax module whose main takes float32 tensors of these names and shapes."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(name, relax.TensorType(s, "float32")) for name, s in shapes.items()]
    with builder.function("main", inputs):
        with builder.dataflow():
            results = build(builder.emit, *inputs)
            results = relax.Tuple(results) if isinstance(results, list) else results
            results = builder.emit_output(results)
        builder.emit_func_output(results)
    return builder.get()


def the_kernel(module):
    """The one stitched kernel of a module, as thread-bound TIR: what StitchSchedule makes."""
    passes = [
        transform.Decompose(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        transform.StitchOps(target),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        transform.StitchSchedule(target),
    ]
    with target:
        module = tvm.transform.Sequential(passes)(module)
    (kernel,) = (f for f in module.functions.values() if isinstance(f, tirx.PrimFunc))
    return kernel


def excerpt(source, *patterns):
    """The kernel's signature and the lines that match, what is left out as dots."""
    kernel = source[source.rindex('extern "C" __global__') :].splitlines()
    for line in kernel:
        signature = line is kernel[0]
        if signature or any(re.search(pattern, line) for pattern in patterns):
            yield line if len(line) < 100 else line[:97] + "..."
            dots = False
        elif not dots:
            yield "  ..."
            dots = True


def show(title, module, expected, *patterns, **arrays):
    """The plan, the CUDA, and a run on the CPU of a model that becomes one kernel."""
    print(f"\n=== {title}")
    report = tvm_stitch.explain(module, target)
    (plan,) = report.kernels
    print(f"scheme:  {plan.scheme}\nmapping: {plan.mapping}\nwhy:     {plan.why}")
    kernel = the_kernel(module)
    print("\n".join(excerpt(cuda_source(kernel), *patterns)))
    if can_run:
        run_beside_numpy(kernel, arrays, expected)


def cuda_source(kernel):
    """The CUDA that TVM makes of a kernel."""
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with lowering_context():
        built = tvm.tirx.build(module, target=tvm.target.Target(target, host="llvm"))
    return built.imports[0].inspect_source()


def run_beside_numpy(kernel, arrays, expected):
    """Every GPU thread runs on the CPU, once in the natural order and once in a shuffled one."""
    buffers = [
        arrays.get(param.name, np.zeros([int(n) for n in param.ty.shape], str(param.ty.dtype)))
        for param in kernel.params
    ]
    with lowering_context():
        function = simt.Function(kernel, target)
    outputs = buffers[len(arrays) :]  # and behind them, in the global scheme, a workspace
    for seed in (0, 1):
        ran = function(buffers, seed=seed)
        assert ran.ok, ran
        for got, want in zip(outputs, expected, strict=False):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    launch = ran.launch
    print(f"ran {launch.blocks} blocks of {launch.threads} threads in two orders: as NumPy says")


missing = simt.available()
can_run = missing is None
if not can_run:
    print(f"The kernels are shown but not run: {missing}")

# %%
# 1. A row that a warp holds
# --------------------------
#
# Softmax of a row: its maximum, exponentials, their sum, a division. Both reductions go over the
# whole row, so whoever divides needs all of it. Where a reduction ends a kernel, the row goes to
# memory and comes back at each of them.
#
# A row of 20 elements is too short for a block. Eight threads take it, one 16-byte vector each; a
# warp takes several rows. Registers are exchanged by shuffles, and memory is read once.


def softmax(emit, x):
    return emit(op.nn.softmax(x, axis=-1))


def softmax_in_numpy(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


x = random.standard_normal((1000, 20)).astype("float32")
show(
    "a row in a warp's registers",
    model(softmax, x=x.shape),
    [softmax_in_numpy(x)],
    *(r"float4", r"warp_reduce", r"expf"),
    x=x,
)

# %%
# 2. A row that a block holds
# ---------------------------
#
# 4096 elements take more threads than a warp has. Each warp reduces its share by shuffles as above
# and leaves one word in shared memory; after __syncthreads() every warp reduces those words. The
# elements themselves never leave the registers.

x = random.standard_normal((16, 4096)).astype("float32")
show(
    "a row in a block",
    model(softmax, x=x.shape),
    [softmax_in_numpy(x)],
    *(r"__shared__", r"__syncthreads", r"warp_reduce"),
    x=x,
)

# %%
# 3. A row that no block holds
# ----------------------------
#
# 131072 floats are half a megabyte: twice what a multiprocessor has. From compute capability 9.0
# on, blocks of a cluster may write into each other's shared memory. They share the row, copy their
# pieces into shared memory while they already work on what has come, and go over it once for both
# the maximum and the sum: when the maximum grows, the sum so far is scaled down. Then every block
# sends what its warps found to all others, and each waits until everything has arrived.

x = random.standard_normal((2, 131072)).astype("float32")
show(
    "a row in a cluster of blocks",
    model(softmax, x=x.shape),
    [softmax_in_numpy(x)],
    *(r"cp_async_cg", r"rescaled_ptr\[0\] =", r"barrier_cluster", r"tvm_stitch_\w+\("),
    x=x,
)

# %%
# 4. Rows and columns in one kernel
# ---------------------------------
#
# The gradients of a layer norm: one by its input, which needs sums along each row, and two by its
# weight and bias, which are sums over all rows. No block has all rows. So a fixed number of blocks,
# few enough to be on the GPU at the same time, iterates over the rows. Each adds up its columns in
# registers, writes them to a workspace once, and waits for all others at a barrier of the grid;
# then the blocks divide the columns among themselves and add up the partial sums, always in
# the same order. No atomics: the result is the same bit for bit, every time.


def layer_norm_gradients(emit, x, grad, weight):
    def mean(value):
        return emit(op.mean(value, axis=-1, keepdims=True))

    centred = emit(op.subtract(x, mean(x)))
    variance = mean(emit(op.multiply(centred, centred)))
    inverse = emit(op.rsqrt(emit(op.add(variance, relax.const(1e-5)))))
    normal = emit(op.multiply(centred, inverse))
    inner = emit(op.multiply(grad, weight))
    projection = emit(op.multiply(normal, mean(emit(op.multiply(inner, normal)))))
    rest = emit(op.subtract(emit(op.subtract(inner, mean(inner))), projection))
    by_x = emit(op.multiply(rest, inverse))
    by_weight = emit(op.sum(emit(op.multiply(grad, normal)), axis=0))
    return [by_x, by_weight, emit(op.sum(grad, axis=0))]


def layer_norm_gradients_in_numpy(x, grad, weight):
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    normal, inner = centred * inverse, grad * weight
    projection = normal * (inner * normal).mean(-1, keepdims=True)
    by_x = (inner - inner.mean(-1, keepdims=True) - projection) * inverse
    return [by_x, (grad * normal).sum(0), grad.sum(0)]


x, grad = random.standard_normal((2, 2200, 128)).astype("float32")
weight = random.standard_normal(128).astype("float32")
module = model(layer_norm_gradients, x=x.shape, grad=grad.shape, weight=weight.shape)
show(
    "rows and columns, with a barrier of the grid",
    module,
    layer_norm_gradients_in_numpy(x, grad, weight),
    *(r"for \(int iteration", r"warp_reduce", r"workspace_ptr(\[| \+)", r"grid_sync"),
    x=x,
    grad=grad,
    weight=weight,
)

# %%
# 5. Nothing in common
# --------------------
#
# A softmax and a square of another tensor need nothing of each other. Each alone is a launch, and
# neither fills the GPU. Packed, they are ranges of blocks of one kernel: a block looks at its
# number and does one or the other.


def unrelated(emit, a, b):
    return [softmax(emit, a), emit(op.multiply(b, b))]


a, b = random.standard_normal((2, 200, 256)).astype("float32")
show(
    "two computations in one launch",
    model(unrelated, a=a.shape, b=b.shape),
    [softmax_in_numpy(a), b * b],
    *(r"if \(\(*int\)blockIdx", r"else \{", r"__syncthreads", r"expf", r"T_multiply"),
    a=a,
    b=b,
)

# %%
# 6. Why not always the widest?
# -----------------------------
#
# Every step outwards costs more, and nothing is loaded while threads wait. So each kernel takes the
# nearest one that holds its rows, and the planner asks the cost model whether stitching
# pays at all. What it thinks that synchronising costs on an H200:

timing = device_of(target).timing
print("\nmicroseconds of one synchronisation, as the cost model has them:")
print(f"  two lanes of a warp {timing.shuffle_us:.3f}, a block {timing.barrier_us:.3f}", end=", ")
print(f"a cluster {timing.cluster_us:.1f}, the grid {timing.grid_us:.1f}")

# What stitching gains is launches and ways through memory:


def norm_and_gelu(emit, x, residual, weight, bias):
    total = emit(op.add(x, residual))
    return emit(op.nn.gelu(emit(op.nn.layer_norm(total, weight, bias, axes=[-1]))))


wide, row = (8192, 1024), (1024,)
print("\nkernel launches by TVM's default and stitched, and the predicted time:")
for name, module in {
    "add, layer norm, GELU": model(norm_and_gelu, x=wide, residual=wide, weight=row, bias=row),
    "layer norm's gradients": model(layer_norm_gradients, x=wide, grad=wide, weight=row),
}.items():
    report = tvm_stitch.explain(module, target)
    (plan,) = report.kernels
    print(f"  {name}: {report.before.launches} and {report.launches}", end="; ")
    print(f"{plan.predicted_us:.1f} us, of which memory alone needs {plan.floor_us:.1f}")

# %%
# 7. Every stage in a file
# ------------------------
#
# To follow a model of your own all the way, from Relax to CUDA, name a folder: here, by
# TVM_STITCH_DUMP in the environment, or by `tvm-stitch compile --dump`. Each compilation writes
# into a numbered folder of its own.

with tempfile.TemporaryDirectory() as folder:
    module = model(norm_and_gelu, x=wide, residual=wide, weight=row, bias=row)
    tvm_stitch.compile(module, target, tvm_stitch.Options(dump=folder))
    print("\nthe stages of add, layer norm, GELU:")
    stages = sorted(pathlib.Path(folder, "0001").iterdir())
    for file in stages:
        print(f"  {file.name:17} {len(file.read_text().splitlines()):4} lines")
    (programs,) = (file for file in stages if "programs" in file.name)
    print(programs.read_text())
