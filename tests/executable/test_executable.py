"""Kernels are compiled at the same time, beside the host's code, and each source once."""

import hashlib
import threading

import pytest
import tvm
from check import H200
from driver import compiled_by
from zoo import softmax

import tvm_stitch
from tvm_stitch import Options, simt
from tvm_stitch.executable import cuda
from tvm_stitch.target import full_target

pytestmark = pytest.mark.skipif(
    tvm.get_global_func(cuda.CREATE, allow_missing=True) is not None, reason="has a CUDA driver"
)


def digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


def several(number: int = 4, columns: int = 64) -> tvm.IRModule:
    """Softmaxes of different sizes, each a kernel."""
    from tvm import relax

    builder = relax.BlockBuilder()
    shapes = [(8, columns * (each + 1)) for each in range(number)]
    inputs = [relax.Var(f"x{n}", relax.TensorType(s, "float32")) for n, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            found = [builder.emit(relax.op.nn.softmax(each)) for each in inputs]
            out = builder.emit_output(relax.Tuple(found))
        builder.emit_func_output(out)
    return builder.get()


APART = tuple(name for name in Options().schemes if name != "independent")


def compiled(module, **options):
    return tvm_stitch.compile(module, H200, Options(schemes=APART, **options))


def test_every_kernel_is_compiled_once_and_loaded():
    codes = []

    def compiler(code: str) -> bytes:
        codes.append(code)
        return digest(code)

    with compiled_by(compiler) as loaded:
        executable = compiled(several())
    names = [name for code in codes for name in simt.kernel_names(code)]
    assert len(names) == len(set(names)) == 4
    assert sorted(loaded) == sorted(map(digest, codes))
    (host,) = executable.mod.imports
    assert len(host.imports) == len(codes)


def test_small_kernels_share_a_unit_and_large_ones_do_not(monkeypatch):
    codes = []
    with compiled_by(lambda code: codes.append(code) or b"binary"):
        compiled(several(2))
        assert len(codes) == 1
        codes.clear()
        monkeypatch.setattr("tvm_stitch.executable.units.LEAST", 1000)
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
        compiled(several())
        assert [len(simt.kernel_names(code)) for code in codes] == [1] * 4


def test_no_more_units_than_cores_and_all_about_as_long(monkeypatch):
    codes = []
    monkeypatch.setattr("tvm_stitch.executable.units.LEAST", 1000)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    with compiled_by(lambda code: codes.append(code) or b"binary"):
        compiled(several(6))
    assert [len(simt.kernel_names(code)) for code in codes] == [3, 3]
    short, long = sorted(map(len, codes))
    assert long < 1.3 * short


def test_units_are_compiled_at_the_same_time(monkeypatch):
    monkeypatch.setattr("tvm_stitch.executable.units.LEAST", 1000)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    together = threading.Barrier(2, timeout=60)

    def compiler(code: str) -> bytes:
        together.wait()  # for another one; alone it would wait for ever
        return digest(code)

    with compiled_by(compiler) as loaded:
        compiled(several())
    assert len(loaded) == 4


def test_they_are_compiled_for_the_target_in_scope():
    seen = []

    def compiler(code: str) -> bytes:
        target = tvm.target.Target.current(allow_none=True)
        seen.append(str(target.attrs["arch"]) if target is not None else None)
        return b"binary"

    with compiled_by(compiler):
        tvm_stitch.compile(softmax("float32", 4, 8).module, H200)
        assert seen == [full_target(H200).attrs["arch"]] == ["sm_90a"]
        # For others TVM asks this machine's GPU.
        tvm_stitch.compile(softmax("float32", 4, 8).module, "sm_80")
        assert seen[1:] == [None]


def test_what_a_compiler_says_reaches_the_user():
    def compiler(code: str) -> bytes:
        raise RuntimeError("ptxas is out of registers")

    with compiled_by(compiler), pytest.raises(RuntimeError, match="out of registers"):
        compiled(several())


def test_a_second_build_compiles_nothing(tmp_path):
    codes = []

    def compiler(code: str) -> bytes:
        codes.append(code)
        return digest(code)

    with compiled_by(compiler) as loaded:
        compiled(several(), cache=tmp_path)
        first, many = sorted(loaded), len(codes)
        loaded.clear()
        again = compiled(several(), cache=tmp_path)
        assert not loaded and len(codes) == many
        assert again.mod.imports  # what can be exported is made of the same kernels
        assert (sorted(loaded), len(codes)) == (first, many)


@pytest.mark.parametrize(
    "changed",
    [
        lambda patch: patch.setenv("TVM_CUDA_PTXAS_REG_LEVEL", "5"),
        lambda patch: patch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc"),
        lambda patch: patch.setenv("NVCC_APPEND_FLAGS", "-lineinfo"),
        lambda patch: patch.setattr(cuda, "_version", lambda *_: "1.1"),
        lambda patch: patch.setattr(tvm, "__version__", "0.28"),
        lambda patch: patch.setenv("TVM_KERNEL_DUMP", "folder"),
    ],
)
def test_nothing_is_mixed_that_differs_in_what_it_was_made_with(tmp_path, monkeypatch, changed):
    codes = []
    with compiled_by(lambda code: codes.append(code) or b"binary"):
        compiled(several(1), cache=tmp_path)
        changed(monkeypatch)
        compiled(several(1), cache=tmp_path)
    assert len(codes) == 2 and codes[0] == codes[1]


def test_a_compiler_of_the_users_is_asked_and_nothing_of_it_kept(tmp_path):
    codes = []
    ours = tvm.get_global_func(cuda.CALLBACK)
    with compiled_by(lambda code: pytest.fail("not asked")) as loaded:
        tvm.register_global_func(
            cuda.CALLBACK, lambda code: codes.append(code) or b"theirs", override=True
        )
        try:
            compiled(several(), cache=tmp_path)
            compiled(several(), cache=tmp_path)
        finally:
            tvm.register_global_func(cuda.CALLBACK, ours, override=True)
    assert loaded == [b"theirs"] * len(codes) and len(codes) == 2
    assert not (tmp_path / cuda.KIND).exists()
