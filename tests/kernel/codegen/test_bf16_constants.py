"""Constants of bfloat16 that are computed with each other, which TVM leaves to the program."""

import pytest
from check import H200
from tvm import relax
from tvm.relax import op
from twins import Twin
from twins_verified import verify

import tvm_stitch
from tvm_stitch.simt.lowering import cuda_source

COMPUTED = {
    "add": lambda emit, of: emit(op.add(of(2.0), relax.const(0.01, "bfloat16"))),
    "subtract": lambda emit, of: emit(op.subtract(of(2.0), relax.const(0.01, "bfloat16"))),
    "multiply": lambda emit, of: emit(op.multiply(of(3.0), relax.const(0.01, "bfloat16"))),
    "divide": lambda emit, of: emit(op.divide(of(2.0), relax.const(3.0, "bfloat16"))),
    "negative": lambda emit, of: emit(op.negative(of(2.0))),
    "to infinity": lambda emit, of: emit(op.multiply(of(3e38), relax.const(2.0, "bfloat16"))),
}


def of_constants(compute):
    """What two constants make, used twice: by itself and with another constant."""

    def build(emit, of, x, y):
        def full(value):
            return emit(op.full((of["n"],), relax.const(value, "bfloat16"), "bfloat16"))

        once = compute(emit, full)
        twice = emit(op.add(x, emit(op.add(once, relax.const(1.0, "bfloat16")))))
        square = emit(op.broadcast_to(twice, (of["n"], of["n"])))
        scaled = emit(op.multiply(y, emit(op.expand_dims(once, 1))))
        return emit(op.permute_dims(square, [1, 0])), emit(op.nn.softmax(scaled))

    sizes = ({"n": 33, "m": 64}, {"n": 1, "m": 1027})
    return Twin(lambda n, m: [(n,), (n, m)], build, sizes, dtype="bfloat16")


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.slow
def test_variants_of_a_kernel_with_arithmetic_of_constants(name):
    """TVM had the host compute them for all variants, and failed to pass kernels a bfloat16."""
    twin = of_constants(COMPUTED[name])
    options = tvm_stitch.Options(extents={"n": (64, 4096), "m": (64, 8192)})
    source = cuda_source(tvm_stitch.compile(twin.symbolic, H200, options))
    assert source.count("__global__") > 1


@pytest.mark.parametrize("name", ["add", "divide", "negative"])
@pytest.mark.slow
def test_rounded_as_the_gpu_rounds(name):
    twin = of_constants(COMPUTED[name])
    verify(twin, *twin.sizes, orders=1)
