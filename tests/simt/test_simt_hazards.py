"""Broken kernels, in the style TVM generates: every defect has to be found, with its lines."""

import numpy as np
import pytest

from tvm_stitch import simt

ORDERS = (0, 1, 2)


def kernel(body, parameters="float* x_ptr, float* y_ptr", threads=256, helpers=""):
    head = f'extern "C" __global__ void __launch_bounds__({threads}) k_kernel({parameters})'
    return f"{helpers}\n{head} {{\n{body.lstrip(chr(10))}\n}}\n"  # the body starts at line 3


def run(source, grid=1, block=64, seed=0, n=None, **options):
    n = n or 64
    x = np.arange(n, dtype="float32")
    y = np.zeros(n, "float32")
    arrays = {"x": x, "y": y}
    result = simt.run(source, arrays=arrays, grid=grid, block=block, seed=seed, **options)
    return result, y


def only(result, kind):
    """The only hazard of a run, which has to be of that kind."""
    assert [h.kind for h in result.hazards] == [kind], result
    return result.hazards[0]


REVERSE = """
  __shared__ alignas(64) float s_ptr[64];
  s_ptr[((int)threadIdx.x)] = x_ptr[((int)threadIdx.x)];
  {barrier}
  y_ptr[((int)threadIdx.x)] = s_ptr[(63 - ((int)threadIdx.x))];
"""


@pytest.mark.parametrize("seed", ORDERS)
def test_a_correct_kernel_has_no_hazards(seed):
    result, y = run(kernel(REVERSE.format(barrier="__syncthreads();")), seed=seed)
    assert result.ok, result
    np.testing.assert_array_equal(y, np.arange(64)[::-1])


@pytest.mark.parametrize("seed", ORDERS)
def test_a_removed_barrier_is_a_race_or_a_read_before_the_write(seed):
    result, _ = run(kernel(REVERSE.format(barrier="")), seed=seed)
    kinds = {h.kind for h in result.hazards}
    assert "race" in kinds
    race = next(h for h in result.hazards if h.kind == "race")
    assert race.where == "s_ptr"
    assert {race.source, race.other_source} == {
        "s_ptr[((int)threadIdx.x)] = x_ptr[((int)threadIdx.x)];",
        "y_ptr[((int)threadIdx.x)] = s_ptr[(63 - ((int)threadIdx.x))];",
    }


def test_a_barrier_missing_between_two_uses_of_scratch_is_a_race():
    body = """
  __shared__ float s_ptr[2];
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x % 32 == 0) s_ptr[threadIdx.x / 32] = x_ptr[threadIdx.x] + i;
    __syncthreads();
    y_ptr[threadIdx.x] = s_ptr[0] + s_ptr[1];
  }
"""
    race = only(run(kernel(body))[0], "race")
    assert {race.line, race.other_line} == {5, 7}


def test_a_warp_barrier_does_not_order_other_warps():
    body = REVERSE.format(barrier="__syncwarp();")
    assert {h.kind for h in run(kernel(body))[0].hazards} >= {"race"}
    within = """
  __shared__ float s_ptr[64];
  s_ptr[threadIdx.x] = x_ptr[threadIdx.x];
  __syncwarp();
  y_ptr[threadIdx.x] = s_ptr[threadIdx.x ^ 31];
"""
    result, y = run(kernel(within))
    assert result.ok, result
    np.testing.assert_array_equal(y, np.arange(64) ^ 31)


def test_a_partial_warp_barrier_orders_only_its_lanes():
    body = """
  __shared__ float s_ptr[32];
  s_ptr[threadIdx.x] = x_ptr[threadIdx.x];
  if (threadIdx.x < 16) __syncwarp(0xffff); else __syncwarp(0xffff0000);
  y_ptr[threadIdx.x] = s_ptr[threadIdx.x ^ {lane}];
"""
    assert run(kernel(body.format(lane=8)), block=32)[0].ok
    for seed in ORDERS:
        result, _ = run(kernel(body.format(lane=16)), block=32, seed=seed)
        assert "race" in {h.kind for h in result.hazards}


def test_a_shuffle_orders_the_lanes_that_take_part():
    body = """
  __shared__ float s_ptr[32];
  s_ptr[threadIdx.x] = x_ptr[threadIdx.x];
  float v = __shfl_xor_sync(0xffffffff, 1.0f, 1, 32);
  y_ptr[threadIdx.x] = s_ptr[threadIdx.x ^ 7] * v;
"""
    assert run(kernel(body), block=32)[0].ok


