"""Warp operations against NumPy, for every variant, width and mask that kernels use."""

import math

import numpy as np
import pytest

from tvm_stitch import simt

LANES = np.arange(32)


def run(expression, dtype="int32", ctype="int", seed=0, threads=32, prelude="", x=None):
    source = (
        f'extern "C" __global__ void k({ctype}* x, {ctype}* y) {{\n'
        f"  int lane = threadIdx.x;\n  {prelude}\n  y[lane] = ({ctype})({expression});\n}}\n"
    )
    x = np.arange(threads).astype(dtype) if x is None else x
    y = np.full(threads, 99, dtype)
    result = simt.run(source, arrays=[x, y], grid=1, block=threads, seed=seed)
    assert result.ok, result
    return y


@pytest.mark.spread(2)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_shuffles_within_segments(width):
    segment, within = LANES // width * width, LANES % width
    full = "0xffffffff, x[lane]"
    np.testing.assert_array_equal(run(f"__shfl_sync({full}, 1, {width})"), segment + 1)
    np.testing.assert_array_equal(
        run(f"__shfl_sync({full}, lane + 3, {width})"), segment + (LANES + 3) % width
    )
    np.testing.assert_array_equal(
        run(f"__shfl_up_sync({full}, 1, {width})"), np.where(within, LANES - 1, LANES)
    )
    np.testing.assert_array_equal(
        run(f"__shfl_down_sync({full}, 1, {width})"),
        np.where(within < width - 1, LANES + 1, LANES),
    )
    np.testing.assert_array_equal(run(f"__shfl_xor_sync({full}, 1, {width})"), LANES ^ 1)
    # A partner beyond the segment is the lane itself for xor, as on the device.
    np.testing.assert_array_equal(
        run(f"__shfl_xor_sync({full}, {width}, {width})"),
        np.where((LANES ^ width) < segment + width, LANES ^ width, LANES) if width < 32 else LANES,
    )


@pytest.mark.parametrize(
    ("dtype", "ctype"),
    [("float32", "float"), ("float64", "double"), ("int64", "long long"), ("float16", "half"),
     ("uint8", "unsigned char")],
)  # fmt: skip
def test_shuffled_types(dtype, ctype):
    got = run("__shfl_xor_sync(0xffffffff, x[lane], 5)", dtype, ctype)
    np.testing.assert_array_equal(got, (LANES ^ 5).astype(dtype))


def test_a_lane_that_takes_no_part_gives_all_ones():
    got = run(
        "v",
        "float32",
        "float",
        threads=16,
        prelude="float v = __shfl_down_sync(0xffff, x[lane], 8);",
    )
    np.testing.assert_array_equal(got[:8], LANES[8:16])
    assert np.isnan(got[8:]).all()


def test_halves_of_a_warp_shuffle_on_their_own():
    prelude = (
        "unsigned m = lane < 16 ? 0xffffu : 0xffff0000u; int v = 0;"
        "if (lane < 16) v = __shfl_sync(m, x[lane], 3, 16);"
        "else { v = __shfl_sync(m, x[lane], 3, 16); v += __shfl_sync(m, x[lane], 4, 16); }"
    )
    for seed in range(4):
        got = run("v", prelude=prelude, seed=seed)
        np.testing.assert_array_equal(got, np.where(LANES < 16, 3, 19 + 20))


