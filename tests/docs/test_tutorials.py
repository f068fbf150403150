"""Every tutorial runs from top to bottom, without a GPU, and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_stitch import simt

TUTORIALS = Path(__file__).parents[2] / "tutorials"


def run(name: str) -> str:
    """The output of a tutorial in a process of its own."""
    found = subprocess.run(
        [sys.executable, str(TUTORIALS / name)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def number(pattern: str, output: str) -> int:
    """The number that a line of the output holds."""
    found = re.search(pattern, output)
    assert found, f"{pattern!r} is not in:\n{output}"
    return int(found[1])


@pytest.mark.slow
def test_quickstart():
    output = run("1_quickstart.py")
    assert number(r"after +(\d+) kernel launch", output) == 1
    assert number(r"before .* (\d+) kernel launch", output) > 1
    assert "'mean': 'regional'" in output
    assert "__global__" in output


@pytest.mark.slow
def test_in_your_pipeline():
    output = run("2_in_your_pipeline.py")
    stitched = number(r"tvm_stitch\.pipeline: +(\d+) kernel launches", output)
    assert stitched < number(r"default pipeline: +(\d+) calls", output)
    legalized, fused = map(int, re.findall(r"^ +(\d+) calls of TIR functions", output, re.M))
    assert fused < legalized
    assert "the same stitched kernels as the drop-in's: True" in output
    assert stitched < number(r"local scheme alone: (\d+)", output)
    assert "switched off" in output


@pytest.mark.slow
@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
def test_tuning():
    output = run("3_tuning.py")
    assert number(r"accesses +[\d.]+ +(\d+)  64 x 77 float32", output) == 10
    assert "the same once more: True" in output
    assert re.search(r"^origin: tuned by accesses for 64 x 77$", output, re.M)
    assert output.endswith("records: 10\n")
    assert "compiled: Executable" in output


@pytest.mark.slow
def test_reading_a_plan():
    output = run("4_reading_a_plan.py")
    assert "sum -> sum, 2048 bytes: scores_red and sums_red reduce different rows" in output
    assert "matmul: a matrix product or convolution" in output
    assert re.search(r"optimal, gap 0\.0%", output)
    assert "the pinned plan is followed: True" in output
    assert "the regional scheme is switched off" in output
    assert number(r"bytes of HTML: (\d+)", output) > 1000


@pytest.mark.slow
def test_how_stitching_works():
    output = run("5_how_stitching_works.py")
    schemes = re.findall(r"^scheme: +(\w+)$", output, re.M)
    assert schemes == ["warp", "regional", "cluster", "global", "independent"]
    for barrier in ("warp_reduce", "__syncthreads", "tvm_stitch_send", "grid_sync", "} else {"):
        assert barrier in output
    if simt.available() is None:
        assert len(re.findall(r"in two orders: as NumPy says$", output, re.M)) == len(schemes)
    stages = re.findall(r"^  (\d\d)_(\w+)\.\w+ +[1-9]\d* lines", output, re.M)
    names = ("relax", "decomposed", "graph", "plan", "programs", "schedules", "phases")
    names = [*names, "tir", "cuda"]
    assert stages == [(f"{number:02}", name) for number, name in enumerate(names, 1)]
    before, after = map(int, re.search(r"GELU: (\d+) and (\d+);", output).groups())
    assert after == 1 < before


@pytest.mark.slow
@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
def test_a_hugging_face_model():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    output = run("6_a_hugging_face_model.py")
    assert number(r"part: +(\d+) operators in \d kernel", output) > 5
    assert "scaled_dot_product" in output
    assert "tuned: as eager says" in output


@pytest.mark.slow
@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
def test_a_training_loop():
    pytest.importorskip("torch")
    output = run("7_a_training_loop.py")
    assert len(re.findall(r"^step", output, re.M)) == 5
    assert "graphs: forward 0, backward 0, inference 0" in output
    assert "stitched: True" in output and "stitched: False" not in output
    assert number(r"under autocast: \d+ graphs?, (\d+) stitched part", output) > 0


@pytest.mark.slow
def test_from_onnx_to_a_library():
    pytest.importorskip("onnx")
    output = run("8_from_onnx_to_a_library.py")
    assert "R.nn.softmax" in output and "shape_of" not in output
    assert "1 of 1 kernel stitched" in output
    assert number(r"heads\.so: (\d+) bytes", output) > 1000


@pytest.mark.slow
def test_relay_build():
    output = run("relay_build.py")
    assert "the output is NumPy's" in output


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.py")), ids=lambda path: path.name)
def test_every_tutorial_is_tested(path):
    assert path.name in Path(__file__).read_text(encoding="utf-8")
