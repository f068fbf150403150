"""The programs that watch kernels on a GPU, tried without one: a stand-in for compute-sanitizer."""

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from bench import compiled, determinism, functions, sanitize, sanitized  # noqa: E402
from bench.case import Array  # noqa: E402
from bench.compiled import Compiled  # noqa: E402
from bench.sanitize import Finding  # noqa: E402

CLEAN = {
    "memcheck": "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
    "racecheck": "========= COMPUTE-SANITIZER\n"
    "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
}
STRAY = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at main_kernel+0x1f0
========= ERROR SUMMARY: 3 errors
"""
# Finds three errors in "stray", nothing elsewhere; the program under it ends early at "crash".
STAND_IN = f"""#!{sys.executable}
import sys
cases = sys.argv[sys.argv.index("small") + 1:]
for case in cases:
    if case == "crash":
        sys.exit("CUDA: an illegal memory access was encountered")
    print("done: " + case)
print({STRAY!r} if "stray" in cases else {CLEAN["memcheck"]!r})
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    path = tmp_path / sanitize.PROGRAM
    path.write_text(STAND_IN)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_what_the_tools_count():
    assert sanitize.parse(CLEAN["memcheck"]) == (0, "")
    assert sanitize.parse(CLEAN["racecheck"]) == (0, "")
    errors, detail = sanitize.parse(STRAY)
    assert errors == 3
    assert detail == "Invalid __global__ write of size 16 bytes | at main_kernel+0x1f0"
    assert sanitize.parse("no summary, as when it was killed") == (None, "")


def test_a_finding_is_traced_to_its_case(tool, tmp_path):
    findings = {f.case: f for f in sanitize.watch("memcheck", tmp_path, "small", ["a", "stray"])}
    assert findings["a"] == Finding("a", "memcheck", 0)
    assert findings["stray"].errors == 3 and "Invalid" in findings["stray"].detail


def test_a_crash_without_a_finding_is_not_clean(tool, tmp_path):
    found = sanitize.watch("memcheck", tmp_path, "small", ["crash", "a"])
    assert [f.errors for f in found] == [None, 0]
    assert "illegal memory access" in found[0].detail


def test_every_case_is_in_one_share():
    cases = [str(number) for number in range(71)]
    shares = sanitize.shards(cases, 5)
    assert sorted(case for share in shares for case in share) == sorted(cases)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert max(map(len, sanitize.shards(cases, 1))) <= sanitize.LARGEST_SHARD


def test_the_table_shows_what_was_found(tool, tmp_path, monkeypatch, capsys):
    ready = [Compiled("softmax-mask", 1), Compiled("adam-step", error="InternalError: a | b")]
    monkeypatch.setattr(sanitize, "missing", lambda: None)
    monkeypatch.setattr(sanitize.environment, "machine", lambda: {"gpu": "Test GPU"})
    monkeypatch.setattr(sanitize, "compile_cases", lambda *arguments: iter(ready))
    arguments = ["--cases", "softmax-mask", "--cases", "adam-step", "--tools", "memcheck"]
    assert sanitize.main([*arguments, "--output", str(tmp_path / "out")]) == 1
    assert "1 of 2 cases, memcheck: NOT CLEAN" in capsys.readouterr().out
    table = (tmp_path / "out/sanitize.md").read_text()
    assert "| softmax-mask | 1 | 0 |" in table and "| adam-step | not compiled | – |" in table
    stored = json.loads((tmp_path / "out/sanitize.json").read_text())
    assert stored["findings"] == [
        {"case": "softmax-mask", "tool": "memcheck", "errors": 0, "detail": ""}
    ]


@pytest.mark.parametrize("arguments", (["--tools", "nocheck"], ["--cases", "no-such-case"], []))
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_wrong_use_and_no_gpu_are_one_line(arguments, capsys):
    assert sanitize.main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_a_case_becomes_a_library_that_says_how_many_kernels_it_has(tmp_path):
    (found,) = compiled.compile_cases(["lstm-cell"], True, tmp_path, 1)
    assert found == Compiled("lstm-cell", kernels=1)
    assert compiled.library(tmp_path, "lstm-cell").exists()


def test_what_cannot_be_compiled_says_so(tmp_path):
    found = compiled._compile("no-such-case", True, tmp_path)
    assert found.error and not found.kernels


