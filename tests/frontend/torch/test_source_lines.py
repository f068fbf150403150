"""Kernels of a PyTorch model know the lines of Python that they come from."""

import inspect

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.report import explain  # noqa: E402


class Scores(torch.nn.Module):
    def forward(self, x):
        scaled = x * 0.5 + x
        return torch.softmax(scaled, -1)


LINES, FIRST = inspect.getsourcelines(Scores.forward)


def test_every_stage_has_the_line_of_its_operator():
    exported = torch.export.export(Scores(), (torch.randn(4, 8),))
    report = explain(tvm_stitch.torch.load(exported), "sm_90")
    (kernel,) = report.kernels
    found = {
        stage.operator: {report.sources[place].place for place in stage.sources}
        for stage in kernel.stages
    }
    scaled, softmax = (f"{__file__}:{FIRST + n}" for n in (1, 2))
    assert found["multiply"] == found["add"] == {scaled}
    assert found["max"] == found["exp"] == found["divide"] == {softmax}
