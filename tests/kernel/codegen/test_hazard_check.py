"""Every hazard that kernel/codegen/hazard_check names, in a kernel written by hand; and none in a
good one."""

import pytest
import tvm
from tvm.script import tirx as T

from tvm_stitch.build import lowering_context
from tvm_stitch.device import device_of
from tvm_stitch.kernel.codegen.hazard_check import RESIDENT, check_kernel
from tvm_stitch.kernel.emit import with_all_asked_for
from tvm_stitch.target import cuda_target
from tvm_stitch.workarounds.aligned_vectors import lowered

TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
DEVICE = device_of(TARGET)


@T.prim_func(s_tir=True)
def good(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    block = T.launch_thread("blockIdx.x", 1)
    thread = T.launch_thread("threadIdx.x", 64)
    row = T.alloc_shared((64,), "float32")
    row[thread] = x[block * 64 + thread]
    T.tvm_storage_sync("shared")
    y[thread] = row[63 - thread]


@T.prim_func(s_tir=True)
def barrier_in_a_branch(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    row = T.alloc_shared((64,), "float32")
    row[thread] = x[thread]
    if thread < 32:
        T.tvm_storage_sync("shared")
    y[thread] = row[63 - thread]


@T.prim_func(s_tir=True)
def shuffle_where_values_differ(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    own = T.alloc_local((1,), "float32")
    own[0] = x[thread]
    if own[0] > T.float32(0):
        own[0] = T.cuda.warp_sum(own[0], 32)
    y[thread] = own[0]


@T.prim_func(s_tir=True)
def barrier_where_blocks_differ(x: T.Buffer((128,), "float32"), y: T.Buffer((128,), "float32")):
    block = T.launch_thread("blockIdx.x", 2)
    thread = T.launch_thread("threadIdx.x", 64)
    row = T.alloc_shared((64,), "float32")
    if block < 1:
        row[thread] = x[thread]
        T.tvm_storage_sync("shared")
        y[thread] = row[63 - thread]


@T.prim_func(s_tir=True)
def misaligned(x: T.Buffer((1024,), "float32"), y: T.Buffer((1024,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    for lane in T.vectorized(4):
        y[thread * 4 + lane] = x[thread * 4 + lane + 1]


@T.prim_func(s_tir=True)
def computed_in_a_vector(x: T.Buffer((1024,), "float16"), y: T.Buffer((1024,), "float16")):
    thread = T.launch_thread("threadIdx.x", 64)
    for lane in T.vectorized(4):
        y[thread * 4 + lane] = T.max(x[thread * 4 + lane], T.float16(0))


@T.prim_func(s_tir=True)
def gathered_in_a_vector(x: T.Buffer((1024,), "float32"), y: T.Buffer((1024,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    for lane in T.vectorized(4):
        y[thread * 4 + lane] = x[(thread * 4 + lane) * 4]


@T.prim_func(s_tir=True)
def branch_in_a_vector(x: T.Buffer((1024,), "float16"), y: T.Buffer((1024,), "float16")):
    thread = T.launch_thread("threadIdx.x", 64)
    for lane in T.vectorized(4):
        if thread * 4 + lane < 200:
            y[thread * 4 + lane] = x[thread * 4 + lane]


@T.prim_func(s_tir=True)
def too_wide(x: T.Buffer((1024,), "float32"), y: T.Buffer((1024,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    for lane in T.vectorized(8):
        y[thread * 8 + lane] = x[thread * 8 + lane]


@T.prim_func(s_tir=True)
def too_many_threads(y: T.Buffer((4096,), "float32")):
    row = T.launch_thread("threadIdx.y", 4)
    thread = T.launch_thread("threadIdx.x", 512)
    y[row * 512 + thread] = T.float32(1)


@T.prim_func(s_tir=True)
def too_much_static_shared(y: T.Buffer((16384,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    row = T.alloc_shared((16384,), "float32")
    row[thread] = T.float32(1)
    y[thread] = row[thread]


@T.prim_func(s_tir=True)
def too_much_shared(y: T.Buffer((65536,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    row = T.alloc_buffer((65536,), "float32", scope="shared.dyn")
    row[thread] = T.float32(1)
    y[thread] = row[thread]


@T.prim_func(s_tir=True)
def gaps_in_static_shared(y: T.Buffer((16384,), "float32")):
    """Together 48 KB; but each begins at a multiple of 64 bytes, and ptxas refuses it."""
    thread = T.launch_thread("threadIdx.x", 64)
    few = T.alloc_shared((8,), "float32")
    row = T.alloc_shared((12280,), "float32")
    few[thread % 8] = T.float32(1)
    row[thread] = few[thread % 8]
    y[thread] = row[thread]


@T.prim_func(s_tir=True)
def not_asked_for(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    thread = T.launch_thread("threadIdx.x", 64)
    scratch = T.alloc_shared((2048,), "float32")
    row = T.alloc_buffer((11264,), "float32", scope="shared.dyn")
    row[thread] = x[thread]
    scratch[thread] = row[thread]
    T.tvm_storage_sync("shared")
    y[thread] = scratch[63 - thread]


@T.prim_func(s_tir=True)
def barrier_where_clusters_differ(x: T.Buffer((384,), "float32"), y: T.Buffer((384,), "float32")):
    block = T.launch_thread("blockIdx.x", 6)
    T.launch_thread("clusterCtaIdx.x", 2)
    thread = T.launch_thread("threadIdx.x", 64)
    if block // 2 < 2:
        T.evaluate(T.ptx.barrier.cluster.arrive.release.aligned())
        T.evaluate(T.ptx.barrier.cluster.wait.acquire.aligned())
    y[block * 64 + thread] = x[block * 64 + thread]


@T.prim_func(s_tir=True)
def barrier_that_half_a_cluster_reaches(
    x: T.Buffer((384,), "float32"), y: T.Buffer((384,), "float32")
):
    block = T.launch_thread("blockIdx.x", 6)
    T.launch_thread("clusterCtaIdx.x", 2)
    thread = T.launch_thread("threadIdx.x", 64)
    few = T.alloc_local((1,), "bool")
    few[0] = block < 3
    if few[0]:
        T.evaluate(T.ptx.barrier.cluster.arrive.release.aligned())
        T.evaluate(T.ptx.barrier.cluster.wait.acquire.aligned())
    y[block * 64 + thread] = x[block * 64 + thread]


@T.prim_func(s_tir=True)
def half_a_cluster(x: T.Buffer((320,), "float32"), y: T.Buffer((320,), "float32")):
    block = T.launch_thread("blockIdx.x", 5)
    T.launch_thread("clusterCtaIdx.x", 2)
    thread = T.launch_thread("threadIdx.x", 64)
    y[block * 64 + thread] = x[block * 64 + thread]


@pytest.mark.parametrize(
    "kernel", [good, barrier_where_blocks_differ, barrier_where_clusters_differ]
)
def test_good_kernels_pass(kernel):
    assert check_kernel(kernel, DEVICE) is None


@pytest.mark.parametrize(
    ("kernel", "hazard"),
    [
        (barrier_in_a_branch, "not all threads come"),
        (shuffle_where_values_differ, "not all threads come"),
        (computed_in_a_vector, "a vector statement that is no copy: T.max"),
        (gathered_in_a_vector, "a vector statement that is no copy"),
        (branch_in_a_vector, "a branch in a vector statement"),
        (misaligned, "out of alignment"),
        (too_wide, "8 x float32"),
        (too_many_threads, "2048 threads"),
        (too_much_static_shared, "static shared memory"),
        (gaps_in_static_shared, "49216 bytes of static shared memory"),
        (too_much_shared, "shared memory a block"),
        (not_asked_for, "TVM does not ask the driver for"),
        (barrier_that_half_a_cluster_reaches, "where not all blocks of a cluster come"),
        (half_a_cluster, "5 blocks, which clusters of 2 do not divide"),
    ],
)
def test_hazards_are_named(kernel, hazard):
    refused = check_kernel(kernel, DEVICE)
    assert refused is not None
    assert hazard in refused.reason


def test_stitched_kernels_ask_for_all_of_their_shared_memory():
    """A launch with 44 KB of dynamic memory beside 8 KB of static memory fails."""
    launch = not_asked_for.body
    inside = with_all_asked_for(launch.body)
    launch = tvm.tirx.AttrStmt(launch.node, launch.attr_key, launch.value, inside)
    kernel = not_asked_for.with_body(launch)
    assert check_kernel(kernel, DEVICE) is None
    with lowering_context():  # TVM finds a place for it
        _, _, devices = lowered(tvm.IRModule({"kernel": kernel}), cuda_target(TARGET), set())
    assert devices
    assert with_all_asked_for(good.body).same_as(good.body)


@pytest.mark.parametrize(("blocks", "resident"), [(132, 0), (133, 1), (2000, 8)])
def test_blocks_that_would_wait_for_ever_are_refused(blocks, resident):
    refused = check_kernel(synchronising(blocks, resident), DEVICE)
    assert refused is not None
    assert f"a barrier of {blocks} blocks, of which {resident} fit" in refused.reason


@pytest.mark.parametrize(("blocks", "resident"), [(132, 1), (264, 2), (1000, 8)])
def test_blocks_that_are_resident_may_synchronise(blocks, resident):
    assert check_kernel(synchronising(blocks, resident), DEVICE) is None


def synchronising(blocks: int, resident: int) -> tvm.tirx.PrimFunc:
    """A kernel whose blocks wait for each other."""

    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((64,), "float32")):
        block = T.launch_thread("blockIdx.x", blocks)
        T.attr(0, RESIDENT, resident)
        thread = T.launch_thread("threadIdx.x", 64)
        T.cuda.grid_sync()
        if block == 0:
            x[thread] = T.float32(0)

    return kernel


def test_the_broken_block_reduction_of_this_tvm_is_refused():
    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        thread = T.launch_thread("threadIdx.x", 64)
        scratch = T.alloc_shared((2,), "float32")
        y[thread] = T.cuda.cta_sum(x[thread], 2, scratch.data)

    refused = check_kernel(kernel, DEVICE)
    assert refused is not None
    assert "overruns its scratch" in refused.reason
