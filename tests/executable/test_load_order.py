"""Machine code in which kernels that wait first would load before, and what is done about it."""

import shutil
import struct
import subprocess

import pytest
import tvm
from check import H200, TOGETHER
from driver import compiled_by
from products import attention
from tensor_products import linear
from zoo import layer_norm, softmax

import tvm_stitch
from tvm_stitch import Options, StitchError
from tvm_stitch.build import launch_passes
from tvm_stitch.cache.once import made_of
from tvm_stitch.cache.store import Store
from tvm_stitch.executable import cuda, load_order
from tvm_stitch.executable.load_order import early, waiting
from tvm_stitch.simt.lowering import cuda_source
from tvm_stitch.simt.source import kernel_names
from tvm_stitch.target import full_target

NVCC = shutil.which("nvcc")
has_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path")

WAIT, LOAD, LOAD_WIDE, ADD, BRANCH, EXIT = 0x82E, 0x981, 0x97E, 0x210, 0x947, 0x94D
SOURCE = """
__forceinline__ __device__ void tvm_builtin_ptx_griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
extern "C" __global__ void __launch_bounds__(64) scaled(float* __restrict__ to, float* from);
extern "C" __global__ void __launch_bounds__(64) scaled(float* __restrict__ to, float* from) {
  extern __shared__ __align__(64) unsigned char buf_dyn_shmem[];
  tvm_builtin_ptx_griddepcontrol_wait();
  to[threadIdx.x] = from[threadIdx.x];
}
"""
# Loads are moved in the second alone.
WAITING_LATE = """
__device__ void wait(float* weights) {
  if (threadIdx.x < 32) asm volatile("prefetch.global.L2 [%0];" :: "l"(weights + 32));
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
extern "C" __global__ void plain(float* to, float* from, float* weights) {
  wait(weights);
  to[threadIdx.x] = from[threadIdx.x] * weights[threadIdx.x];
}
extern "C" __global__ void restricted(
    float* __restrict__ to, float* __restrict__ from, float* __restrict__ weights) {
  wait(weights);
  to[threadIdx.x] = from[threadIdx.x] * weights[threadIdx.x];
}
extern "C" __global__ void loading(float* to, float* from) {
  float found = from[threadIdx.x];
  wait(from);
  to[threadIdx.x] = found;
}
"""


def cubin(**kernels: list[int]) -> bytes:
    """As much of a cubin as is read, of kernels with these instructions."""
    texts = [
        b"".join(struct.pack("<QQ", 0xABC000 | each, 1) for each in k) for k in kernels.values()
    ]
    titles = b"\0.names\0" + b"".join(b".text.%s\0" % name.encode() for name in kernels)
    names = [0, 1, *(titles.index(b".text.%s\0" % name.encode()) for name in kernels)]
    heads, body, at = [], b"", 64
    for name, part in zip(names, [b"", titles, *texts], strict=True):
        heads.append(
            struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at + len(body), len(part), 0, 0, 0, 0)
        )
        body += part
    elf = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<Q", elf, 0x28, at + len(body))
    struct.pack_into("<HHH", elf, 0x3A, 64, len(heads), 1)
    return bytes(elf) + body + b"".join(heads)


def fatbin(*entries: tuple[int, bytes]) -> bytes:
    """Code for several GPUs, each with its kind."""
    parts = [
        struct.pack("<HHIQ", kind, 257, 64, len(e)).ljust(64, b"\0") + e for kind, e in entries
    ]
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, parts))) + b"".join(parts)


ORDERED = cubin(scaled=[ADD, WAIT, LOAD, BRANCH, EXIT])
MOVED = cubin(scaled=[ADD, LOAD, WAIT, EXIT])


@pytest.mark.parametrize(
    "before, is_early",
    [([], False), ([ADD] * 9, False), ([LOAD], True), ([ADD, LOAD_WIDE], True), ([BRANCH], True)]
    + [([each], True) for each in (0x381, 0x980, 0xFAE, 0x3A9, 0x98E, 0x986, 0x5B4, 0x3BA)],
)
def test_what_may_stand_before_a_wait(before, is_early):
    code = cubin(other=[LOAD, EXIT], scaled=[*before, WAIT, LOAD, EXIT])
    assert early(code, ["scaled"]) == (["scaled"] if is_early else [])


def test_code_for_several_gpus_is_in_order_where_all_is():
    assert early(fatbin((2, ORDERED), (2, ORDERED)), ["scaled"]) == []
    assert early(fatbin((2, ORDERED), (2, MOVED)), ["scaled"]) == ["scaled"]


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b".version 9.0\n.target sm_90a\n",
        b"\x7fELF\x01\x01" + ORDERED[6:],
        ORDERED[:100],
        cubin(other=[WAIT, EXIT]),
        cubin(scaled=[ADD, EXIT]),
        fatbin(),
        fatbin((1, b"PTX")),
        fatbin((2, ORDERED), (1, b"PTX")),
        fatbin((2, b"(\xb5/\xfdcompressed")),
        fatbin((2, ORDERED))[:-100],
    ],
)
def test_what_nobody_knows(code):
    assert early(code, ["scaled"]) is None


def test_kernels_that_wait_elsewhere_are_their_authors():
    assert waiting(SOURCE) == ["scaled"]
    assert waiting(SOURCE.replace("  extern __shared__", "  int n = from[0];\n  extern")) == []
    assert waiting(SOURCE.replace("  tvm_builtin", "  if (to) tvm_builtin")) == []
    assert waiting(WAITING_LATE) == []


@pytest.fixture
def compiler(monkeypatch):
    """One that loads too early by restricted pointers; the list of what it was asked to compile."""
    asked = []

    def compile(code: str) -> bytes:
        asked.append(code)
        return MOVED if "__restrict__" in code else ORDERED

    monkeypatch.setattr(cuda, "_TVM", compile)
    return asked