@pytest.mark.parametrize("fill", ("normal", "uniform", "index", "mask"))
def test_large_inputs_repeat_small_ones(fill):
    array = Array((1025, 1024), "int64" if fill == "index" else "float32", fill, high=5)
    made = sanitized.filled(array, torch.Generator().manual_seed(0))
    assert made.shape == (1025, 1024) and made.dtype == getattr(torch, array.dtype)
    again = made.view(-1)[sanitized.DRAWN :]
    assert len(again) > 1000 and torch.equal(made.view(-1)[: len(again)], again)


def outputs_of(*values):
    """A call that returns one array, another at each call."""
    pending = [torch.tensor([value]) for value in values]
    return lambda: [pending.pop(0)]


def alone(number):
    return contextlib.nullcontext()


def test_bits_are_compared_and_not_values():
    nan = float("nan")
    assert determinism.repeat("a", outputs_of(nan, nan, nan), alone, 3).differing == 0
    assert determinism.repeat("a", outputs_of(0.0, -0.0, 0.0), alone, 3).differing == 1
    found = determinism.repeat("a", outputs_of(1.0, 1.0 + 2**-23, 1.0 + 2**-23), alone, 3)
    assert (found.outputs, found.bytes, found.differing) == (1, 4, 2)


def test_the_table_of_repeated_calls():
    rows = [{"case": "a", "outputs": 1, "bytes": 2**20, "differing": 0, "error": ""},
            {"case": "b", "outputs": 0, "bytes": 0, "differing": 0, "error": "x | y"}]  # fmt: skip
    about = {"machine": {"gpu": "Test GPU"}, "date": "today", "command": "c"}
    lines = determinism.table({**about, "rows": rows})
    assert "| a | 1 | 1.0 | 0 |" in lines and "| b | – | – | x / y |" in lines


def test_the_table_of_functions():
    rows = [{"function": "erf", "way": way.name, "error": 10.0**-number}
            for number, way in enumerate(functions.WAYS)]  # fmt: skip
    about = {"machine": {"gpu": "Test GPU"}, "date": "today", "command": "c"}
    lines = functions.table({**about, "rows": rows})
    assert lines[-3:] == [
        "| function | precise | default | fast_math |",
        "|---|---:|---:|---:|",
        "| erf | 1.0e+00 | 1.0e-01 | 1.0e-02 |",
    ]


def test_variables_are_set_for_a_while(monkeypatch):
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvrtc")
    monkeypatch.delenv("TVM_CUDA_NVCC_NO_FAST_MATH", raising=False)
    with functions.set_for_a_while(functions.PRECISE):
        assert os.environ["TVM_CUDA_COMPILE_MODE"] == "nvcc"
    assert os.environ["TVM_CUDA_COMPILE_MODE"] == "nvrtc"
    assert "TVM_CUDA_NVCC_NO_FAST_MATH" not in os.environ


def test_the_watched_process_is_a_module_of_this_package():
    command = sanitize.command("memcheck", Path("f"), "small", ["a"])
    assert command[-5:] == ["-m", "bench.sanitized", "f", "small", "a"]


def test_metaschedule_finds_tasks_in_what_it_is_given():
    import tvm
    from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

    from bench.cases import find
    from bench.importing import to_relax_by_shape
    from bench.systems.tvm import fused

    module = to_relax_by_shape(find("log-softmax-wide").workload(small=True))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024})
    assert not extract_tasks(module, target)
    assert extract_tasks(fused(module, target), target)


def test_fast_maths_are_measured_by_name_only():
    from bench.systems import all_systems

    assert all_systems()["stitch-fast"].optional and not all_systems()["stitch"].optional
    assert all_systems()["stitch-traced"].optional


@pytest.mark.parametrize("kind, name", [("batch", "layer-norm"), ("both", "softmax-mask")])
def test_symbolic_twins_have_symbols_of_known_sizes(kind, name):
    from bench import symbolic
    from bench.cases import find
    from bench.importing import to_relax_by_shape
    from bench.systems import all_systems

    workload = find(name).workload(small=False)
    system = all_systems()[f"stitch-{kind}"]
    assert system.optional and system.supports(workload) is None
    dims = symbolic.dims_of(workload.arrays, kind)
    sizes = symbolic.sizes_of(to_relax_by_shape(workload, dims), workload.arrays)
    assert set(sizes.values()) == {(workload.arrays[0].shape[dim],) for dim in dims[0]}


def test_cases_without_a_length_have_no_twin_with_a_symbolic_one():
    from bench.cases import find
    from bench.systems import all_systems

    workload = find("layer-norm").workload(small=True)
    assert all_systems()["stitch-length"].supports(workload) == "it has no length"
