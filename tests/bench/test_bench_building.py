"""The benchmark of builds, without a GPU: what is built in which order, what is told of it."""

import subprocess

import pytest

pytest.importorskip("torch")

import torch

from bench.building import __main__ as building
from bench.building import child
from bench.building.__main__ import COLD, SECOND, Todo, builds, measured
from bench.building.table import line, markdown
from bench.torch_models import registry, tries
from bench.torch_models.model import Model, Size


def row(system, what, seconds, **stages):
    times = {"seconds": seconds, "cpu_s": 5.0, "ready_s": 4.0, "stages": stages}
    return {"model": "bert", "system": system, "what": what, **times}


def test_each_model_is_built_with_empty_caches_and_once_more_with_what_was_kept(tmp_path):
    first, again, other, dynamo, _again, _other = builds(
        ["bert", "torch:bert"], ["stitch", "inductor"], ["stitch"], tmp_path
    )
    assert (first.system, first.what, again.what) == ("stitch", COLD, SECOND)
    assert first.cache == again.cache != other.cache
    assert dynamo.cache != first.cache


def test_models_of_pytorch_are_not_built_by_xla(tmp_path):
    (todo,) = builds(["torch:bert"], ["stitch", "xla"], [], tmp_path)
    assert todo.system == "stitch"


class Square(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.w, x.sum()


@pytest.mark.parametrize("asked", ["square", "square:step"])
def test_a_step_is_a_forward_and_a_backward_pass(asked, monkeypatch):
    module, modes = Square(), []
    model = Model("square", lambda size: module, lambda size: {"x": torch.arange(3.0)}, Size(1),
                  Size(1))  # fmt: skip
    monkeypatch.setattr(registry, "find", {"square": model}.__getitem__)
    monkeypatch.setattr(tries, "CUDA", "not here")
    monkeypatch.setitem(child.IMPORTS, "eager", ())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: modes.append(module.training))
    child.ready(f"torch:{asked}", "eager").run()
    assert modes == [asked == "square:step"]
    # The mean of three squares: two thirds of what is squared.
    gradient = None if module.w.grad is None else module.w.grad.tolist()
    expected = pytest.approx([0.0, 2 / 3, 8 / 3], rel=1e-2)
    assert gradient == (expected if asked == "square:step" else None)


def test_a_build_is_told_with_its_longest_stage_first():
    told = line(row("stitch", COLD, 9.75, planning=1.25, compiling=3.0, fusing=0.01))
    assert "tvm_stitch" in told and "9.8 s" in told
    assert "(compiling 3.0, planning 1.2)" in told
    assert line({"model": "m", "system": "xla", "what": COLD, "failed": "why"}).endswith("why")


def test_cold_builds_are_compared_with_those_of_torch_compile():
    rows = [row("stitch", COLD, 5.0), row("stitch", SECOND, 2.0), row("inductor", COLD, 10.0)]
    rows.append({"model": "vit", "system": "stitch", "what": COLD, "failed": "why"})
    lines = markdown(rows)
    assert lines[2] == "| bert | 5.0 | 2.0 | 10.0 | 50 % |"
    assert lines[3] == "| vit | failed |  |  |  |"


def test_a_build_that_dies_or_takes_too_long_is_told(tmp_path, monkeypatch):
    todo = Todo("bert", "stitch", COLD, tmp_path)
    dead = subprocess.CompletedProcess([], -11, "", "")
    monkeypatch.setattr(building.subprocess, "run", lambda *command, **named: dead)
    assert measured(todo, 10)["failed"] == "exit code -11"

    def late(*command, timeout, **named):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(building.subprocess, "run", late)
    assert measured(todo, 10)["failed"] == "the time was up"


@pytest.mark.slow
def test_a_build_that_fails_is_told_and_one_that_ends_has_its_stages(tmp_path):
    failed = measured(Todo("no-such-case", "stitch", COLD, tmp_path), 300)
    built = measured(Todo("lstm-cell", "stitch", COLD, tmp_path), 300)
    assert "failed" in failed
    assert built["seconds"] == pytest.approx(sum(built["stages"].values()), abs=0.1)
    assert built["stages"]["importing"] > 0 and built["stages"]["reading"] > 0
