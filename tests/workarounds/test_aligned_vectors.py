"""Vectors whose alignment only the host could tell are vectors in CUDA."""

import pytest
import tvm
from check import H200
from tvm import tirx
from tvm.relax import op
from twins import Twin
from twins_verified import verify

import tvm_stitch
from tvm_stitch.simt.lowering import cuda_source
from tvm_stitch.workarounds.aligned_vectors import with_aligned_vectors


def norm_of_everything(emit, of, x, w):
    return emit(op.nn.rms_norm(x, w, axes=[0, 1, 2, 3], epsilon=1e-3))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_norm_over_all_of_a_symbolic_tensor(dtype):
    """The last step of a row begins where only run time knows: TVM could not compile that."""
    sizes = ({"n": 7}, {"n": 1}, {"n": 33})
    twin = Twin(lambda n: [(3, 12, 2 * n, 12)] * 2, norm_of_everything, sizes, dtype=dtype)
    source = cuda_source(tvm_stitch.compile(twin.symbolic, H200))
    assert ">> (int64_t)3) * (int64_t)8" in source
    verify(twin, *sizes, orders=1)


def kernel(base):
    """A kernel that copies a vector to where a place says."""
    out, place = tirx.decl_buffer((64,), "float32", "out"), tirx.Var("place", "int64")
    store = tirx.BufferStore(
        out, tirx.Broadcast(tirx.FloatImm("float32", 1.0), 4), [tirx.Ramp(base(place), 1, 4)]
    )
    return tvm.IRModule({"f_kernel": tirx.PrimFunc([out, place], store)})


def start(module) -> str:
    return str(module["f_kernel"].body.indices[0].base)


def test_only_starts_that_are_not_seen_to_be_multiples_are_written_as_such():
    unseen, seen = kernel(lambda place: place), kernel(lambda place: place * 8)
    assert start(with_aligned_vectors(unseen, {"f"})) == "(place >> T.int64(2)) * T.int64(4)"
    assert start(with_aligned_vectors(seen, {"f"})) == start(seen)


def test_tvms_own_kernels_stay_as_they_are():
    unseen = kernel(lambda place: place)
    assert start(with_aligned_vectors(unseen, {"g"})) == start(unseen)
