"""A compiled module calls the shim: at once, from a library in a fresh process, or says why not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from check import H200
from library_stand_in import folder, stand_in
from products_with_endings import product
from tvm import relax

import tvm_stitch
from tvm_stitch import Options, library
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.kernel.library_product import build as library_product
from tvm_stitch.library import locate
from tvm_stitch.verify import rounded, stitched_for_cpu

ROOT = Path(__file__).parents[2]


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(library_product, "library_us", lambda *_, **__: 0.0)
    with stand_in(monkeypatch) as found:
        yield found


def on_host(case, options=None):
    """The executable of a module of which the library has everything, for memory of the host."""
    return tvm.compile(stitched_for_cpu(case.module, H200, options), "llvm")


def arrays_of(case):
    return rounded(case.module, case.arrays)


def case_of(dtype="float32"):
    return product(dtype, 33, 72, 40, "residual bias", batch=3, transposed=True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_module_calls_the_shim(seen, dtype):
    case, before = case_of(dtype), seen.multiplied
    machine = relax.VirtualMachine(on_host(case), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(array) for array in arrays_of(case))).numpy()
    assert seen.multiplied == before + 1 and seen.workspace == library_product.WORKSPACE_BYTES
    close = 1e-5 if dtype == "float32" else 2e-2
    assert found == pytest.approx(case.expected[0], rel=close, abs=close)


@pytest.mark.parametrize(
    "options", (Options(timed_products=True), Options(timed_convolutions=True)), ids=str
)
def test_a_module_asks_for_the_fastest_algorithm(seen, captures, options):
    case = product("float32", 34, 72, 40, "bias")
    machine = relax.VirtualMachine(on_host(case, options), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(array) for array in arrays_of(case))).numpy()
    assert found == pytest.approx(case.expected[0], rel=1e-5, abs=1e-5)
    assert seen.algorithm == (43 if options.timed_products else 42)


def test_a_module_rounds_to_tf32_on_request(seen):
    """In the library as by NumPy, which the executor calls."""
    case = product("float32", 33, 256, 40, "bias")
    found = {}
    for tf32 in (False, True):
        options = Options(tf32_products=tf32)
        machine = relax.VirtualMachine(on_host(case, options), tvm.cpu())
        found[tf32] = machine["main"](*map(tvm.runtime.tensor, arrays_of(case))).numpy()
        runner = Runner(stitched_for_cpu(case.module, H200, options), H200)
        assert runner.run(arrays_of(case), seed=0)[0] == pytest.approx(found[tf32], abs=1e-4)
    errors = {tf32: np.abs(each - case.expected[0]).max() for tf32, each in found.items()}
    assert errors[False] < 1e-5 and 1e-3 < errors[True] < 3e-2


RUN = """
import sys
import numpy as np, tvm
{imports}
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
arrays = np.load(sys.argv[2])
print(machine["main"](*(tvm.runtime.tensor(arrays[name]) for name in arrays)).numpy().sum())
"""


def run(tmp_path, imports, **environment):
    """What a fresh process says that loads and calls an exported library."""
    script = [sys.executable, "-c", RUN.format(imports=imports)]
    script += [str(tmp_path / "model.so"), str(tmp_path / "arrays.npz")]
    changed = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(script, capture_output=True, text=True, env=changed)


@pytest.mark.slow
def test_a_library_in_a_fresh_process(seen, tmp_path):
    case = case_of()
    on_host(case).export_library(str(tmp_path / "model.so"))
    np.savez(tmp_path / "arrays.npz", *arrays_of(case))
    told = {locate.FOLDER: str(folder())}
    done = run(tmp_path, "import tvm_stitch", **told)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(case.expected[0].sum(), rel=1e-4)
    missing = run(tmp_path, "import tvm_stitch", **{locate.FOLDER: locate.OFF})
    assert "which TVM_STITCH_LIBRARIES=off forbids" in missing.stderr
    unknown = run(tmp_path, "", **told)
    assert "tvm_stitch.library.matmul" in unknown.stderr


@pytest.mark.slow
def test_a_library_that_brings_the_shim_needs_tvm_alone(seen, tmp_path):
    case = case_of()
    on_host(case).export_library(str(tmp_path / "model.so"), addons=library.addons())
    np.savez(tmp_path / "arrays.npz", *arrays_of(case))
    told = {locate.FOLDER: str(folder())}
    for imports in ("", "import tvm_stitch"):
        done = run(tmp_path, imports, **told)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) == pytest.approx(case.expected[0].sum(), rel=1e-4)
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    missing = run(tmp_path, "", **{locate.FOLDER: str(nowhere)})
    assert "pip install nvidia-cublas" in missing.stderr


def test_a_cuda_module_is_built_and_exported(seen, tmp_path):
    for dtype in ("float32", "float16", "bfloat16"):
        built = tvm_stitch.compile(case_of(dtype).module, H200)
        built.export_library(str(tmp_path / f"{dtype}.so"))
        exported = (tmp_path / f"{dtype}.so").read_bytes()
        assert b"tvm_stitch.library.matmul" in exported and b"cublasLtMatmul" in exported
