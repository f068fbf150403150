"""Instructions of a whole warp on matrices of halves (ldmatrix, mma.sync) against NumPy."""

import numpy as np
import pytest
from halves import DTYPES, ORDERS, random_halves
from tvm.script import tirx as T

from tvm_stitch import SimtError, simt
from tvm_stitch.simt.ptx import translate

WARP = 32


def ldmatrix(variant, to, address, space=".shared"):
    """The asm statement, with a register for every word of the array `to`."""
    count = int(variant[1])
    words = ", ".join(f"%{n}" for n in range(count))
    outputs = ", ".join(f'"=r"({to}[{n}])' for n in range(count))
    return (
        f'asm volatile("ldmatrix.sync.aligned.m8n8.{variant}{space}.b16 {{{words}}}, [%{count}];"'
        f' : {outputs} : "r"({address}) : "memory");'
    )


def mma(kind, depth, in_place=True):
    """d += a * b, or d = a * b + c, on arrays of these names."""
    words = depth // 4 + depth // 8
    inputs = [f'"r"(a[{n}])' for n in range(depth // 4)]
    inputs += [f'"r"(b[{n}])' for n in range(depth // 8)]
    sign = "+" if in_place else "="
    outputs = ", ".join(f'"{sign}f"(d[{n}])' for n in range(4))
    if not in_place:
        inputs += [f'"f"(c[{n}])' for n in range(4)]
    registers = [f"%{n}" for n in range(4 + words + 4)]
    d, a, b = registers[:4], registers[4 : 4 + depth // 4], registers[4 + depth // 4 : 4 + words]
    sums = d if in_place else registers[4 + words :]
    operands = ',"\n    "'.join("{" + ", ".join(group) + "}" for group in (d, a, b, sums))
    opcode = f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32"
    return f'asm volatile("{opcode} "\n    "{operands};\\n" : {outputs} : {", ".join(inputs)});'


def launch(source, arrays, block=WARP, seed=0, **options):
    return simt.run(source, arrays=arrays, grid=1, block=block, seed=seed, **options)


LOADS = """
extern "C" __global__ void k(const unsigned short* x, unsigned* y) {
  __shared__ alignas(16) unsigned short s[32 * 24];
  int t = threadIdx.x;
  for (int i = 0; i < 8; ++i) s[t * 24 + i] = x[t * 8 + i];
  __syncthreads();
  unsigned at = __cvta_generic_to_shared(s + t * 24);
  unsigned w[4] = {0, 0, 0, 0};
  STATEMENTS
}
"""
VARIANTS = ("x1", "x2", "x4", "x1.trans", "x2.trans", "x4.trans")


@pytest.mark.parametrize("space", [".shared", ".shared::cta"])
def test_every_lane_gets_its_elements_of_the_rows_that_others_give(space):
    """Row i of matrix m comes from lane 8 * m + i; rows lie apart, as in a padded tile."""
    statements = [
        ldmatrix(variant, "w", "at", space)
        + f" for (int i = 0; i < 4; ++i) y[({number} * 32 + t) * 4 + i] = w[i];"
        for number, variant in enumerate(VARIANTS)
    ]
    source = LOADS.replace("STATEMENTS", "\n  ".join(statements))
    x = np.random.default_rng(0).integers(0, 1 << 16, (4, 8, 8)).astype("uint16")
    got = np.zeros((len(VARIANTS), WARP, 4, 2), "uint16")
    for seed in ORDERS:
        run = launch(source, [x, got.view("uint32")], seed=seed)
        assert run.ok, run
        for result, variant in zip(got, VARIANTS, strict=True):
            count = int(variant[1])
            matrices = x.transpose(0, 2, 1) if "trans" in variant else x
            # Lane l holds two neighbours of row l / 4 of each matrix.
            expected = matrices[:count].reshape(count, WARP, 2).transpose(1, 0, 2)
            np.testing.assert_array_equal(result[:, :count], expected, variant)
        got[...] = 0


def test_lanes_whose_row_nobody_asks_for_may_give_any_address():
    wild = ldmatrix("x1", "w", "t < 8 ? at : 0x00fffff3u")
    source = LOADS.replace("STATEMENTS", wild + " y[t] = w[0];")
    x, y = np.arange(256, dtype="uint16"), np.zeros(32, "uint32")
    run = launch(source, [x, y])
    assert run.ok, run
    np.testing.assert_array_equal(y.view("uint16"), x[:64])


FRAGMENTS = """
extern "C" __global__ void k(const unsigned* x, const unsigned* z, const float* c_ptr, float* y) {
  int t = threadIdx.x, warp = t / 32, row = t % 32 / 4, pair = t % 4;
  unsigned a[DEPTH / 4], b[DEPTH / 8];
  float c[4], d[4];
  for (int i = 0; i < DEPTH / 4; ++i)
    a[i] = x[((warp * 16 + row + i % 2 * 8) * DEPTH + i / 2 * 8) / 2 + pair];
  for (int i = 0; i < DEPTH / 8; ++i) b[i] = z[((warp * 8 + row) * DEPTH + i * 8) / 2 + pair];
  for (int i = 0; i < 4; ++i)
    c[i] = d[i] = c_ptr[(warp * 16 + row + i / 2 * 8) * 8 + pair * 2 + i % 2];
  MMA
  for (int i = 0; i < 4; ++i)
    y[(warp * 16 + row + i / 2 * 8) * 8 + pair * 2 + i % 2] = d[i];
}
"""


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("depth", "in_place"), [(16, True), (16, False), (8, True), (8, False)])
def test_products_of_halves(kind, depth, in_place):
    """Three warps at once, each with its own matrices; every lane loads by PTX's layout."""
    source = FRAGMENTS.replace("MMA", mma(kind, depth, in_place)).replace("DEPTH", str(depth))
    a, b = random_halves((3, 16, depth), kind), random_halves((3, 8, depth), kind, seed=1)
    c = np.random.default_rng(2).standard_normal((3, 16, 8)).astype("float32")
    expected = a.astype("float64") @ b.astype("float64").transpose(0, 2, 1) + c
    for seed in ORDERS:
        y = np.zeros_like(c)
        run = launch(source, [a.view("uint32"), b.view("uint32"), c, y], block=96, seed=seed)
        assert run.ok, run
        np.testing.assert_allclose(y, expected, atol=4e-6)


def test_what_is_not_finite_and_what_is_subnormal():
    source = FRAGMENTS.replace("MMA", mma("f16", 8)).replace("DEPTH", "8")
    a, b = np.zeros((16, 8), "float16"), np.ones((8, 8), "float16")
    a[:4, 0] = [np.inf, np.nan, 6e-8, 65504]
    y, c = np.zeros((16, 8), "float32"), np.zeros((16, 8), "float32")
    assert launch(source, [a.view("uint32"), b.view("uint32"), c, y]).ok
    np.testing.assert_array_equal(y, np.repeat(a[:, :1].astype("float32"), 8, axis=1))


def tiled(depth, dtype, row, column):
    """A product of 32 x 16 by two warps: tiles in dynamic shared memory, as TVM prints it all."""
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    multiply = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    load_a = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    load_b = "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16"

    @T.prim_func(s_tir=True)
    def kernel(
        x: T.Buffer((32, depth), dtype),
        z: T.Buffer((depth, 16), dtype),
        y: T.Buffer((32, 16), "float32"),
    ):
        t = T.launch_thread("threadIdx.x", 64)
        left = T.alloc_buffer((32 * row,), dtype, scope="shared.dyn")
        right = T.alloc_buffer((depth * column,), dtype, scope="shared.dyn")
        a = T.alloc_local((4,), "uint32")
        b = T.alloc_local((4,), "uint32")
        sums = T.alloc_local((8,), "float32")
        for i in T.serial(depth // 2):
            left[(i * 64 + t) // depth * row + (i * 64 + t) % depth] = x[
                (i * 64 + t) // depth, (i * 64 + t) % depth
            ]
        for i in T.serial(depth // 4):
            right[(i * 64 + t) // 16 * column + t % 16] = z[(i * 64 + t) // 16, t % 16]
        for i in T.unroll(8):
            sums[i] = T.float32(0)
        T.evaluate(T.tvm_storage_sync("shared.dyn"))
        for k in T.serial(depth // 16):
            T.evaluate(
                T.ptx[load_a](
                    a[0], a[1], a[2], a[3],
                    left.access_ptr(
                        "r",
                        offset=(t // 32 * 16 + t % 16) * row + k * 16 + t % 32 // 16 * 8,
                        extent=8,
                    ),
                )
            )  # fmt: skip
            T.evaluate(
                T.ptx[load_b](
                    b[0], b[1], b[2], b[3],
                    right.access_ptr(
                        "r", offset=(k * 16 + t % 16) * column + t % 32 // 16 * 8, extent=8
                    ),
                )
            )  # fmt: skip
            T.evaluate(
                T.ptx[multiply](
                    sums[0], sums[1], sums[2], sums[3], a[0], a[1], a[2], a[3], b[0], b[1],
                    sums[0], sums[1], sums[2], sums[3],
                )
            )  # fmt: skip
            T.evaluate(
                T.ptx[multiply](
                    sums[4], sums[5], sums[6], sums[7], a[0], a[1], a[2], a[3], b[2], b[3],
                    sums[4], sums[5], sums[6], sums[7],
                )
            )  # fmt: skip
        for i in T.unroll(8):
            y[t // 32 * 16 + t % 32 // 4 + i % 4 // 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2] = sums[i]

    return kernel


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_of_tiles_as_tvm_prints_it(dtype):
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    function = simt.Function(tiled(48, dtype, 56, 24))
    x, z = random_halves((32, 48), kind), random_halves((48, 16), kind, seed=1)
    expected = x.astype("float64") @ z.astype("float64")
    for seed in ORDERS:
        y = np.zeros((32, 16), "float32")
        run = function(x, z, y, seed=seed)
        assert run.ok, run
        np.testing.assert_allclose(y, expected, atol=1e-5)


UNORDERED = """
extern "C" __global__ void k(const unsigned short* x, unsigned* y) {
  __shared__ alignas(16) unsigned short s[64 * 8];
  int t = threadIdx.x;
  unsigned w[4];
  unsigned at = __cvta_generic_to_shared(s + (t ^ PARTNER) * 8);
  for (int i = 0; i < 8; ++i) s[t * 8 + i] = x[t * 8 + i];
  BEFORE
  LOAD
  AFTER
  s[t * 8] = 1;
  y[t] = w[0] + w[1] + w[2] + w[3];
}
"""


def unordered(before, after, partner, seed=0):
    source = UNORDERED.replace("LOAD", ldmatrix("x4", "w", "at")).replace("PARTNER", partner)
    source = source.replace("BEFORE", before).replace("AFTER", after)
    arrays = [np.ones(512, "uint16"), np.zeros(64, "uint32")]
    return launch(source, arrays, block=64, seed=seed)


@pytest.mark.parametrize(
    ("barrier", "partner"),
    [("__syncthreads();", "33"), ("__syncwarp();", "1")],
    ids=["of another warp", "of its own warp"],
)
def test_a_missing_barrier_around_a_load_is_a_race(barrier, partner):
    """Rows that other lanes write, before and after; the warp's own meeting orders no memory."""
    assert unordered(barrier, barrier, partner).ok
    for before, after in (("", barrier), (barrier, "")):
        for seed in ORDERS:
            run = unordered(before, after, partner, seed)
            races = [h for h in run.hazards if h.kind == "race"]
            assert races and all(h.where == "s" for h in races), run
            lines = {source for h in races for source in (h.source, h.other_source)}
            assert any("ldmatrix" in line for line in lines)


def test_a_product_orders_no_memory():
    body = """
extern "C" __global__ void k(float* y) {
  __shared__ float s[32];
  unsigned a[2] = {0, 0}, b[1] = {0};
  float d[4] = {0, 0, 0, 0};
  s[threadIdx.x] = 1.0f;
  MMA
  y[threadIdx.x] = s[threadIdx.x ^ 1] + d[0];
}
""".replace("MMA", mma("f16", 8))
    run = launch(body, [np.zeros(32, "float32")])
    assert "race" in {h.kind for h in run.hazards}


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("at + 16 * 24", "out-of-bounds read", "reads 16 bytes at s"),
        ("at + 8", "misaligned access", "multiple of 16 bytes"),
        ("0x00ffff00u", "out-of-bounds read", "reads 16 bytes at"),
    ],
)
def test_a_bad_address_is_found(address, kind, message):
    load = ldmatrix("x4", "w", f"t == 31 ? {address} : at")
    source = LOADS.replace("STATEMENTS", load + " y[t] = w[0];")
    run = launch(source, [np.zeros(256, "uint16"), np.zeros(32, "uint32")])
    (hazard,) = run.hazards
    assert hazard.kind == kind and message in hazard.message and hazard.thread == 31
    assert "ldmatrix" in hazard.source


PARTIAL = """
extern "C" __global__ void k(float* y) {
  unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  float d[4] = {0, 0, 0, 0};
  GUARD
  MMA
  y[threadIdx.x] = d[0];
}
""".replace("MMA", mma("f16", 16))


@pytest.mark.parametrize(
    ("guard", "block", "message"),
    [
        ("if (threadIdx.x >= 20) return;", 32, "and 11 more threads left the kernel"),
        ("if (threadIdx.x >= 20) __syncthreads();", 32, "no thread can go on"),
        ("", 48, "in a warp of fewer than 32 threads"),
    ],
)
def test_lanes_that_do_not_come_are_reported(guard, block, message):
    source = PARTIAL.replace("GUARD", guard)
    for seed in ORDERS:
        (hazard,) = launch(source, [np.zeros(64, "float32")], block=block, seed=seed).hazards
        assert hazard.kind == "divergent barrier" and message in hazard.message


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16",
    ],
)
def test_other_shapes_and_types_are_refused_by_name(opcode):
    with pytest.raises(SimtError, match=rf"line 3: .*does not know.*{opcode}"):
        translate(f'"{opcode} {{%0}}, {{%1}}, {{%2}}, {{%0}};" : "+f"(d) : "r"(a), "r"(b)', 3)
