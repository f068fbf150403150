"""Models from files of every kind, through the command line; what is none of them says so."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from command_line import refused, run
from tuning_runs import MadeUpRunner
from tvm import relax

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.commands import demo
from tvm_stitch.frontend.read import read

SAVED = Path(__file__).parents[1] / "frontend" / "relay" / "saved"
needs_compiler = pytest.mark.skipif(simt.available() is not None, reason="needs g++")


def softmax_with_a_constant():
    """A module with a constant that is no number."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            added = builder.emit(relax.op.add(x, relax.const(np.ones((2, 3), "float32"))))
            result = builder.emit_output(relax.op.nn.softmax(added))
        builder.emit_func_output(result)
    return builder.get()


@pytest.fixture
def onnx_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"])], "graph",
        [helper.make_tensor_value_info("x", kind, [4, 8])],
        [helper.make_tensor_value_info("y", kind, [4, 8])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def exported_model(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt2"
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU())
    torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), path)
    return path


def explained(capsys, path):
    code, out, err = run(capsys, "explain", str(path), "--target", "sm_90")
    assert (code, err) == (0, "")
    return out


def test_onnx(capsys, onnx_model):
    assert "1 of 1 kernel stitched" in explained(capsys, onnx_model)


def test_what_a_file_is_its_content_tells_and_not_its_name(capsys, onnx_model, exported_model):
    for path in (onnx_model, exported_model):
        renamed = path.with_suffix(".model")
        path.rename(renamed)
        explained(capsys, renamed)


def test_a_program_that_pytorch_exported(capsys, exported_model):
    assert "stitched" in explained(capsys, exported_model)


@pytest.mark.parametrize("name", ["movement.json", "movement.relay"])
def test_what_relay_saved(capsys, name):
    assert explained(capsys, SAVED / name)


@pytest.mark.parametrize("header", ["", "from tvm.script import ir as I\nimport numpy\n\n"])
def test_tvmscript(tmp_path, header):
    for number, mod in enumerate((demo.block(1, 2, 16, 32), softmax_with_a_constant())):
        path = tmp_path / f"model_{number}.py"
        path.write_text(header + mod.script(show_meta=True))
        tvm.ir.assert_structural_equal(read(str(path)), mod)


def test_a_file_in_tvmscript_is_not_run(tmp_path):
    path, witness = tmp_path / "model.py", tmp_path / "ran"
    path.write_text(
        f"open({str(witness)!r}, 'w')\n{softmax_with_a_constant().script(show_meta=True)}"
    )
    read(str(path))
    assert not witness.exists()


@needs_compiler
def test_places_are_lines_of_the_file(tmp_path):
    path = tmp_path / "ts.py"
    script = softmax_with_a_constant().script(show_meta=True)
    path.write_text(f'"""A module."""\n\n{script}', encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if "R.nn.softmax" in line)
    places = [source.place for source in tvm_stitch.explain(read(str(path)), "sm_90").sources]
    assert places[-1] == f"{path}:{number}"


def test_verify(capsys, onnx_model):
    code, out, err = run(capsys, "verify", str(onnx_model), "--target", "sm_90", "--orders", "2")
    assert (code, err) == (0, "")
    assert out.rstrip().endswith("ok") and "2 thread orders" in out
    assert "at least 1" in refused(capsys, "verify", str(onnx_model), "--orders", "0")


@pytest.fixture(params=["onnx_model", "exported_model", "relay_json", "relay_text", "tvmscript"])
def model_of_any_kind(request, tmp_path):
    if request.param.endswith("_model"):
        return request.getfixturevalue(request.param)
    if request.param == "tvmscript":
        path = tmp_path / "model.py"
        path.write_text(softmax_with_a_constant().script(show_meta=True))
        return path
    return SAVED / f"movement.{'json' if request.param == 'relay_json' else 'relay'}"


@pytest.mark.slow
def test_compile_and_tune_read_all_kinds(capsys, monkeypatch, model_of_any_kind, tmp_path):
    monkeypatch.setattr("tvm_stitch.tuning.tune.make_runner", lambda *_: MadeUpRunner())
    model, target = str(model_of_any_kind), ("--target", "sm_90")
    library, store = tmp_path / "model.so", tmp_path / "records.jsonl"
    code, _, err = run(capsys, "compile", model, "-o", str(library), *target)
    assert code == 0 and "error" not in err
    assert b"stitched_" in library.read_bytes()
    code, out, _ = run(capsys, "tune", model, *target, "--database", str(store), "--trials", "5")
    assert code == 0 and len(store.read_text().splitlines()) >= len(out.splitlines()[1:]) > 0


def test_files_that_hold_no_model(capsys, tmp_path):
    for name, content, message in (
        ("a.onnx", b"nonsense", "not an ONNX model"),
        ("a.onnx", b"nonsense", "torch.export.save"),
        ("a.pt2", b"nonsense", "save_json"),
        ("a.zip", b"PK\x05\x06" + b"\0" * 18, "torch.export.save"),
        ("a.py", b"x = 1\n", "TVMScript"),
        ("a.py", b"def main(", "TVMScript"),
        ("a.py", b"@I.ir_module\nclass A:\n    x = 1\n", "TVMScript that TVM cannot read"),
        ("a.txt", b"", "torch.export.save"),
        ("a.bin", b"\xff\xfe\x00", "no model"),
        ("a.relay", b'#[version = "0.0.5"]\nnonsense', "relay"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert message in refused(capsys, "explain", str(path)), name


@pytest.mark.slow
@pytest.mark.parametrize("package", ["onnx", "torch"])
def test_without_the_package_it_says_what_to_install(package, request):
    path = request.getfixturevalue({"onnx": "onnx_model", "torch": "exported_model"}[package])
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"from tvm_stitch.commands.cli import main; sys.exit(main(['explain', {str(path)!r}]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 2
    assert f"pip install 'tvm-stitch[{package}]'" in found.stderr