def test_loads_that_were_moved_are_compiled_again(compiler):
    assert cuda.compiled(SOURCE) == ORDERED
    assert compiler == [SOURCE, SOURCE.replace("__restrict__", "")]


def test_whoever_compiles(compiler, monkeypatch):
    monkeypatch.setattr(cuda, "_by", lambda _processes, code: cuda._TVM(code))
    with cuda.compiling(None, cuda.Processes()):
        assert cuda.compiled(SOURCE) == ORDERED
    assert len(compiler) == 2


def test_others_are_not(compiler, monkeypatch):
    monkeypatch.setattr(cuda, "_TVM", lambda code: compiler.append(code) or ORDERED)
    assert cuda.compiled(SOURCE) == ORDERED
    monkeypatch.setattr(cuda, "_TVM", lambda code: compiler.append(code) or MOVED)
    assert cuda.compiled(WAITING_LATE) == MOVED
    assert len(compiler) == 2


def test_where_nobody_knows_nothing_is_restricted(monkeypatch):
    monkeypatch.setattr(cuda, "_TVM", str.encode)
    assert cuda.compiled(SOURCE) == SOURCE.replace("__restrict__", "").encode()


def test_a_compiler_that_moves_all_loads_is_refused(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(cuda, "_TVM", lambda code: asked.append(code) or MOVED)
    with full_target(H200), cuda.compiling(Store(tmp_path)):
        for _ in range(2):  # none of it is kept
            with pytest.raises(StitchError, match="has scaled access memory before it waits"):
                cuda.compiled(SOURCE)
    assert len(asked) == 4


@pytest.mark.skipif(
    tvm.get_global_func(cuda.CREATE, allow_missing=True) is not None, reason="has a CUDA driver"
)
def test_the_refusal_reaches_the_user(monkeypatch):
    with compiled_by(lambda _code: b"binary"), monkeypatch.context() as patched:
        patched.setattr(load_order, "early", lambda _code, kernels: kernels)
        with pytest.raises(StitchError, match=r"Options\(dependent_launch=False\)"):
            tvm_stitch.compile(softmax("float32", 6, 64).module, H200)
        tvm_stitch.compile(softmax("float32", 6, 64).module, H200, Options(dependent_launch=False))


def test_what_was_checked_is_kept_as_long_as_checks_are_the_same(compiler, monkeypatch, tmp_path):
    with full_target(H200), cuda.compiling(Store(tmp_path)):
        assert [cuda.compiled(SOURCE) for _ in range(2)] == [ORDERED] * 2
        assert len(compiler) == 2
        monkeypatch.setattr(load_order, "VERSION", "of before")
        assert cuda.compiled(SOURCE) == ORDERED
    assert len(compiler) == 4


def test_what_a_compiler_of_the_users_makes_is_launched_as_ever():
    ours, target = tvm.get_global_func(cuda.CALLBACK), full_target(H200)
    assert launch_passes(target) and not launch_passes(target, Options(dependent_launch=False))
    kept_as = made_of(target, Options(), None)
    tvm.register_global_func(cuda.CALLBACK, lambda code: b"theirs", override=True)
    try:
        assert not launch_passes(target)
        assert made_of(target, Options(), None) != kept_as
    finally:
        tvm.register_global_func(cuda.CALLBACK, ours, override=True)


def by_nvcc(folder, source: str, *options: str) -> bytes:
    """What nvcc makes of a source."""
    made = folder / "made"
    (folder / "kernels.cu").write_text(source, encoding="utf-8")
    command = [NVCC, "-w", *options, str(folder / "kernels.cu"), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made.read_bytes()


@has_nvcc
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_ptxas_moves_loads_by_restricted_pointers(arch, tmp_path):
    release = subprocess.run([NVCC, "--version"], capture_output=True, text=True).stdout
    if "release 13.0" not in release:
        pytest.skip("other releases may do otherwise")
    code = by_nvcc(tmp_path, WAITING_LATE, "-cubin", f"-arch={arch}")
    assert early(code, ["plain"]) == []
    assert early(code, ["plain", "restricted", "loading"]) == ["loading", "restricted"]


@has_nvcc
def test_forms_that_nvcc_has(tmp_path):
    for_gpu, for_driver = "arch=compute_90a,code=sm_90a", "arch=compute_90a,code=compute_90a"
    fatbin = by_nvcc(tmp_path, SOURCE, "-fatbin", "-gencode", for_gpu)
    assert early(fatbin, waiting(SOURCE)) in ([], None)  # older releases compress it
    both = by_nvcc(tmp_path, SOURCE, "-fatbin", "-gencode", for_gpu, "-gencode", for_driver)
    assert early(both, waiting(SOURCE)) is None
    assert early(by_nvcc(tmp_path, SOURCE, "-ptx", "-arch=sm_90a"), waiting(SOURCE)) is None


@has_nvcc
@pytest.mark.parametrize(
    "case, options",
    [
        (softmax("float32", 6, 1000), TOGETHER),
        (layer_norm("bfloat16", 500, 65536), TOGETHER),
        (attention("float32", 2, 2, 32, 16), TOGETHER),
        (linear("float16", 1024, 1024, 1024), TOGETHER),
        (softmax("float32", 6, 1000), Options(schemes=())),
    ],
)
def test_kernels_are_in_order(case, options, tmp_path):
    source = cuda_source(tvm_stitch.compile(case.module, full_target(H200), options))
    kernels = waiting(source)
    assert kernels == list(kernel_names(source)) != []
    assert early(by_nvcc(tmp_path, source, "-cubin", "-arch=sm_90a"), kernels) == []
