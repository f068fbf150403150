"""What a kernel's function of the host takes, launches aside: checks, the choice and the sizes.

TVM writes it as C; what it calls of TVM's runtime stands in for by nothing at all.
"""

import ctypes
import subprocess
from pathlib import Path

import pytest
import tvm
import tvm_ffi
from check import H200, is_stitched, primfuncs
from tvm import tirx
from twins import TWINS
from zoo import softmax

from tvm_stitch.build import lowering_context
from tvm_stitch.stages.extents import Extents

MOST_NS = 1000.0  # of one call; the machine may be busy with others, so the best of several counts
CALLS, ROUNDS = 20_000, 25
STUBS = """
#include <time.h>
static int64_t launches = 0;
int TVMFFIEnvModLookupFromImports(void* lib, const char* name, void** out) {
  *out = (void*)1;
  return 0;
}
int TVMFFIFunctionCall(void* f, TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  launches++;
  return 0;
}
void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {}
int64_t launched(void) { return launches; }
double best_ns(TVMFFIAny* args, int32_t count, int calls, int rounds) {
  TVMFFIAny result;
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int call = 0; call < calls; ++call)
      if (__tvm_ffi_main(0, args, count, &result)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / calls;
    if (ns < best) best = ns;
  }
  return best;
}
"""


class Tensor(ctypes.Structure):
    """A DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Any(ctypes.Structure):
    """A TVMFFIAny that holds a DLTensor, or an integer."""

    _fields_ = (("type", ctypes.c_int32), ("padding", ctypes.c_int32), ("value", ctypes.c_int64))


INTEGER, DLTENSOR = 1, 7
CODES = {"float": 2, "int": 0, "uint": 1, "bfloat": 4}


def host_of(kernel: tirx.PrimFunc, folder: Path) -> ctypes.CDLL:
    """The function of the host, as a library with stubs of what it calls."""
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    with lowering_context():
        built = tvm.tirx.build(module, target=tvm.target.Target(H200, host="c"))
    source, library = folder / "host.c", folder / "host.so"
    source.write_text(built.inspect_source() + STUBS)
    include = (tvm_ffi.libinfo.find_include_path(), Path(tvm.__file__).parent / "include")
    # Symbolic: the stubs, not what this process has of TVM's runtime.
    flags = ["-O2", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-Dhalf=short"]
    flags += [f"-I{each}" for each in include]
    command = ["gcc", *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    found = ctypes.CDLL(str(library))
    found.best_ns.restype, found.launched.restype = ctypes.c_double, ctypes.c_int64
    return found


def arguments(kernel: tirx.PrimFunc, sizes: dict[str, int]) -> list[ctypes.Structure]:
    """Tensors of a GPU that hold nothing, and the sizes that the function takes beside them."""
    found: list[ctypes.Structure] = []
    for param in kernel.params:
        if not hasattr(param.ty, "shape"):
            found.append(Any(INTEGER, 0, sizes[param.name]))
            continue
        known = Extents(tuple(sizes.items()))
        extents = [known.size(extent) for extent in param.ty.shape]
        dtype = tvm.DataType(str(param.ty.dtype))
        code = next(code for name, code in CODES.items() if str(dtype).startswith(name))
        bits = int("".join(filter(str.isdigit, str(dtype))))
        shape = (ctypes.c_int64 * len(extents))(*extents)
        strides = [1] * len(extents)
        for axis in reversed(range(len(extents) - 1)):
            strides[axis] = strides[axis + 1] * extents[axis + 1]
        steps = (ctypes.c_int64 * len(extents))(*strides)
        found.append(Tensor(4096, 2, 0, len(extents), code, bits, 1, shape, steps, 0))
    return found


def nanoseconds(kernel: tirx.PrimFunc, sizes: dict[str, int], folder: Path) -> float:
    """The best time of a call at these sizes, which must launch."""
    host, given = host_of(kernel, folder), arguments(kernel, sizes)
    args = (Any * len(given))(
        *(
            Any(DLTENSOR, 0, ctypes.addressof(each)) if isinstance(each, Tensor) else each
            for each in given
        )
    )
    found = host.best_ns(args, len(given), CALLS, ROUNDS)
    assert found > 0 and host.launched() >= CALLS * ROUNDS, "the host refused its arguments"
    return found


N = tirx.Var("n", "int64")
CASES = {
    "three lengths of rows": (TWINS["softmax of a concat"].symbolic, {"n": 1000, "m": 31}),
    "few rows and many": (softmax("float32", (N, 5), 4096).module, {"n": 70}),
    "rounds": (TWINS["normalised"].symbolic, {"n": 300}),
    "tensor cores": (TWINS["linear"].symbolic, {"n": 129}),
}


@pytest.mark.parametrize("name", CASES)
def test_choosing_and_sizing_take_less_than_a_microsecond(name, tmp_path):
    module, sizes = CASES[name]
    (kernel,) = (f for f in primfuncs(module).values() if is_stitched(f))
    taken = nanoseconds(kernel, sizes, tmp_path)
    print(f"{name}: {taken:.0f} ns")
    assert taken < MOST_NS