def test_two_writers_of_one_value_are_a_race_that_says_so():
    same = only(run(kernel("  y_ptr[0] = 3.0f;"))[0], "race")
    assert same.benign_same_value and "same value" in same.message
    other = only(run(kernel("  y_ptr[0] = x_ptr[threadIdx.x];"))[0], "race")
    assert not other.benign_same_value


def test_a_race_between_blocks_in_global_memory():
    body = "  y_ptr[threadIdx.x] = x_ptr[threadIdx.x] + blockIdx.x;"
    race = only(run(kernel(body), grid=2)[0], "race")
    assert race.where == "y_ptr" and race.block != race.other_block


def test_readers_before_a_writer_are_seen():
    body = """
  float v = x_ptr[0];
  if (threadIdx.x == 5) x_ptr[0] = v + 1.0f;
  y_ptr[threadIdx.x] = v;
"""
    for seed in ORDERS:
        result, _ = run(kernel(body), seed=seed)
        assert {h.kind for h in result.hazards} == {"race"}, result


def test_atomics_do_not_race_with_each_other_but_with_plain_accesses():
    result, y = run(kernel("  atomicAdd(&y_ptr[0], x_ptr[threadIdx.x]);"), seed=1)
    assert result.ok and y[0] == 64 * 63 / 2
    mixed = kernel("  atomicAdd(&y_ptr[0], 1.0f);\n  if (threadIdx.x == 9) y_ptr[0] = 0.0f;")
    assert "atomic" in only(run(mixed)[0], "race").message


@pytest.mark.parametrize("seed", ORDERS)
def test_an_off_by_one_row_guard_leaves_the_array(seed):
    body = """
  if (((int)blockIdx.x) * 32 + ((int)threadIdx.x) <= 48) {
    y_ptr[((int)blockIdx.x) * 32 + ((int)threadIdx.x)] =
        x_ptr[((int)blockIdx.x) * 32 + ((int)threadIdx.x)];
  }
"""
    result, _ = run(kernel(body), grid=2, block=32, seed=seed, n=48)
    read, write = sorted(result.hazards, key=lambda h: h.kind)
    assert (read.kind, read.where) == ("out-of-bounds read", "x_ptr")
    assert (write.kind, write.where) == ("out-of-bounds write", "y_ptr")
    assert "x_ptr[48]" in read.message and "48 elements" in read.message
    assert read.source.startswith("x_ptr[")


def test_a_row_beyond_the_guard_zone_is_still_out_of_bounds():
    n = 1 << 16
    body = f"  y_ptr[threadIdx.x + {n}] = x_ptr[(int)threadIdx.x - {3 * n}];"
    result, _ = run(kernel(body), n=n)
    assert {h.kind for h in result.hazards} == {"out-of-bounds read", "out-of-bounds write"}


def test_a_wild_address_ends_the_launch_but_not_the_process():
    result, _ = run(kernel("  y_ptr[1ll << 40] = 1.0f;\n  y_ptr[threadIdx.x] = 2.0f;"))
    assert result.hazards[0].kind == "out-of-bounds write"
    assert "no array" in result.hazards[0].message


def test_a_shrunk_shared_buffer_is_caught_by_its_index():
    body = REVERSE.format(barrier="__syncthreads();").replace("float s_ptr[64]", "float s_ptr[32]")
    result, _ = run(kernel(body))
    assert {h.kind for h in result.hazards} >= {"out-of-bounds write", "out-of-bounds read"}
    assert any(h.line == 4 for h in result.hazards)


def test_a_shrunk_shared_buffer_is_caught_behind_a_pointer():
    body = """
  __shared__ alignas(64) float scratch_ptr[1];
  __shared__ alignas(64) float other_ptr[64];
  float* raw = (float*)(&(scratch_ptr[0]));
  raw[threadIdx.x] = x_ptr[threadIdx.x];
  other_ptr[threadIdx.x] = 0.0f;
  __syncthreads();
  y_ptr[threadIdx.x] = raw[threadIdx.x] + other_ptr[threadIdx.x];
"""
    result, _ = run(kernel(body))
    assert {(h.kind, h.where) for h in result.hazards} == {
        ("out-of-bounds write", "scratch_ptr"),
        ("out-of-bounds read", "scratch_ptr"),
    }


