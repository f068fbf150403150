"""explain: the parts of a PyTorch model, their kernels, what is left, without a GPU."""

import json

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402

nn = torch.nn


def test_a_model_with_its_gradients():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 300), nn.LayerNorm(300), nn.Linear(300, 8), nn.Softmax(-1))
    report = tvm_stitch.torch.explain(model, torch.randn(4, 8), target="sm_90")
    assert report.graphs == ("forward 0", "backward 0")
    assert all(part.kernels.kernels for part in report.parts)
    assert "mm" in {each.operator for each in report.left}
    text = str(report)
    assert "2 graphs" in text
    assert "a product of float32 of this size is a library's" in text
    json.dumps(report.to_json())
    assert all(parameter.grad is None for parameter in model.parameters())
