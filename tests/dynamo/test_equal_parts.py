"""Layers of a model are equal, and so are their parts, whatever order they were found in."""

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

nn = torch.nn
LAYERS = 4


class Layer(nn.Module):
    """Attention and a network behind it, with what is added to both in many small operators."""

    def __init__(self):
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        first, second = self.norms
        *three, out = self.projections
        heads = (project(first(x)).unflatten(-1, (2, 4)).transpose(1, 2) for project in three)
        attended = nn.functional.scaled_dot_product_attention(*heads)
        x = x + out(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(second(x))))


def model():
    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(LAYERS))).eval()


@pytest.mark.slow
def test_they_are_compiled_once():
    torch._dynamo.reset()
    layers, ours, x = model(), GraphCompiler(Settings(device=LLVM)), torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(layers, backend=ours)(x), layers(x))
    assert len(ours.log.report().parts) == LAYERS + 1
    assert len(ours.machines) == 3  # before, between and behind attentions


@pytest.mark.slow
def test_they_are_planned_once(monkeypatch):
    torch._dynamo.reset()
    planned = []
    explain = tvm_stitch.explain
    backend = "tvm_stitch.dynamo.backend.explain"
    monkeypatch.setattr(backend, lambda *given: planned.append(given) or explain(*given))
    with torch.no_grad():
        report = tvm_stitch.torch.explain(model(), torch.randn(2, 5, 8), target="sm_90")
    assert len(report.parts) == LAYERS + 1 and len(planned) == 3
    assert all(part.kernels.kernels for part in report.parts)
