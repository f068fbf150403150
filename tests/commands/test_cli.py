"""The command line: what it prints, what it writes, and exit codes for right and wrong use."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from command_line import refused, run
from tuning_runs import MadeUpRunner, softmax_model
from tvm import relax, tirx

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.commands import cli, demo
from tvm_stitch.reference import reference

needs_compiler = pytest.mark.skipif(simt.available() is not None, reason="needs g++")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A saved model."""
    path = tmp_path_factory.mktemp("model") / "block.json"
    path.write_text(tvm.ir.save_json(demo.block(1, 2, 16, 32)))
    return str(path)


def test_explain_prints_the_report(capsys, model):
    code, out, err = run(capsys, "explain", model, "--target", "sm_80")
    assert (code, err) == (0, "")
    report = tvm_stitch.report.explain(demo.block(1, 2, 16, 32), "sm_80")
    (found, time), (expected, _) = (text.split("\ntime ") for text in (out, str(report)))
    assert found == expected and "planning" in time


def test_explain_writes_a_page(capsys, model, tmp_path):
    code, _, _ = run(capsys, "explain", model, "--html", str(tmp_path / "report.html"))
    assert code == 0
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_refused_first(capsys, model, tmp_path):
    missing = str(tmp_path / "missing" / "report.html")
    code, out, err = run(capsys, "explain", model, "--html", missing)
    assert (code, out) == (2, "") and f"cannot write {missing}" in err


def test_explain_as_json(capsys, model):
    code, out, _ = run(capsys, "explain", model, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["launches"] < data["before"]["launches"]
    assert any(kernel["scheme"] == "warp" for kernel in data["kernels"])


def test_compile_writes_a_library_with_the_stitched_kernels(capsys, model, tmp_path):
    output = tmp_path / "block.so"
    code, out, _ = run(capsys, "compile", model, "-o", str(output), "--target", "sm_80")
    assert code == 0 and str(output) in out and "sm_80" in out
    # Loading it takes a GPU's driver; the kernels' names stand in the file all the same.
    assert b"stitched_" in output.read_bytes()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["demo", "--help"], ["explain", "--help"], ["tune", "--help"]]
)
def test_help(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "") and out.startswith("usage: tvm-stitch")


def test_help_of_every_command_is_listed(capsys):
    _, out, _ = run(capsys, "--help")
    commands = ("demo", "explain", "compile", "verify", "tune", "profile", "diff", "cache", "bench")
    for command in commands:
        assert f"tvm-stitch {command}" in out
    assert run(capsys, "compile", "--help")[0] == 0


