"""The public surface: arguments, errors, caching, determinism, the portable fallback."""

import gc
import shutil
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tvm_stitch import CompilerMissing, InputError, simt
from tvm_stitch.cache.store import CacheWarning
from tvm_stitch.simt import build
from tvm_stitch.simt.launch import Kernel, Launch, _load
from tvm_stitch.simt.source import read_kernel

SCALE = """
extern "C" __global__ void scale_kernel(float* x_ptr, float* y_ptr, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y_ptr[i] = x_ptr[i] * factor;
}
"""


def arrays(n=100):
    return {"x": np.arange(n, dtype="float32"), "y": np.zeros(n, "float32"), "factor": 2, "n": n}


def test_by_name_by_pointer_name_and_in_order():
    a = arrays()
    for given in (a, {"x_ptr": a["x"], "y_ptr": a["y"], "factor": 2.0, "n": 100}, [*a.values()]):
        a["y"][:] = 0
        run = simt.run(SCALE, "scale", given, grid=4, block=32)
        assert run.ok and "no hazards" in str(run)
        np.testing.assert_array_equal(a["y"], a["x"] * 2)


def test_views_are_written_in_place():
    big = np.zeros((100, 2), "float32")
    given = {**arrays(), "y": big[:, 1]}
    assert simt.run(SCALE, arrays=given, grid=4, block=32).ok
    np.testing.assert_array_equal(big[:, 1], np.arange(100) * 2)
    assert not big[:, 0].any()


def test_one_array_for_two_parameters_is_one_array():
    x = np.arange(100, dtype="float32")
    assert simt.run(SCALE, arrays={**arrays(), "x": x, "y": x}, grid=4, block=32).ok
    np.testing.assert_array_equal(x, np.arange(100) * 2)


def test_a_kernel_is_compiled_once_and_launched_often():
    kernel = simt.load(SCALE)
    for n in (7, 64, 100):
        given = arrays(n)
        assert kernel.launch(given, Launch.of(4, 32)).ok
        np.testing.assert_array_equal(given["y"], given["x"] * 2)


def test_an_object_that_nothing_holds_is_unmapped():
    """A process that runs thousands of kernels would meet the limit of its mappings."""
    kernel = simt.load(SCALE)
    assert kernel.launch(arrays(), Launch.of(4, 32)).ok
    mapped = str(kernel.library.resolve())
    assert mapped in Path("/proc/self/maps").read_text()
    _load.cache_clear()
    gc.collect()
    assert mapped not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros(100, "float64")}, r"x_ptr is float\*.*float64.*astype"),
        ({"x": 3.0}, "pass a NumPy array, not float"),
        ({"n": np.zeros(3, "int32")}, "n is a scalar"),
        ({"n": 2.5}, "n is int, not 2.5"),
        ({"z": 1}, "no parameter 'z'"),
        ({"x": ...}, "NumPy array"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        simt.run(SCALE, arrays={**arrays(), **change}, grid=4, block=32)


def test_missing_arguments_are_named():
    given = arrays()
    del given["factor"]
    with pytest.raises(InputError, match="needs 'factor'"):
        simt.run(SCALE, arrays=given, grid=4, block=32)
    with pytest.raises(InputError, match="takes 4 arguments"):
        simt.run(SCALE, arrays=[given["x"]], grid=4, block=32)


def test_overlapping_arrays_are_refused():
    memory = np.zeros(150, "float32")
    with pytest.raises(InputError, match="overlap"):
        simt.run(SCALE, arrays={**arrays(), "x": memory[:100], "y": memory[50:]}, grid=4, block=32)


def test_a_read_only_array_may_be_read_but_not_written():
    x = np.arange(100, dtype="float32")
    x.flags.writeable = False
    assert simt.run(SCALE, arrays={**arrays(), "x": x}, grid=4, block=32).ok
    with pytest.raises(InputError, match="read-only"):
        simt.run(SCALE, arrays={**arrays(), "y": x}, grid=4, block=32)


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ({"grid": 1, "block": 2048}, "2048 threads"),
        ({"grid": 0, "block": 32}, "grid is 0"),
        ({"grid": 6, "block": 32, "cluster": 4}, "no multiple of the cluster"),
        ({"grid": 32, "block": 32, "cluster": 32}, "cluster of 32"),
        ({"grid": 1 << 23, "block": 32}, "the CPU executor takes"),
        ({"block": 32}, "pass grid and block"),
    ],
)
def test_launches_no_gpu_would_take_are_refused(launch, message):
    with pytest.raises(InputError, match=message):
        simt.run(SCALE, arrays=arrays(), **launch)


