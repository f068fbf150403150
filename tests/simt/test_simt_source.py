"""What CUDA source becomes: declarations, shared memory, inline assembly."""

import numpy as np
import pytest

from tvm_stitch import InputError, SimtError, simt
from tvm_stitch.simt.ptx import translate
from tvm_stitch.simt.source import read_kernel

TWO = """#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(32) a_kernel(float* __restrict__ x_ptr);
extern "C" __global__ void __launch_bounds__(32) a_kernel(float* __restrict__ x_ptr) {
  x_ptr[threadIdx.x] = 1.0f; // a comment with { and __shared__ and asm
}
extern "C" __global__ void __maxnreg__(64) __launch_bounds__(32, 2)
    b_kernel(const half* __restrict__ x_ptr, int64_t n, unsigned long long m, float* y) {
  __shared__ alignas(64) float s_ptr[8], t_ptr[2][3];
  volatile __shared__ int one;
  extern __shared__ __align__(16) unsigned char dyn[];
  y[0] = s_ptr[0];
}
"""


def test_parameters_are_read_without_qualifiers():
    b = read_kernel(TWO, "b_kernel")
    assert [(p.name, p.type, p.pointer) for p in b.parameters] == [
        ("x_ptr", "half", True),
        ("n", "int64_t", False),
        ("m", "unsigned long long", False),
        ("y", "float", True),
    ]
    assert b.shared_arrays == ("s_ptr", "t_ptr", "one")


def test_every_line_stays_where_it_was():
    b = read_kernel(TWO, "b")
    lines = b.cpp.splitlines()
    assert lines[0] == '#line 1 "kernel.cu"'
    number = next(i for i, line in enumerate(lines) if "simt_slot_of<0, float[8]>" in line)
    assert b.line(number) == "__shared__ alignas(64) float s_ptr[8], t_ptr[2][3];"
    assert "a_kernel" not in b.cpp  # only the kernel asked for is compiled


