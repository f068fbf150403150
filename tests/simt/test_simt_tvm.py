"""Kernels that TVM generates, run on the CPU and compared with NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir import dlight
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_stitch import simt
from tvm_stitch.simt.lowering import Scope

TARGET = tvm.target.Target(
    {
        "kind": "cuda",
        "arch": "sm_90",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    },
    host="llvm",
)
RULES = (
    dlight.gpu.Matmul(),
    dlight.gpu.GEMV(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Fallback(),
)


def scheduled(operator, shapes, dtype):
    """The one PrimFunc of an operator, legalised, fused and scheduled by DLight."""
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{i}", R.Tensor(s, dtype)) for i, s in enumerate(shapes)]
    with builder.function("main", parameters):
        with builder.dataflow():
            output = builder.emit_output(operator(*parameters))
        builder.emit_func_output(output)
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        dlight.ApplyDefaultSchedule(*RULES),
    ]
    with TARGET:
        module = tvm.transform.Sequential(passes)(builder.get())
    (function,) = [f for f in module.functions.values() if isinstance(f, tirx.PrimFunc)]
    return function


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CASES = {
    "softmax": (relax.op.nn.softmax, [(24, 1000)], softmax),
    "row sum": (lambda x: relax.op.sum(x, axis=[1]), [(33, 1000)], lambda x: x.sum(1)),
    "column max": (lambda x: relax.op.max(x, axis=[0]), [(70, 40)], lambda x: x.max(0)),
    "matmul": (relax.op.matmul, [(64, 48), (48, 80)], np.matmul),
    "gemv": (relax.op.matmul, [(1, 512), (512, 64)], np.matmul),
    "elementwise": (
        lambda x: relax.op.tanh(relax.op.exp(relax.op.sqrt(relax.op.abs(x)))),
        [(33, 100)],
        lambda x: np.tanh(np.exp(np.sqrt(np.abs(x)))),
    ),
}
TOLERANCE = {"float32": 2e-6, "float16": 2e-2, "bfloat16": 8e-2}


# TVM 0.27 shuffles no bfloat16: it lets the last warp reduce in volatile shared memory without
# __syncwarp, which has been a race since Volta.
WARP_SYNCHRONOUS = [("softmax", "bfloat16"), ("row sum", "bfloat16")]


@pytest.mark.parametrize("case", [case for case, _ in WARP_SYNCHRONOUS])
def test_tvm_reduces_bfloat16_without_warp_barriers(case):
    operator, shapes, reference = CASES[case]
    function = simt.Function(scheduled(operator, shapes, "bfloat16"), TARGET)
    inputs = [np.ones(s, ml_dtypes.bfloat16) for s in shapes]
    output = np.zeros(reference(*inputs).shape, ml_dtypes.bfloat16)
    run = function(*inputs, output)
    assert {h.kind for h in run.hazards} == {"race"}
    assert all("volatile" in h.source and "volatile" in h.other_source for h in run.hazards)


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    ("case", "dtype"),
    [(c, d) for c in CASES for d in TOLERANCE if (c, d) not in WARP_SYNCHRONOUS],
)
def test_dlight_kernels(case, dtype):
    operator, shapes, reference = CASES[case]
    function = scheduled(operator, shapes, dtype)
    element = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    rng = np.random.default_rng(0)
    inputs = [(rng.standard_normal(s) / s[-1] ** 0.25).astype(element) for s in shapes]
    expected = reference(*(x.astype("float64") for x in inputs))
    output = np.zeros(expected.shape, element)
    compiled = simt.Function(function, TARGET)
    for seed in (0, 5):
        run = compiled(*inputs, output, seed=seed)
        assert run.ok, run
        error = np.abs(output.astype("float64") - expected).max() / np.abs(expected).max()
        assert error < TOLERANCE[dtype]
        output[...] = 0


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_symbolic_rows_are_compiled_once(rows):
    n = tirx.Var("n", "int64")
    function = simt.Function(scheduled(relax.op.nn.softmax, [(n, 100)], "float32"), TARGET)
    x = np.random.default_rng(0).standard_normal((rows, 100)).astype("float32")
    y = np.zeros_like(x)
    run = function({"x0": x, "T_softmax_norm": y})
    assert run.ok and run.launch.grid == (rows, 1, 1)
    np.testing.assert_allclose(y, softmax(x.astype("float64")), atol=1e-6)


def test_what_the_host_computes_may_be_a_fraction():
    count = tirx.Var("count", "float32")
    scope = Scope({count: 3.0})
    assert scope.known(count / tirx.const(2, "float32")) == 1.5
    assert scope.argument(count * count) == 9.0


def test_bfloat16_as_bits():
    function = scheduled(
        lambda x: relax.op.multiply(x, relax.const(2, "bfloat16")), [(4, 100)], "bfloat16"
    )
    x = np.random.default_rng(0).standard_normal((4, 100)).astype("float32")
    bits = simt.to_bfloat16(x)
    y = np.zeros_like(bits)
    assert simt.Function(function, TARGET)(bits, y).ok
    np.testing.assert_array_equal(simt.from_bfloat16(y), 2 * simt.from_bfloat16(bits))
    np.testing.assert_array_equal(bits, x.astype(ml_dtypes.bfloat16).view("uint16"))


@T.prim_func(s_tir=True)
def mixed(x: T.Buffer((8, 256), "float32"), y: T.Buffer((8, 256), "float32"), scale: T.float32):
    """Two dtypes in dynamic shared memory, and a scalar."""
    b = T.launch_thread("blockIdx.x", 8)
    t = T.launch_thread("threadIdx.x", 256)
    s = T.alloc_buffer((256,), "float32", scope="shared.dyn")
    h = T.alloc_buffer((128,), "float16", scope="shared.dyn")
    s[t] = x[b, t]
    if t < 128:
        h[t] = T.cast(x[b, t], "float16")
    T.evaluate(T.call_intrin("int32", "tirx.tvm_storage_sync", "shared.dyn"))
    y[b, t] = s[255 - t] * scale + T.cast(h[t // 2], "float32")


def test_dynamic_shared_memory_and_scalars():
    x = np.random.default_rng(0).random((8, 256)).astype("float32")
    y = np.zeros_like(x)
    run = simt.run(mixed, arrays={"x": x, "y": y, "scale": 2.0}, seed=1)
    assert run.ok and run.launch.shared_bytes == 256 * 4 + 128 * 2
    half = x[:, np.arange(256) // 2].astype("float16").astype("float32")
    np.testing.assert_array_equal(y, x[:, ::-1] * 2 + half)


@T.prim_func(s_tir=True)
def two_kernels(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    """A PrimFunc of two launches with a workspace between them."""
    w = T.alloc_buffer((64,), "float32", scope="global")
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("first"):
            vi = T.axis.spatial(64, i)
            w[vi] = x[vi] * T.float32(2)
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("second"):
            vi = T.axis.spatial(64, i)
            y[vi] = w[63 - vi] + T.float32(1)


def test_several_kernels_of_one_function():
    x = np.arange(64, dtype="float32")
    y = np.zeros_like(x)
    run = simt.run(two_kernels, arrays=[x, y])
    assert run.ok and "," in run.kernel
    np.testing.assert_array_equal(y, x[::-1] * 2 + 1)


def grid_normalise(blocks, columns, threads):
    """A row over the whole grid: every block adds its part, a grid barrier, everybody reads."""

    @T.prim_func(s_tir=True)
    def kernel(
        x: T.Buffer((blocks * columns,), "float32"),
        parts: T.Buffer((blocks,), "float32"),
        y: T.Buffer((blocks * columns,), "float32"),
    ):
        T.func_attr(
            {
                "global_symbol": "grid_normalise",
                "tirx.noalias": True,
                "tirx.kernel_launch_params": ["tirx.use_cooperative_launch"],
            }
        )
        block = T.launch_thread("blockIdx.x", blocks)
        t = T.launch_thread("threadIdx.x", threads)
        s = T.alloc_local((1,), "float32")
        s[0] = T.float32(0)
        for k in T.serial(columns // threads):
            s[0] = s[0] + x[block * columns + k * threads + t]
        s[0] = T.cuda.warp_sum(s[0], 32)
        if t == 0:
            parts[block] = s[0]
        T.evaluate(T.cuda.grid_sync())
        s[0] = T.float32(0)
        for b in T.serial(blocks):
            s[0] = s[0] + parts[b]
        for k in T.serial(columns // threads):
            y[block * columns + k * threads + t] = x[block * columns + k * threads + t] / s[0]

    return kernel


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cooperative_grid(seed):
    x = np.random.default_rng(0).random(12 * 64).astype("float32")
    y, parts = np.zeros_like(x), np.zeros(12, "float32")
    run = simt.run(grid_normalise(12, 64, 32), arrays=[x, parts, y], seed=seed)
    assert run.ok and run.launch.cooperative and run.barriers == 12
    np.testing.assert_allclose(y, x / x.astype("float64").sum(), rtol=1e-6)


REMOTE_LOAD = (
    "__device__ __forceinline__ float remote_load_f32(unsigned long long a)"
    "{ return *(volatile float*)a; }"
)


def cluster_normalise(rows, columns, cluster, threads, last_barrier=True):
    """Rows split over a cluster: partial sums cross blocks through distributed shared memory."""
    mine = columns // cluster

    @T.prim_func(s_tir=True, check_well_formed=False)
    def kernel(x: T.Buffer((rows, columns), "float32"), y: T.Buffer((rows, columns), "float32")):
        T.func_attr({"global_symbol": "normalise", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", rows * cluster)
        rank = T.launch_thread("clusterCtaIdx.x", cluster)
        t = T.launch_thread("threadIdx.x", threads)
        s = T.alloc_local((2,), "float32")
        total = T.alloc_shared((1,), "float32")
        s[0] = T.float32(0)
        for k in T.serial(mine // threads):
            s[0] = s[0] + x[block // cluster, rank * mine + k * threads + t]
        s[0] = T.cuda.warp_sum(s[0], 32)
        if t == 0:
            total[0] = s[0]
        T.evaluate(T.cuda.cluster_sync())
        s[1] = T.float32(0)
        for r in T.unroll(cluster):
            address = T.alloc_local([1], "uint64")
            T.evaluate(T.ptx.mapa.u64(address[0], total.ptr_to([0]), T.uint32(r)))
            s[1] = s[1] + T.cuda.func_call(
                "remote_load_f32", address[0], source_code=REMOTE_LOAD, return_type="float32"
            )
        if last_barrier:
            T.evaluate(T.cuda.cluster_sync())
        for k in T.serial(mine // threads):
            y[block // cluster, rank * mine + k * threads + t] = (
                x[block // cluster, rank * mine + k * threads + t] / s[1]
            )

    return kernel


@pytest.mark.parametrize("cluster", [1, 2, 16])
def test_clusters_read_each_others_shared_memory(cluster):
    x = np.random.default_rng(0).random((3, 64 * cluster)).astype("float32")
    y = np.zeros_like(x)
    function = simt.Function(cluster_normalise(3, 64 * cluster, cluster, 32))
    for seed in (0, 1):
        run = function(x, y, seed=seed)
        assert run.ok and run.launch.cluster == (cluster, 1, 1)
        np.testing.assert_allclose(y, x / x.astype("float64").sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_block_may_not_leave_while_its_shared_memory_is_read(seed):
    x = np.random.default_rng(0).random((3, 256)).astype("float32")
    function = simt.Function(cluster_normalise(3, 256, 4, 32, last_barrier=False))
    run = function(x, np.zeros_like(x), seed=seed)
    assert {h.kind for h in run.hazards} == {"race"}
    assert any("may have left" in h.message for h in run.hazards)


def test_cta_sum_of_this_tvm_overruns_its_scratch():
    """T.cuda.cta_sum of TVM 0.27 shrinks its scratch: the reason why nobody here uses it."""

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((256,), "float32"), y: T.Buffer((256,), "float32")):
        t = T.launch_thread("threadIdx.x", 256)
        scratch = T.alloc_shared((8,), "float32")
        y[t] = T.cuda.cta_sum(x[t], 8, scratch.ptr_to([0]))

    x = np.ones(256, "float32")
    run = simt.run(kernel, arrays=[x, np.zeros_like(x)])
    assert any(h.where.startswith("scratch") for h in run.hazards), run


def test_modules_and_executables_hold_their_source():
    built = tvm.tirx.build(
        tvm.IRModule({"mixed": mixed.with_attr("global_symbol", "mixed")}), TARGET
    )
    x = np.ones((8, 256), "float32")
    y = np.zeros_like(x)
    arrays = {"x": x, "y": y, "scale": 3.0}
    run = simt.run(built, arrays=arrays, grid=8, block=256, shared_bytes=1280)
    assert run.ok and (y == 4).all()
    assert simt.kernel_names(built.imports[0].inspect_source()) == ("mixed_kernel",)


def test_tensor_cores_are_refused_by_name():
    with pytest.raises(Exception, match="mma"):
        simt.load("#include <mma.h>\n" + 'extern "C" __global__ void k(float* x) {}')


@T.prim_func(s_tir=True)
def with_ptx(x: T.Buffer((256,), "float32"), y: T.Buffer((256,), "float32")):
    """Instructions as TVM's PTX table writes them."""
    t = T.launch_thread("threadIdx.x", 64)
    s = T.alloc_shared((256,), "float32")
    r = T.alloc_local((5,), "float32")
    T.evaluate(T.ptx["griddepcontrol.wait"]())
    T.evaluate(T.ptx["cp.async.cg.shared.global"](s.ptr_to([t * 4]), x.ptr_to([t * 4]), 16))
    T.evaluate(T.ptx["cp.async.commit_group"]())
    T.evaluate(T.ptx["cp.async.wait_group"](0))
    T.evaluate(T.ptx["ld.global.nc.L1::no_allocate.v4.f32"](
        r[0], r[1], r[2], r[3], x.ptr_to([t * 4])
    ))  # fmt: skip
    T.evaluate(T.ptx["ex2.approx.ftz.f32"](r[4], s[t * 4 + 3]))
    T.evaluate(T.ptx["st.global.v4.f32"](y.ptr_to([t * 4]), r[4], r[1], r[2], r[3]))


def test_instructions_of_the_ptx_table():
    x = np.linspace(-1, 1, 256).astype("float32")
    y = np.zeros_like(x)
    run = simt.run(with_ptx, arrays=[x, y], seed=1)
    assert run.ok, run
    expected = x.reshape(64, 4).copy()
    expected[:, 0] = np.exp2(expected[:, 3])
    np.testing.assert_allclose(y.reshape(64, 4), expected, rtol=1e-6)