SUM = """
extern "C" __global__ void sum_kernel(float* x, float* y) {
  __shared__ float s[4];
  float v = x[blockIdx.x * 128 + threadIdx.x];
  for (int m = 16; m; m /= 2) v += __shfl_xor_sync(0xffffffff, v, m, 32);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}
"""


def sums(seed, kernel=None, block=128):
    x = np.random.default_rng(0).standard_normal(16 * 128).astype("float32")
    y = np.zeros(16, "float32")
    run = (kernel or simt.load(SUM)).launch([x, y], Launch.of(16, block), seed)
    return run, y


def test_runs_are_deterministic_and_count_the_same_for_every_order():
    runs = [sums(seed) for seed in (0, 1, 1, 2)]
    assert all(run.ok for run, _ in runs)
    assert len({run.instructions for run, _ in runs}) == 1
    assert runs[1][0].switches == runs[2][0].switches
    # A float for each thread, and one result for each block, which meets once.
    assert {run.global_bytes for run, _ in runs} == {4 * 16 * (128 + 1)}
    assert {run.barriers for run, _ in runs} == {16}
    for _, y in runs[1:]:
        np.testing.assert_array_equal(y, runs[0][1])


ORDER = """
extern "C" __global__ void order_kernel(int* next, int* seen) {
  seen[atomicAdd(next, 1)] = blockIdx.x * 1000 + threadIdx.x;
}
"""


def test_the_seed_draws_the_order_of_blocks_and_threads():
    def order(seed):
        seen = np.zeros(4 * 64, "int32")
        simt.run(ORDER, arrays=[np.zeros(1, "int32"), seen], grid=4, block=64, seed=seed)
        return seen.tolist()

    natural = [b * 1000 + t for b in range(4) for t in range(64)]
    assert order(0) == natural
    assert order(1) == order(1) != natural
    assert sorted(order(1)) == natural and order(2) != order(1)


@pytest.mark.slow
def test_the_portable_switch_gives_the_same():
    source = read_kernel(SUM)
    portable = Kernel(source, build.build_kernel(source.cpp, ucontext=True), True)
    for seed in (0, 3):
        run, y = sums(seed, portable)
        expected, z = sums(seed)
        assert run.ok and run.instructions == expected.instructions
        np.testing.assert_array_equal(y, z)