def test_votes():
    full = "0xffffffff"
    assert (run(f"__ballot_sync({full}, lane % 3 == 0)", "uint32", "unsigned") == 0x49249249).all()
    assert (run(f"__any_sync({full}, lane == 7)") == 1).all()
    assert (run(f"__any_sync({full}, lane == 70)") == 0).all()
    assert (run(f"__all_sync({full}, lane < 32)") == 1).all()
    assert (run(f"__all_sync({full}, lane < 31)") == 0).all()
    assert (run(f"__uni_sync({full}, lane >= 0)") == 1).all()
    matched = run(f"__match_any_sync({full}, lane / 8)", "uint32", "unsigned")
    np.testing.assert_array_equal(matched, np.uint32(0xFF) << (LANES // 8 * 8).astype("uint32"))


def test_hardware_reductions():
    full = "0xffffffff"
    assert (run(f"__reduce_add_sync({full}, x[lane])") == 496).all()
    assert (run(f"__reduce_min_sync({full}, x[lane] - 5)") == -5).all()
    assert (run(f"__reduce_max_sync({full}, x[lane] - 50)") == -19).all()
    assert (run(f"__reduce_xor_sync({full}, (unsigned)x[lane])") == 0).all()
    assert (run(f"__reduce_or_sync({full}, (unsigned)x[lane])") == 31).all()


@pytest.mark.parametrize("seed", range(4))
def test_activemask_is_the_lanes_that_came_this_way(seed):
    prelude = "unsigned m = 0; if (lane < 11) { m = __activemask(); } else { m = 1; }"
    got = run("m", "uint32", "unsigned", seed, prelude=prelude)
    np.testing.assert_array_equal(got, np.where(LANES < 11, (1 << 11) - 1, 1))
    assert (run("__activemask()", "uint32", "unsigned", seed) == 0xFFFFFFFF).all()
    assert (run("__activemask()", "uint32", "unsigned", seed, threads=5) == 31).all()


def test_votes_of_a_block():
    votes = "__syncthreads_{}(lane >= {})"
    assert (run(votes.format("count", 60), threads=64) == 4).all()
    assert (run(votes.format("or", 64), threads=64) == 0).all()
    assert (run(votes.format("or", 63), threads=64) == 1).all()
    assert (run(votes.format("and", 0), threads=64) == 1).all()
    assert (run(votes.format("and", 1), threads=64) == 0).all()


def test_tiles_of_cooperative_groups():
    prelude = (
        "namespace cg = cooperative_groups;"
        "auto tile = cg::tiled_partition<8>(cg::this_thread_block());"
        "int v = x[lane]; for (int d = 4; d; d /= 2) v += tile.shfl_xor(v, d);"
    )
    got = run("v * 100 + tile.thread_rank()", prelude=prelude)
    np.testing.assert_array_equal(got, (LANES // 8 * 64 + 28) * 100 + LANES % 8)


@pytest.mark.parametrize("seed", range(3))
def test_named_barriers_order_the_warps_that_meet(seed):
    source = """
extern "C" __global__ void k(float* x, float* y) {
  __shared__ float s[128];
  int t = threadIdx.x, pair = t / 64;
  s[t] = x[t];
  asm volatile("bar.sync %0, 64;" : : "r"(pair + 1));
  y[t] = s[t ^ PARTNER];
}
"""
    x, y = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    met = source.replace("PARTNER", "32")
    run_ = simt.run(met, arrays=[x, y], grid=1, block=128, seed=seed)
    assert run_.ok, run_
    np.testing.assert_array_equal(y, np.arange(128) ^ 32)
    apart = source.replace("PARTNER", "64")
    kinds = {h.kind for h in simt.run(apart, arrays=[x, y], grid=1, block=128, seed=seed).hazards}
    assert "race" in kinds


def test_the_half_formats_round_like_numpy():
    bits = np.arange(1 << 16, dtype="uint16")
    floats = bits.view("float16").astype("float32")
    random = np.random.default_rng(0).standard_normal(1 << 16).astype("float32")
    wide = np.concatenate([floats, random * np.float32(1e-6), random * np.float32(4e4)])
    source = (
        'extern "C" __global__ void k(float* x, half* h, float* back, nv_bfloat16* b) {\n'
        "  int i = blockIdx.x * 256 + threadIdx.x;\n"
        "  h[i] = __float2half_rn(x[i]); back[i] = (float)h[i]; b[i] = (nv_bfloat16)x[i];\n}"
    )
    h, b = np.zeros(wide.size, "float16"), np.zeros(wide.size, "uint16")
    back = np.zeros_like(wide)
    simt.run(source, arrays=[wide, h, back, b], grid=wide.size // 256, block=256, check=False)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h, wide.astype("float16"))
    np.testing.assert_array_equal(back, h.astype("float32"))
    finite = ~np.isnan(wide)
    np.testing.assert_array_equal(b[finite], simt.to_bfloat16(wide)[finite])


def test_device_maths():
    expressions = {
        "expf(v)": np.exp,
        "__expf(v)": np.exp,
        "erff(v)": np.vectorize(math.erf),
        "rsqrtf(v)": lambda v: v**-0.5,
        "tanhf(v)": np.tanh,
        "__fdividef(v, 3.0f)": lambda v: v / 3,
        "exp2f(v)": np.exp2,
        "fmaxf(v, 1.0f)": lambda v: np.maximum(v, 1),
        "max(v, 2.0f)": lambda v: np.maximum(v, 2),
        "__logf(v)": np.log,
        "log1pf(v)": np.log1p,
        "powf(v, 1.5f)": lambda v: v**1.5,
        "fmaf(v, v, 1.0f)": lambda v: v * v + 1,
        "__frcp_rn(v)": lambda v: 1 / v,
        "(float)hexp((half)v)": np.exp,
        "(float)__hmax((half)v, (half)1.0f)": lambda v: np.maximum(v, 1),
        "(float)((nv_bfloat16)v * (nv_bfloat16)2.0f)": lambda v: 2 * v,
    }
    x = np.linspace(0.25, 4, 32).astype("float32")
    stores = "".join(f"y[{i} * 32 + lane] = {e};" for i, e in enumerate(expressions))
    source = (
        'extern "C" __global__ void k(float* x, float* y) {'
        f" int lane = threadIdx.x; float v = x[lane]; {stores} }}"
    )
    y = np.zeros((len(expressions), 32), "float32")
    assert simt.run(source, arrays=[x, y], grid=1, block=32).ok
    for row, (expression, function) in zip(y, expressions.items(), strict=True):
        narrow = {"half": 2e-3, "bfloat": 8e-3}
        tolerance = next((t for n, t in narrow.items() if n in expression), 1e-6)
        np.testing.assert_allclose(
            row, function(x.astype("float64")), tolerance, err_msg=expression
        )
