"""Instructions of four warps on matrices in shared memory (wgmma) against NumPy."""

import numpy as np
import pytest
from halves import DTYPES, ORDERS, random_halves

from tvm_stitch import SimtError, simt
from tvm_stitch.simt.ptx import translate

DEPTH, GROUP = 64, 128
SWIZZLE_128, SWIZZLE_64 = 1, 2


def wgmma(kind, columns, keep="keep", turn_a=0, turn_b=0, scale="1, 1"):
    """The asm statement on the array `d`, with descriptors in `left` and `right`."""
    count = columns // 2
    sums = ", ".join(f"%{n}" for n in range(count))
    outputs = ", ".join(f'"+f"(d[{n}])' for n in range(count))
    opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind}"
    return (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; {opcode} {{{sums}}}, '
        f'%{count}, %{count + 1}, p, {scale}, {turn_a}, {turn_b}; }}"'
        f' : {outputs} : "l"(left), "l"(right), "r"((int)({keep})));'
    )


# Tiles in lines of 128 bytes, chunks of 16 swizzled: each thread copies elements, one by one.
KERNEL = """
__device__ int place(bool turned, int side, int depth) {
  int line = turned ? side / 64 * DEPTH + depth : side, within = turned ? side % 64 : depth;
  return line * 64 + ((within / 8 ^ line % 8) * 8) + within % 8;
}
__device__ unsigned long long described(const void* at, bool turned) {
  unsigned long long start = __cvta_generic_to_shared(at);
  return start >> 4 | (turned ? 512ull : 1ull) << 16 | 64ull << 32 | MODEull << 62;
}
extern "C" __global__ void k(const unsigned short* a, const unsigned short* b, float* y) {
  extern __shared__ __align__(1024) unsigned short s[];
  int t = threadIdx.x, group = t / 128, rows = blockDim.x / 2;
  unsigned short* z = s + rows * DEPTH;
  for (int i = t; i < rows * DEPTH; i += blockDim.x)
    s[place(TURN_A, i / DEPTH, i % DEPTH)] = a[i];
  for (int i = t; i < PIECES * 64 * DEPTH; i += blockDim.x)
    z[place(TURN_B, i / DEPTH, i % DEPTH)] = i / DEPTH < COLUMNS ? b[i] : 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  BARRIER
  float d[COLUMNS / 2];
  for (int i = 0; i < COLUMNS / 2; ++i) d[i] = 1.0f;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < DEPTH / 16; ++step) {
    unsigned long long left = described(s + group * 64 * 64, TURN_A);
    unsigned long long right = described(z, TURN_B);
    left += step * (TURN_A ? 128 : 2), right += step * (TURN_B ? 128 : 2);
    int keep = KEEP || step > 0;
    WGMMA
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  BETWEEN
  asm volatile("wgmma.wait_group.sync.aligned WAIT;" ::: "memory");
  AFTER
  for (int i = 0; i < COLUMNS / 2; ++i) {
    int row = t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8;
    y[row * COLUMNS + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
  }
}
"""


def kernel(kind="f16", columns=24, turned=(0, 0), keep=0, **changes):
    given = {"BARRIER": "__syncthreads();", "BETWEEN": "", "AFTER": "", "WAIT": 0}
    given |= {"MODE": SWIZZLE_128, "KEEP": keep, "TURN_A": turned[0], "TURN_B": turned[1]}
    given |= {"PIECES": -(-columns // 64), "COLUMNS": columns, "DEPTH": DEPTH} | changes
    source = KERNEL.replace("WGMMA", wgmma(kind, columns, turn_a=turned[0], turn_b=turned[1]))
    for name, value in given.items():
        source = source.replace(name, str(value))
    return source


def launch(source, kind="f16", columns=24, groups=1, seed=0):
    """The run, its result and what that should be, without what the sums began with."""
    rows = 64 * groups
    a, b = random_halves((rows, DEPTH), kind), random_halves((columns, DEPTH), kind, seed=1)
    y = np.zeros((rows, columns), "float32")
    run = simt.run(
        source,
        arrays=[a.view("uint16"), b.view("uint16"), y],
        grid=1,
        block=GROUP * groups,
        shared_bytes=(rows + -(-columns // 64) * 64) * DEPTH * 2,
        seed=seed,
    )
    return run, y, a.astype("float64") @ b.astype("float64").T


@pytest.mark.spread(3)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("columns", "groups"), [(8, 1), (136, 2)])
def test_products_of_tiles(kind, turned, columns, groups):
    """Both factors with neighbours along the depth or along their side; the sums begin anew."""
    source = kernel(kind, columns, turned)
    for seed in ORDERS:
        run, y, expected = launch(source, kind, columns, groups, seed)
        assert run.ok, run
        np.testing.assert_allclose(y, expected, atol=2e-5)


def test_sums_go_on_from_what_they_are():
    run, y, expected = launch(kernel(keep=1))
    assert run.ok, run
    np.testing.assert_allclose(y, expected + 1, atol=2e-5)


def test_sums_are_not_there_before_they_are_waited_for():
    """A wait that leaves one group on its way."""
    run, y, _ = launch(kernel(WAIT=1))
    assert run.ok and np.isnan(y).all()


@pytest.mark.parametrize("seed", ORDERS)
@pytest.mark.parametrize(
    "change",
    [{"BARRIER": ""}, {"AFTER": "z[t] = 0;"}, {"BETWEEN": "__syncthreads(); z[t] = 0;"}],
    ids=["not there yet", "overwritten at once", "overwritten before the wait"],
)
def test_a_missing_barrier_is_a_race(change, seed):
    run, _, _ = launch(kernel(**change), seed=seed)
    races = [hazard for hazard in run.hazards if hazard.kind == "race"]
    assert races and any("wgmma" in h.source + h.other_source for h in races), run


def test_what_is_overwritten_in_good_order_but_before_the_wait_is_read_too_late():
    between = "__syncthreads(); z[t] = 0; __syncthreads();"
    run, y, expected = launch(kernel(BETWEEN=between))
    assert run.ok and np.abs(y - expected).max() > 0.1


def test_another_order_of_chunks_is_refused():
    run, _, _ = launch(kernel(MODE=SWIZZLE_64))
    (hazard,) = run.hazards
    assert hazard.kind == "fault" and "wgmma" in hazard.source


def test_warps_with_different_matrices_are_refused():
    differing = "right += t % 2 * 64; " + wgmma("f16", 24)
    run, _, _ = launch(kernel().replace(wgmma("f16", 24), differing))
    assert any(hazard.kind == "fault" for hazard in run.hazards), run


@pytest.mark.parametrize(
    "statement",
    [
        wgmma("f16", 24, scale="-1, 1"),
        wgmma("f16", 24).replace(".f32.", ".f16."),
        wgmma("e4m3", 24).replace("k16", "k32"),
        wgmma("f16", 24).replace("n24", "n32"),
    ],
)
def test_other_forms_are_refused_by_name(statement):
    body = statement[len("asm volatile(") : -2]
    with pytest.raises(SimtError, match=r"line 3: .*does not know.*wgmma\.mma_async"):
        translate(body, 3)
