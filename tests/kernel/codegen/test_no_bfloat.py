"""GPUs before compute capability 8.0 have no bfloat16: TVM computes it in float32 for them."""

import re

import pytest
import tvm
from check import H200, check, cuda_of, the_kernel
from tvm.relax import op
from tvm.script import tirx as T
from zoo import ZOO, graph, softmax

from tvm_stitch.device import device_of
from tvm_stitch.kernel.codegen.hazard_check import check_kernel

V100 = tvm.target.Target({"kind": "cuda", "arch": "sm_70"})
T4 = tvm.target.Target({"kind": "cuda", "arch": "sm_75"})


@pytest.mark.parametrize("target", [V100, T4], ids=["sm_70", "sm_75"])
@pytest.mark.parametrize("axis", [0, -1])
def test_sums(target, axis):
    case = graph(
        "bfloat16",
        [(96, 512)],
        lambda emit, x: emit(op.sum(x, axis)),
        lambda x: x.sum(axis),
    )
    check(case, target=target)


@pytest.mark.parametrize("columns", [512, 515, 5000])
def test_softmax(columns):
    check(softmax("bfloat16", 6, columns), target=T4)


@pytest.mark.parametrize("name", list(ZOO)[:4])
def test_the_zoo(name):
    check(ZOO[name]("bfloat16"), kernels=None, target=T4, orders=2)


def test_no_vector_is_wider_than_what_is_printed():
    source = cuda_of(the_kernel(softmax("bfloat16", 96, 512).module, T4), T4)
    assert "ulonglong4" not in source and "tvm_stitch_widen" not in source
    assert re.search(r"\(ushort4\*\)", source)


def test_shared_memory_is_counted_as_it_is_lowered():
    @T.prim_func(s_tir=True)
    def kernel(x: T.Buffer((16384,), "bfloat16"), y: T.Buffer((16384,), "bfloat16")):
        thread = T.launch_thread("threadIdx.x", 64)
        row = T.alloc_shared((16384,), "bfloat16")
        row[thread] = x[thread]
        y[thread] = row[thread]

    refused = check_kernel(kernel, device_of(T4))
    assert refused is not None and "65536 bytes of static shared memory" in refused.reason
    assert check_kernel(kernel, device_of(H200)) is None