def test_too_little_dynamic_shared_memory():
    body = """
  extern __shared__ __align__(64) uchar buf_dyn_shmem[];
  ((float*)buf_dyn_shmem)[threadIdx.x] = x_ptr[threadIdx.x];
  __syncthreads();
  y_ptr[threadIdx.x] = ((float*)buf_dyn_shmem)[63 - threadIdx.x];
"""
    source = kernel(body, helpers="#define uchar unsigned char")
    result, y = run(source, shared_bytes=256)
    assert result.ok and y[0] == 63
    result, _ = run(source, shared_bytes=128)
    assert {h.kind for h in result.hazards} == {"out-of-bounds write", "out-of-bounds read"}
    assert result.hazards[0].where == "dynamic shared memory"


def test_an_index_beyond_a_local_array():
    body = """
  float t_ptr[4];
  for (int i = 0; i < 4; ++i) t_ptr[i] = x_ptr[i];
  y_ptr[threadIdx.x] = t_ptr[threadIdx.x % 8];
"""
    assert only(run(kernel(body))[0], "out-of-bounds read").line == 5


def test_shared_memory_read_before_it_is_written_in_this_block():
    body = """
  __shared__ float s_ptr[64];
  if (threadIdx.x < 63) s_ptr[threadIdx.x] = x_ptr[threadIdx.x];
  __syncthreads();
  y_ptr[threadIdx.x] = s_ptr[threadIdx.x];
"""
    result, y = run(kernel(body))
    hazard = only(result, "uninitialised read")
    assert (hazard.where, hazard.thread, hazard.line) == ("s_ptr", 63, 6)
    assert np.isnan(y[63])
    second = body.replace("threadIdx.x < 63", "blockIdx.x == 0")
    writes_once = second.replace("y_ptr[threadIdx.x]", "y_ptr[32 * blockIdx.x + threadIdx.x]")
    found = only(run(kernel(writes_once), grid=2, block=32)[0], "uninitialised read")
    assert found.block == 1


def test_a_vector_access_that_is_not_aligned():
    body = "  *(float4*)(y_ptr + 4 * threadIdx.x) = *(float4*)(x_ptr + 4 * threadIdx.x + {shift});"
    assert run(kernel(body.format(shift=0)), block=15)[0].ok
    hazard = only(run(kernel(body.format(shift=1)), block=15)[0], "misaligned access")
    assert hazard.where == "x_ptr" and hazard.line == 3 and "16 bytes" in hazard.message


def test_some_threads_leave_before_the_barrier():
    body = """
  if (threadIdx.x >= 40) return;
  __syncthreads();
  y_ptr[threadIdx.x] = x_ptr[threadIdx.x];
"""
    for seed in ORDERS:
        hazard = only(run(kernel(body), seed=seed)[0], "divergent barrier")
        assert hazard.source == "__syncthreads();" and hazard.other_thread >= 40
        assert "left the kernel" in hazard.message


def test_threads_meet_at_different_barriers():
    body = """
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
"""
    hazard = only(run(kernel(body))[0], "divergent barrier")
    assert {hazard.line, hazard.other_line} == {4, 6}


def test_a_barrier_against_a_shuffle_is_a_deadlock_with_both_lines():
    body = """
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    y_ptr[threadIdx.x] = __shfl_sync(0xffffffff, x_ptr[threadIdx.x], 0);
  }
"""
    result, _ = run(kernel(body), block=32)
    hazard = only(result, "divergent barrier")
    assert "line 4" in hazard.message and "line 6" in hazard.message


def test_a_shuffle_whose_mask_names_a_lane_that_does_not_come():
    body = """
  if (threadIdx.x < 16) y_ptr[threadIdx.x] = __shfl_sync(0xffffffff, x_ptr[threadIdx.x], 0);
  else __syncwarp(0xffff0000);
  __syncwarp();
"""
    hazard = only(run(kernel(body), block=32)[0], "divergent barrier")
    assert "no thread can go on" in hazard.message


def test_a_lane_that_is_not_in_its_own_mask():
    body = "  y_ptr[threadIdx.x] = __shfl_sync(0xffff, x_ptr[threadIdx.x], 0);"
    result, _ = run(kernel(body), block=32)
    assert {h.kind for h in result.hazards} == {"divergent barrier"}
    assert any("not in the mask" in h.message for h in result.hazards)