def test_kernels_are_found_by_name():
    assert simt.kernel_names(TWO) == ("a_kernel", "b_kernel")
    with pytest.raises(InputError, match="has 2 kernels"):
        read_kernel(TWO)
    with pytest.raises(InputError, match=r"no kernel 'c'.*a_kernel, b_kernel"):
        read_kernel(TWO, "c")
    with pytest.raises(InputError, match="no __global__"):
        read_kernel("int main() {}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("#include <mma.h>\nextern \"C\" __global__ void k(float* x) {}", "tensor cores"),
        ("#include <cuda_fp8.h>\nextern \"C\" __global__ void k(float* x) {}", "8-bit floats"),
        ("__shared__ float s[4];\n__global__ void k(float* x) {}", "line 1.*outside of a function"),
        ("__global__ void k(float* x) {", "never closed"),
        ("__global__ void k(float** x) {}", r"cannot read the parameter 'float\*\* x'"),
        (
            '__global__ void k(float* x) {\n  asm volatile("tcgen05.fence::after;");\n}',
            "line 2.*tcgen05.fence",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_by_name(source, message):
    with pytest.raises((SimtError, InputError), match=message):
        read_kernel(source)


def test_a_compile_error_names_the_line_of_the_source():
    with pytest.raises(SimtError, match=r"kernel.cu:2:.*undeclared_name"):
        simt.load('extern "C" __global__ void k(float* x) {\n  x[0] = undeclared_name;\n}')


@pytest.mark.parametrize(
    ("assembly", "cpp"),
    [
        ('"mapa.u64 %0, %1, %2;" : "=l"(d) : "l"(a), "r"(b)', "simt_map_shared"),
        ('"barrier.cluster.arrive.aligned;"', "{ simt_cluster_arrive(); }"),
        ('"barrier.cluster.wait.acquire.aligned;" ::: "memory"', "{ simt_cluster_wait(); }"),
        ('"griddepcontrol.wait;" ::: "memory"', "{ ; }"),
        ('"griddepcontrol.launch_dependents;"', "{ ; }"),
        ('"mov.u32 %0, %%cluster_ctarank;" : "=r"(r) :', "SIMT_CLUSTER_RANK"),
        ('"mov.u32 %0, %laneid;" : "=r"(r)', "SIMT_LANE"),
        ('"cp.async.cg.shared.global [%0], [%1], %2;" :: "r"(d), "l"(s), "n"(16)',
         "simt_async_copy(simt_shared_address((d)), simt_generic((s)), (16), (16));"),
        ('"cp.async.commit_group;"', "simt_async_commit();"),
        ('"cp.async.wait_group 1;"', "simt_async_wait(1);"),
        ('"" : "+r"(reg) :: "memory"', "{  }"),
    ],
)  # fmt: skip
def test_instructions(assembly, cpp):
    assert cpp in translate(assembly, 1)


def run_ptx(body, n=32, parameters="unsigned* x, unsigned* y", block=32):
    source = f'extern "C" __global__ void k({parameters}) {{\n  int t = threadIdx.x;\n{body}\n}}'
    x, y = np.arange(n, dtype="uint32"), np.zeros(n, "uint32")
    run = simt.run(source, arrays=[x, y], grid=1, block=block)
    return run, x, y


def test_asynchronous_copies_land_at_the_wait():
    body = """
  __shared__ alignas(16) unsigned s[128];
  unsigned to = __cvta_generic_to_shared(s + 4 * t);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(x + 4 * t), "n"(16));
  asm volatile("cp.async.commit_group;");
  {wait}
  __syncwarp();
  y[t] = s[127 - t];
"""
    run, _, y = run_ptx(body.replace("{wait}", 'asm volatile("cp.async.wait_group 0;");'), 128)
    assert run.ok, run
    np.testing.assert_array_equal(y[:32], 127 - np.arange(32))
    run, _, _ = run_ptx(body.replace("{wait}", ""), 128)
    assert {h.kind for h in run.hazards} == {"uninitialised read"}


PARTIAL_COPY = """
  __shared__ alignas(16) unsigned s[128];
  for (int i = 0; i < 4; ++i) s[4 * t + i] = 99;
  unsigned to = __cvta_generic_to_shared(s + 4 * t);
  int left = 70 - 4 * t, valid = left <= 0 ? 0 : left >= 4 ? 16 : 4 * left;
  COPY
  asm volatile("cp.async.wait_all;");
  for (int i = 0; i < 4; ++i) y[4 * t + i] = s[4 * t + i];
"""
HINTED = "cp.async.cg.shared::cta.global.L2::cache_hint"
COPIES = {
    "of so many bytes": 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"'
    ' :: "r"(to), "l"(x + 4 * t), "r"(valid) : "memory");',
    "with a hint": f'asm volatile("{HINTED} [%0], [%1], 16, %2, %3;"'
    ' :: "r"(to), "l"(x + 4 * t), "r"(valid), "l"(1ull) : "memory");',
    "ignored": 'asm volatile("{ .reg .pred ps0; setp.ne.b32 ps0, %2, 0; '
    'cp.async.cg.shared.global [%0], [%1], 16, ps0; }"'
    ' :: "r"(to), "l"(x + 4 * t), "r"(valid != 16) : "memory");',
}


def run_partial_copy(copy, elements=70):
    source = (
        'extern "C" __global__ void k(const unsigned* x, unsigned* y) {\n  int t = threadIdx.x;\n'
        + PARTIAL_COPY.replace("COPY", copy)
        + "}"
    )
    x, y = np.arange(1, elements + 1, dtype="uint32"), np.zeros(128, "uint32")
    return simt.run(source, arrays=[x, y], grid=1, block=32, seed=1), x, y


@pytest.mark.parametrize("way", COPIES)
def test_what_a_copy_lacks_is_zeros_and_is_not_read(way):
    """The source ends within the copy of thread 17, and the threads after it have none."""
    run, x, y = run_partial_copy(COPIES[way])
    assert run.ok, run
    valid = 68 if way == "ignored" else 70
    np.testing.assert_array_equal(y, np.pad(x[:valid], (0, 128 - valid)))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (("valid)", "16)"), "out-of-bounds read"),
        (("valid)", "valid - 16)"), "fault"),
        (('"r"(to)', '"r"(to + 4)'), "misaligned access"),
        (("x + 4 * t", "x + 1"), "misaligned access"),
    ],
    ids=["all bytes", "a negative count", "to an odd place", "from an odd place"],
)
def test_a_bad_copy_is_found(change, kind):
    run, _, _ = run_partial_copy(COPIES["of so many bytes"].replace(*change))
    assert {h.kind for h in run.hazards} == {kind}, run
    assert all("cp.async" in h.source for h in run.hazards)


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_issued_while_others_still_read_is_a_race(seed):
    """Though there is a barrier before it lands."""
    source = """
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
  __shared__ alignas(16) unsigned s[256];
  int t = threadIdx.x;
  unsigned to = __cvta_generic_to_shared(s + 4 * t);
  for (int i = 0; i < 4; ++i) s[4 * t + i] = t;
  __syncthreads();
  y[t] = s[255 - t];
  BARRIER
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + 4 * t));
  __syncthreads();
  asm volatile("cp.async.wait_all;");
  y[64 + t] = s[4 * t];
}
"""
    x, y = np.arange(256, dtype="uint32"), np.zeros(128, "uint32")
    met = source.replace("BARRIER", "__syncthreads();")
    assert simt.run(met, arrays=[x, y], grid=1, block=64, seed=seed).ok
    apart = source.replace("BARRIER", "")
    run = simt.run(apart, arrays=[x, y], grid=1, block=64, seed=seed)
    assert {h.kind for h in run.hazards} == {"race"}, run


def test_a_predicated_copy_as_tvm_writes_it():
    body = r"""
  __shared__ alignas(16) unsigned s[32];
  unsigned int dst_addr = __cvta_generic_to_shared(s + t);
  int predicate = t % 2;
  __asm__ __volatile__(
    "{\n"
    " .reg .pred p;\n"
    " setp.eq.u32 p, %3, 1;\n"
    " @p cp.async.ca.shared.global [%0], [%1], %2;\n"
    " @!p st.shared.u32 [%0], {%4};\n"
    "}\n"
    :: "r"(dst_addr), "l"(x + t), "n"(4), "r"(predicate), "r"(0)
  );
  asm volatile("cp.async.wait_all;");
  y[t] = s[t];
"""
    run, x, y = run_ptx(body)
    assert run.ok, run
    np.testing.assert_array_equal(y, np.where(x % 2, x, 0))


def test_loads_stores_and_arithmetic():
    body = r"""
  unsigned a, b, c, d;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
    : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(x + 4 * (t / 4)));
  asm volatile("add.u32 %0, %0, %1;" : "+r"(a) : "r"(d));
  asm volatile("st.global.u32 [%0], %1;" :: "l"(y + t), "r"(a) : "memory");
"""
    run, _, y = run_ptx(body)
    assert run.ok, run
    np.testing.assert_array_equal(y, np.arange(32) // 4 * 8 + 3)
    assert run.instructions == 2 * 32


def test_an_unsupported_instruction_says_where_to_add_it():
    with pytest.raises(SimtError, match=r"line 7.*tcgen05\.alloc.*ptx\.py"):
        translate('"tcgen05.alloc.cta_group::1.b32 [%0], %1;" :: "r"(a), "r"(b)', 7)