def test_many_kernels_at_once():
    sources = [SUM, (SCALE, "scale"), ORDER]
    names = [kernel.name for kernel in simt.compile_many(sources, jobs=2)]
    assert names == ["sum_kernel", "scale_kernel", "order_kernel"]


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache folder that holds the runtime, which takes seconds, and no kernel."""
    (tmp_path / "executor").mkdir()
    shutil.copy(build.build_runtime(), tmp_path / "executor")
    monkeypatch.setenv("TVM_STITCH_CACHE", str(tmp_path))
    return tmp_path


def test_objects_are_kept_where_the_environment_says(empty_cache):
    first = simt.load(SCALE)
    made = first.library.stat().st_ino
    assert first.library.parent == empty_cache / "executor"
    assert simt.load(SCALE).library.stat().st_ino == made
    assert simt.load(SCALE, check=False).library != first.library


def test_builds_of_one_kernel_at_once_do_not_disturb_each_other(empty_cache):
    kernels = simt.compile_many([SUM] * 4, jobs=4)
    assert len({kernel.library for kernel in kernels}) == 1
    assert sums(0, kernels[-1])[0].ok
    left = [path for path in empty_cache.glob("executor/**/*") if path.is_file()]
    assert sorted(path.suffix for path in left) == [".gch", ".so", ".so"], left


def test_a_damaged_object_is_built_anew(empty_cache):
    first = simt.load(SCALE).library
    whole = first.read_bytes()
    first.unlink()  # this process has it loaded
    first.write_bytes(whole[:1000])
    with pytest.warns(CacheWarning, match="damaged"):
        again = simt.load(SCALE)
    assert again.library == first and first.stat().st_size > 1000


def test_a_missing_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("TVM_STITCH_CXX", "no-such-compiler")
    with pytest.raises(CompilerMissing, match="install"):
        simt.load(SCALE + "// not in the cache")
    assert "g++" in simt.available()
    monkeypatch.delenv("TVM_STITCH_CXX")
    assert simt.available() is None


def test_hazards_are_readable():
    source = SCALE.replace("i < n", "i <= n")
    run = simt.run(source, arrays=arrays(), grid=4, block=32, seed=2)
    text = str(run)
    assert "2 hazard(s)" in text and "line 4: if (i <= n) y_ptr[i] = x_ptr[i] * factor;" in text
    assert "x_ptr[100], which has 100 elements" in text


def test_tvm_and_torch_tensors_are_written_in_place():
    torch = pytest.importorskip("torch")

    @T.prim_func(s_tir=True)
    def double(x: T.Buffer((64,), "bfloat16"), y: T.Buffer((64,), "float32")):
        t = T.launch_thread("threadIdx.x", 64)
        y[t] = T.cast(x[t], "float32") * T.float32(2)

    bits = tvm.runtime.empty((64,), "bfloat16")
    simt.as_array(bits)[...] = simt.to_bfloat16(np.arange(64, dtype="float32"))
    function = simt.Function(double)
    for y in (tvm.runtime.tensor(np.zeros(64, "float32")), torch.zeros(64)):
        assert function(bits, y).ok
        np.testing.assert_array_equal(y.numpy(), np.arange(64) * 2)


def test_a_primfunc_that_does_not_lower_is_refused():
    @T.prim_func(s_tir=True)
    def unbound(x: T.Buffer((64,), "float32")):
        for i in T.serial(64):
            with T.sblock("b"):
                vi = T.axis.spatial(64, i)
                x[vi] = T.float32(2)

    with pytest.raises(InputError, match="thread-bound"):
        simt.run(unbound, arrays=[np.zeros(64, "float32")])


def test_a_shape_that_contradicts_the_primfunc():
    @T.prim_func(s_tir=True)
    def half(x: T.Buffer((64, 2), "float32")):
        t = T.launch_thread("threadIdx.x", 64)
        x[t, 0] = x[t, 1] * T.float32(0.5)

    function = simt.Function(half)
    with pytest.raises(InputError, match="extent 64 in dimension 0, its array has 63"):
        function(np.zeros((63, 2), "float32"))
    with pytest.raises(InputError, match="2 dimensions"):
        function(np.zeros(128, "float32"))
    with pytest.raises(InputError, match="takes 1 arguments"):
        function()
    with pytest.raises(InputError, match="follows from it"):
        simt.run(half, arrays=[np.zeros((64, 2), "float32")], grid=1, block=64)


def test_a_larger_stack_on_request():
    source = """
extern "C" __global__ void k(float* y) {
  volatile float big[1 << 18];
  for (int i = (1 << 18) - 1; i >= 0; --i) big[i] = i;
  y[threadIdx.x] = big[1000 + threadIdx.x];
}
"""
    y = np.zeros(2, "float32")
    run = simt.run(source, arrays=[y], grid=1, block=2, stack_bytes=2 << 20)
    assert run.ok and y.tolist() == [1000, 1001], run


@pytest.mark.parametrize("checked", (True, False))
@pytest.mark.parametrize(
    "kind, dtype",
    [("int", "int32"), ("long long", "int64"), ("unsigned", "uint32"), ("signed char", "int8")],
)
def test_division_by_zero_does_not_trap(kind, dtype, checked):
    """CUDA promises no result, but that there is one."""
    source = f"""extern "C" __global__ void k({kind}* a, {kind}* b, {kind}* q, {kind}* r) {{
      q[threadIdx.x] = a[threadIdx.x] / b[threadIdx.x];
      r[threadIdx.x] = a[threadIdx.x] % b[threadIdx.x];
    }}"""
    least = np.iinfo(dtype).min
    a = np.array([7, least, 100, 0], dtype)
    b = np.array([0, -1 if least else 1, 7, 0], dtype)
    quotient, rest = np.zeros(4, dtype), np.zeros(4, dtype)
    run = simt.run(source, arrays=[a, b, quotient, rest], grid=1, block=4, check=checked)
    assert run.ok and rest.tolist() == [7, 0, 2, 0]
    assert quotient[1:3].tolist() == [least, 14]


def test_a_kernel_that_asks_for_nothing():
    source = 'extern "C" __global__ void k(float* y) { y[0] = 2.0f; }'
    y = np.zeros(1, "float32")
    assert simt.run(source, arrays=[y], grid=1, block=1, check=False).ok and y[0] == 2