def test_a_grid_barrier_needs_a_cooperative_launch():
    body = """
  x_ptr[blockIdx.x * 32 + threadIdx.x] += 1.0f;
  cooperative_groups::this_grid().sync();
  y_ptr[blockIdx.x * 32 + threadIdx.x] = x_ptr[63 - (blockIdx.x * 32 + threadIdx.x)];
"""
    source = kernel(body, helpers="#include <cooperative_groups.h>")
    assert "not cooperative" in only(run(source, grid=2, block=32)[0], "deadlock").message
    for seed in ORDERS:
        result, y = run(source, grid=2, block=32, cooperative=True, seed=seed)
        assert result.ok, result
        np.testing.assert_array_equal(y, np.arange(64)[::-1] + 1)
    missing = source.replace("cooperative_groups::this_grid().sync();", "__syncthreads();")
    assert {h.kind for h in run(missing, grid=2, block=32, cooperative=True)[0].hazards} == {"race"}


def test_a_wait_that_nobody_ends_is_a_deadlock():
    body = "  while (atomicAdd((int*)y_ptr, 0) == 0) {}"
    assert "without progress" in only(run(kernel(body), block=1)[0], "deadlock").message


def test_a_wait_that_another_thread_ends_is_none():
    body = """
  if (threadIdx.x == 0) while (atomicAdd((int*)y_ptr, 0) == 0) {}
  if (threadIdx.x == 1) atomicExch((int*)y_ptr, 1);
"""
    result, _ = run(kernel(body), block=2)
    assert result.ok, result


def test_a_deep_local_array_overflows_the_stack_with_advice():
    body = """
  volatile float big[1 << 18];
  for (int i = (1 << 18) - 1; i >= 0; --i) big[i] = i;
  y_ptr[threadIdx.x] = big[threadIdx.x];
"""
    assert "stack_bytes" in only(run(kernel(body), block=2)[0], "stack overflow").message


def test_a_division_by_zero_is_no_fault_as_on_a_gpu():
    body = "  y_ptr[threadIdx.x] = 7 / (int)(x_ptr[threadIdx.x]);"
    assert run(kernel(body), block=2)[0].ok


def test_without_checks_stray_writes_still_show():
    result, _ = run(kernel("  y_ptr[64 + threadIdx.x] = 1.0f;"), check=False)
    assert only(result, "out-of-bounds write").where == "y_ptr"
    assert result.instructions == 0


SPLIT_BARRIER = """
  namespace cg = cooperative_groups;
  __shared__ float s_ptr[32];
  auto cluster = cg::this_cluster();
  {before}
  cluster.barrier_arrive();
  {between}
  cluster.barrier_wait();
  y_ptr[blockIdx.x * 32 + threadIdx.x] = *cluster.map_shared_rank(s_ptr + threadIdx.x, {rank});
  cluster.sync();
"""


@pytest.mark.parametrize("seed", ORDERS)
def test_a_cluster_barrier_orders_what_came_before_the_arrival(seed):
    def launch(before, between):
        body = SPLIT_BARRIER.replace("{before}", before).replace("{between}", between)
        source = kernel(body.replace("{rank}", "cluster.block_rank() ^ 1"))
        return run(source, grid=2, block=32, cluster=2, seed=seed)

    store = "s_ptr[threadIdx.x] = x_ptr[blockIdx.x * 32 + threadIdx.x];"
    result, y = launch(store, "")
    assert result.ok, result
    assert result.barriers == 2 * 2  # each block counts the two
    np.testing.assert_array_equal(y, np.arange(64) ^ 32)
    result, _ = launch("", store)
    assert result.hazards and {h.kind for h in result.hazards} <= {"race", "uninitialised read"}
    assert "race" in {h.kind for h in result.hazards}


def test_a_cluster_needs_a_cluster_launch():
    body = SPLIT_BARRIER.replace("{before}", "s_ptr[threadIdx.x] = 1.0f;").replace("{between}", "")
    result, y = run(kernel(body.replace("{rank}", "0")), grid=2, block=32)
    assert result.ok and (y == 1).all()  # clusters of one block


def test_a_line_in_a_helper_comes_with_the_line_that_called_it():
    helper = "__device__ __forceinline__ void put(float* at, float v) { *at = v; }"
    source = kernel("  put(y_ptr + 64 + threadIdx.x, 1.0f);", helpers=helper)
    hazard = only(run(source, block=1)[0], "out-of-bounds write")
    assert (hazard.line, hazard.called_from) == (1, 3)
    assert "line 1, called from line 3" in str(hazard)