@pytest.mark.slow
def test_version_as_a_process():
    command = [sys.executable, "-m", "tvm_stitch", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == f"tvm-stitch {tvm_stitch.__version__} (apache-tvm {tvm.__version__})\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["explain"], ["explain", "a", "--jsonn"]])
def test_wrong_arguments(capsys, arguments):
    assert "usage: tvm-stitch" in refused(capsys, *arguments)


@pytest.mark.parametrize("command", [["explain"], ["compile", "-o", "out.so"]])
def test_files_that_are_no_models(capsys, tmp_path, command):
    missing = tmp_path / "missing.json"
    err = refused(capsys, *command, str(missing))
    assert "No such file" in err and "an ONNX model" in err
    assert "directory" in refused(capsys, *command, str(tmp_path))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\x7fELF\xff\xfe")
    assert "is not text" in refused(capsys, *command, str(binary))
    for text in (
        "",
        "{",
        "[]",
        "{}",
        '{"root_index": 0, "nodes": [{"type": "x"}]}',
    ):
        broken = tmp_path / "broken.json"
        broken.write_text(text)
        assert "save_json" in refused(capsys, *command, str(broken))


def test_a_report_is_no_model_but_can_be_compared(capsys, model, tmp_path):
    report = tmp_path / "report.json"
    report.write_text(run(capsys, "explain", model, "--json")[1])
    assert "tvm-stitch diff OLD NEW" in refused(capsys, "verify", str(report))


def test_json_of_something_else_than_a_module(capsys, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(tvm.ir.save_json(tvm.tirx.Var("x", "int64")))
    assert "Var" in refused(capsys, "explain", str(path))
    path.write_text(tvm.ir.save_json(tvm.IRModule({})))
    assert "no Relax function" in refused(capsys, "explain", str(path))


@pytest.mark.parametrize("target", ["llvm", "nonsense", "sm_20", "sm_999", "H300", "{"])
def test_targets_that_will_not_do(capsys, model, target):
    err = refused(capsys, "explain", model, "--target", target)
    assert "target" in err and (target == "{" or "sm_90" in err or "sm_70" in err)
    assert "target" in refused(capsys, "demo", "--target", target)


def test_outputs_that_cannot_be_written(capsys, model, tmp_path):
    nowhere = tmp_path / "nowhere" / "out.so"
    assert "no folder" in refused(capsys, "compile", model, "-o", str(nowhere))
    assert ".so" in refused(capsys, "compile", model, "-o", str(tmp_path / "out.txt"))
    folder = tmp_path / "folder.so"
    folder.mkdir()
    assert "Is a directory" in refused(capsys, "compile", model, "-o", str(folder))
    assert f"cannot write /proc{os.sep}out.so" in refused(
        capsys, "compile", model, "-o", "/proc/out.so"
    )
    kept = tmp_path / "kept.so"
    kept.write_text("as it was")
    refused(capsys, "compile", str(tmp_path / "missing.json"), "-o", str(kept))
    assert kept.read_text() == "as it was"


def test_compile_without_a_linker(capsys, monkeypatch, model, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    code, out, err = run(capsys, "compile", model, "-o", str(tmp_path / "out.so"))
    assert (code, out) == (1, "")
    assert "apt-get install g++" in err and len(err.splitlines()) == 1


def test_bench_is_handed_its_arguments(capsys):
    code, out, _ = run(capsys, "bench", "--help")
    assert code == 0 and out.startswith("usage: bench")
    assert run(capsys, "bench", "--nonsense")[0] == 2


def test_bench_outside_of_a_checkout(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bench.cli", None)
    code, out, err = run(capsys, "bench")
    assert (code, out) == (2, "") and "checkout" in err and len(err.splitlines()) == 1


@pytest.fixture
def made_up(monkeypatch):
    """Tuning measures by a formula."""
    monkeypatch.setattr("tvm_stitch.tuning.tune.make_runner", lambda *_: MadeUpRunner())


@pytest.mark.slow
def test_tune_then_build_with_the_records(capsys, made_up, model, tmp_path):
    store = str(tmp_path / "records.jsonl")
    command = ("tune", model, "--target", "sm_90", "--database", store, "--trials", "9")
    code, out, err = run(capsys, *command)
    assert code == 0
    kernels = out.splitlines()[1:]
    # Without xgboost there is a warning as well.
    bars = [line for line in err.splitlines() if "warning:" not in line]
    assert len(kernels) == len(bars) > 1
    assert all(re.search(r" us .* us +\d\.\d{3}  +\d ", line) for line in kernels)
    assert "9/9 best" in err
    code, out, _ = run(capsys, "explain", model, "--target", "sm_90", "--database", store)
    assert code == 0 and "(tuned)" in out
    library = str(tmp_path / "model.so")
    code, out, _ = run(
        capsys, "compile", model, "--target", "sm_90", "-o", library, "--database", store
    )
    assert code == 0 and "model.so" in out


@pytest.mark.slow
def test_tune_a_symbolic_model_for_some_sizes(capsys, made_up, tmp_path):
    model, store = tmp_path / "model.json", str(tmp_path / "records.jsonl")
    symbolic = softmax_model(tirx.Var("batch", "int64"), tirx.Var("seq", "int64"))
    model.write_text(tvm.ir.save_json(symbolic))
    command = ("tune", str(model), "--target", "sm_90", "--database", store, "--trials", "4")
    err = refused(capsys, *command)
    assert "nothing was tuned: sizes of batch, seq are not known" in err
    assert '--shapes "batch=1,8;seq=1,8"' in err
    assert '--shapes "seq=1,8"' in refused(capsys, *command, "--shapes", "batch=64")
    code, out, _ = run(capsys, *command, "--shapes", "batch=64,4096;seq=256")
    assert code == 0
    titles = [line.split("  ")[-1].split(" float32")[0] for line in out.splitlines()[1:]]
    assert titles == ["64 x 256", "4096 x 256"]
    code, out, _ = run(capsys, "explain", str(model), "--target", "sm_90", "--database", store)
    assert code == 0


def lines(path: str) -> int:
    return len(Path(path).read_text().splitlines())


@pytest.mark.slow
def test_looking_after_stores(capsys, made_up, model, tmp_path):
    store, other, kept = (str(tmp_path / f"{name}.jsonl") for name in ("one", "two", "kept"))
    for path, seed in ((store, "0"), (other, "1")):
        options = ("--target", "sm_90", "--database", path, "--trials", "9", "--seed", seed)
        assert run(capsys, "tune", model, *options)[0] == 0
    before, added = lines(store), lines(other)
    code, out, _ = run(capsys, "tune", "--merge", other, "--database", store)
    assert (code, out) == (0, f"{added} records added to {store}\n")
    with open(store, "a") as file:
        file.write("scribble\n")
    code, out, err = run(capsys, "tune", "--list", "--database", store)
    assert code == 0 and "not JSON" in err
    assert re.search(r"us +\d\.\d{3} +1[78] 20\d\d-\d\d-\d\d  H200, tvm_stitch 0\.1, ", out)
    code, out, _ = run(capsys, "tune", "--list", "--json", "--database", store)
    listed = json.loads(out)
    assert code == 0 and {each["trials"] for each in listed} <= {17, 18}
    assert all(each["unit"] == "us" and each["gain"] >= 1 for each in listed)
    assert run(capsys, "tune", "--export", kept, "--database", store)[0] == 0
    assert lines(kept) < before
    assert "--merge adds" in refused(capsys, "tune", "--export", kept, "--database", store)
    code, out, _ = run(capsys, "tune", "--prune", "--database", store)
    assert code == 0 and "records kept" in out
    # What is no record is kept as well: a newer tvm_stitch may read it.
    assert lines(store) == lines(kept) + 1


def test_a_store_with_a_broken_line_is_used_with_a_warning(capsys, made_up, model, tmp_path):
    store = tmp_path / "records.jsonl"
    store.write_text('{"capability": 90, "co')
    code, _, err = run(capsys, "explain", model, "--target", "sm_90", "--database", str(store))
    assert code == 0
    assert err == f"tvm-stitch: warning: {store}, line 1: not JSON, or cut off\n"


def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(capsys, model, tmp_path):
    scribble = tmp_path / "records.jsonl"
    scribble.write_text("scribble\n")
    for path in (str(scribble), model):
        before = Path(path).read_text()
        for command in (
            ("explain", model), ("tune", model), ("compile", model, "-o", str(tmp_path / "out.so")),
            ("tune", "--list"), ("tune", "--prune"),
        ):  # fmt: skip
            options = () if "--list" in command or "--prune" in command else ("--target", "sm_90")
            err = refused(capsys, *command, *options, "--database", path)
            assert f"{path} is no record store: line 1" in err
        assert Path(path).read_text() == before


def test_an_interrupted_search_says_how_to_go_on(capsys, monkeypatch, model, tmp_path):
    runner = MadeUpRunner(breaks_after=3)
    monkeypatch.setattr("tvm_stitch.tuning.tune.make_runner", lambda *_: runner)
    store = str(tmp_path / "records.jsonl")
    code, out, err = run(capsys, "tune", model, "--target", "sm_90", "--database", store)
    assert (code, out) == (130, "")
    assert "the same command goes on from here" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    (
        ((), "needs --database"),
        (("--database", "records.jsonl"), "needs a model"),
        (("--list", "--database", "no.jsonl"), "no.jsonl: make one with `tvm-stitch tune MODEL"),
        (("MODEL", "--database", "r.jsonl", "--trials", "0"), "trials must be at least 1"),
        (("MODEL", "--database", "r.jsonl", "--shapes", "n"), "is not of the form"),
        (("MODEL", "--database", "r.jsonl", "--shapes", "n=2"), "no symbolic dimension 'n'"),
        (("MODEL", "--database", "r.jsonl", "--runner", "rpc"), "needs a tracker"),
        (("--serve", "127.0.0.1:1", "--runner", "simt"), "no TVM RPC tracker at 127.0.0.1:1"),
        (("--serve", "somewhere", "--runner", "simt"), "not of the form host:port"),
    ),
)
def test_wrong_use_of_tune(capsys, monkeypatch, model, tmp_path, arguments, why):
    monkeypatch.chdir(tmp_path)
    given = [model if argument == "MODEL" else argument for argument in arguments]
    assert why in refused(capsys, "tune", *given, "--target", "sm_90")


@pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
def test_tuning_without_a_gpu_names_the_other_runners(capsys, model, tmp_path):
    store = str(tmp_path / "records.jsonl")
    err = refused(capsys, "tune", model, "--target", "sm_90", "--database", store)
    assert "--runner simt" in err and 'runner="simt"' in err


@pytest.mark.parametrize("shell", cli.SHELLS)
def test_completion_knows_every_command(capsys, shell):
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0 and "profile" in out and "fail-on" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [("prof", "profile"), ("diff --fail-on sl", "slower"), ("explain mod", "model.onnx")],
)
def test_bash_completes(capsys, tmp_path, words, expected):
    script = tmp_path / "completion.bash"
    script.write_text(run(capsys, "completion", "bash")[1])
    (tmp_path / "model.onnx").touch()
    given = f"COMP_WORDS=(tvm-stitch {words}); COMP_CWORD={len(words.split())}"
    commands = f'source {script}; {given}; _shtab_tvm_stitch; echo "${{COMPREPLY[@]}}"'
    found = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [expected]


@needs_compiler
def test_the_demo(capsys):
    code, out, err = run(capsys, "demo")
    assert (code, err) == (0, "")
    before = int(re.search(r"^before .* (\d+) kernel launches", out, re.M)[1])
    after = int(re.search(r"^after +(\d+) kernel launches", out, re.M)[1])
    assert after < before
    # Eight products of 64 rows, all of which are stitched.
    assert "0 are TVM's own matrix products" in out
    assert "in 3 thread orders" in out and "\nok\n" in out


@pytest.mark.slow
@needs_compiler
def test_the_demo_as_json(capsys):
    code, out, err = run(capsys, "demo", "--json")
    data = json.loads(out)
    assert (code, err) == (0, "") and data["verification"]["ok"]
    assert data["report"]["launches"] < data["report"]["before"]["launches"]
    assert (data["milliseconds"] is None) != tvm.cuda(0).exist


def test_every_command_with_a_table_takes_json():
    (commands,) = (each.choices for each in cli.parser()._actions if hasattr(each.choices, "keys"))
    without = {
        name for name, each in commands.items() if "--json" not in each._option_string_actions
    }
    # The benchmarks have a parser of their own.
    assert without == {"compile", "completion", "bench"}


def test_the_demo_without_a_compiler(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_STITCH_CACHE", str(tmp_path))
    monkeypatch.setenv("TVM_STITCH_CXX", "no-such-compiler")
    code, out, err = run(capsys, "demo")
    assert code == 1
    assert "kernel launches" in out and "stitched_" in out
    assert "apt-get install g++" in err and len(err.splitlines()) == 1


def test_the_block_is_a_transformer_block():
    """The model against NumPy formulas written on their own."""
    batch, heads, tokens, features = size = (2, 2, 8, 16)
    mod = demo.block(*size)
    arrays = demo.inputs(mod)
    named = {p.name: a.astype("float64") for p, a in zip(mod["main"].params, arrays, strict=True)}

    def by_head(name):
        projected = (named["x"] @ named[name]).reshape(batch, tokens, heads, -1)
        return projected.transpose(0, 2, 1, 3)

    def norm(rows, which):
        scaled = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return scaled * named[f"{which}_scale"] + named[f"{which}_shift"]

    scores = by_head("query") @ by_head("key").swapaxes(-1, -2) / math.sqrt(features // heads)
    powers = np.exp(scores + named["mask"] - (scores + named["mask"]).max(-1, keepdims=True))
    mixed = powers / powers.sum(-1, keepdims=True) @ by_head("value")
    together = mixed.transpose(0, 2, 1, 3).reshape(batch * tokens, features)
    attended = norm(together @ named["out"] + named["out_bias"] + named["x"], "norm1")
    inner = attended @ named["widen"] + named["widen_bias"]
    inner = 0.5 * inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    update = inner @ named["narrow"] + named["narrow_bias"]
    (found,) = reference(mod, arrays)
    np.testing.assert_allclose(found, norm(update + attended, "norm2"), rtol=1e-6, atol=1e-6)


def test_timing_calls_the_model():
    mod = demo.block(1, 2, 8, 16)
    executable = tvm.compile(mod, "llvm")
    assert 0 < demo.milliseconds(executable, tvm.cpu(), demo.inputs(mod)) < 1000


def test_verify_as_json(capsys, tmp_path):
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(out)
    path = tmp_path / "model.json"
    path.write_text(tvm.ir.save_json(builder.get()))
    code, out, _ = run(capsys, "verify", str(path), "--target", "sm_90", "--json")
    found = json.loads(out)
    assert code == 0 and found["ok"] and found["hazards"] == []
    assert found["errors"][0]["ok"] and found["errors"][0]["dtype"] == "float32"
