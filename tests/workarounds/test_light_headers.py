"""The short headers that NVRTC gets in place of libcu++."""

import struct
import subprocess
import sys
from types import ModuleType

import pytest

from tvm_stitch.cache.objects import compiler
from tvm_stitch.executable import cuda
from tvm_stitch.workarounds import light_headers, nvrtc_calls

SUITS = """
#ifdef __CUDACC_RTC__
  #include <cuda/std/cstdint>
  #include <cuda/std/type_traits>
  namespace std { using cuda::std::is_same; }
#else
  #include <cstdint>
#endif
#include <cuda_fp16.h>
"""
TYPES = (
    "bool", "char", "signed char", "unsigned char", "short", "unsigned", "long", "float", "double",
    "unsigned long long", "const int", "volatile float", "int*", "void", "const unsigned char",
)  # fmt: skip
OF_ONE = ("is_integral", "is_signed", "is_unsigned", "is_floating_point")


def test_sources_that_include_or_use_more_get_the_libraries_headers():
    assert light_headers.suits(SUITS)
    assert not light_headers.suits(SUITS + "#include <cuda/barrier>\n")
    assert not light_headers.suits(SUITS + '  #  include "mma.h"\n')
    assert not light_headers.suits(SUITS + "cuda::std::atomic<int> counter;\n")
    assert not light_headers.suits(SUITS + "using std::is_pointer;\n")


def test_the_headers_say_what_the_standard_says(tmp_path):
    for name, text in light_headers.HEADERS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    asserted = [
        f"static_assert(cuda::std::{trait}<{type_}>::value == ::std::{trait}<{type_}>::value);"
        for trait in OF_ONE
        for type_ in TYPES
    ]
    asserted += [
        f"static_assert(cuda::std::is_same_v<{a}, {b}> == {str(a == b).lower()});"
        for a in TYPES
        for b in TYPES
    ]
    for bits in (8, 16, 32, 64):
        for name in (f"int{bits}_t", f"uint{bits}_t"):
            own, standard = f"cuda::std::{name}", f"::std::{name}"
            asserted.append(f"static_assert(sizeof({own}) == sizeof({standard}));")
            asserted.append(f"static_assert(({own}(-1) < 0) == ({standard}(-1) < 0));")
    asserted += [
        "static_assert(cuda::std::is_same_v<cuda::std::enable_if<true, int>::type, int>);",
        "static_assert(cuda::std::is_same_v<cuda::std::conditional<true, int, char>::type, int>);",
        "static_assert(cuda::std::is_same_v<cuda::std::conditional<0, int, bool>::type, bool>);",
        "static_assert(cuda::std::numeric_limits<float>::infinity() == __builtin_inff());",
    ]
    standard = "#include <cstdint>\n#include <type_traits>\n"
    included = "".join(f"#include <{name}>\n" for name in light_headers.HEADERS) * 2
    source = tmp_path / "all.cc"
    source.write_text(standard + included + "\n".join(asserted))
    command = [compiler(), "-std=c++17", "-fsyntax-only", "-I", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def programs(monkeypatch):
    """What NVRTC, if it were here, is asked to make programs of: the names of their headers."""
    nvrtc, made = ModuleType("nvrtc"), []
    nvrtc.nvrtcCreateProgram = lambda *given: made.append(given[4])
    nvrtc.nvrtcCompileProgram = None
    bindings = ModuleType("cuda.bindings")
    bindings.nvrtc = nvrtc
    for name, module in (("cuda", ModuleType("cuda")), ("cuda.bindings", bindings)):
        monkeypatch.setitem(sys.modules, name, module)
    nvrtc_calls.is_seen.__wrapped__()
    monkeypatch.setattr(nvrtc_calls, "is_seen", lambda: True)
    return made


def compiling_by(nvrtc_of, refuses):
    """In place of TVM: a program is made, and refused with the short headers if so."""

    def compile(code):
        made = nvrtc_of()
        sys.modules["cuda.bindings"].nvrtc.nvrtcCreateProgram(code, b"", 0, None, None)
        if refuses and made[-1]:
            raise RuntimeError("NVRTC compilation failed")
        return b"code"

    return compile


@pytest.mark.parametrize("refuses", [False, True])
def test_programs_are_made_with_the_headers_unless_they_do_not_hold(monkeypatch, programs, refuses):
    monkeypatch.setattr(cuda, "_TVM", compiling_by(lambda: programs, refuses))
    assert cuda.compiled(SUITS) == b"code"
    names = [name.encode() for name in light_headers.HEADERS]
    assert programs == ([names, None] if refuses else [names])
    assert cuda.compiled("#include <cuda/barrier>") == b"code"
    assert programs[-1] is None


def test_an_error_of_a_source_that_gets_the_usual_headers_is_passed_on(monkeypatch):
    def compile(code):
        raise RuntimeError(code)

    monkeypatch.setattr(cuda, "_TVM", compile)
    with pytest.raises(RuntimeError, match="mma"):
        cuda.compiled("#include <mma.h>")


def texts(cubin):
    """The machine code of each kernel."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", cubin, sections + size * n) for n in range(count)]
    parts = [cubin[head[4] : head[4] + head[5]] for head in heads]
    titles = [parts[names][head[0] :].split(b"\0", 1)[0] for head in heads]
    return {t: part for t, part in zip(titles, parts, strict=True) if t.startswith(b".text")}


def test_the_machine_code_is_the_same():
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    from tvm.support import nvcc

    code = (
        SUITS
        + """
extern "C" __global__ void scaled(half* to, const float* from, int count) {
  const int64_t place = int64_t(blockIdx.x) * 256 + threadIdx.x;
  if (place < count) to[place] = __float2half(fminf(from[place] * 2.0f, INFINITY));
}
"""
    )

    def made():
        return bytes(nvcc.compile_cuda(code, "cubin", "sm_90", compiler="nvrtc"))

    try:
        usual = made()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"NVRTC cannot compile here: {error}")
    with light_headers.light_headers(code) as is_light:
        assert is_light
        light = made()
    assert texts(light) == texts(usual) and texts(light)
    assert len(light) < len(usual)
