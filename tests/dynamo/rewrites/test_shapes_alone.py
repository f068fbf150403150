"""Images whose shape alone a gradient asks for are not kept for it."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo import backend  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

functional = torch.nn.functional
POOLINGS = {
    "average": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x: functional.adaptive_avg_pool2d(x, 2),
    "largest": lambda x: functional.max_pool2d(x, 2),
    "mirrored": lambda x: functional.pad(x, (1, 2, 1, 1), mode="reflect"),
    "repeated": lambda x: functional.pad(x, (1, 2, 1, 1), mode="replicate"),
    "along one axis": lambda x: functional.pad(x[0], (1, 2), mode="reflect"),
    "average of volumes": lambda x: functional.avg_pool3d(x[None] * 2, 2),
    "largest of volumes": lambda x: functional.max_pool3d(x[None] * 2, 2),
}


@pytest.fixture
def backwards(monkeypatch):
    """The shapes of what each backward graph is given."""
    found = []
    compiled = GraphCompiler._compiled

    def compile_(self, device, kind, graph):
        if kind == "backward":
            inputs = graph.graph.find_nodes(op="placeholder")
            found.append([tuple(getattr(node.meta["val"], "shape", ())) for node in inputs])
        return compiled(self, device, kind, graph)

    monkeypatch.setattr(backend.GraphCompiler, "_compiled", compile_)
    return found


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", POOLINGS)
def test_what_is_pooled_is_not_kept(name, last, dynamic, backwards):
    torch._dynamo.reset()
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(2, 4, 6, 6).to(memory_format=layout).requires_grad_()

    def function(x):
        return POOLINGS[name](x * 3) * 2

    ours = GraphCompiler(Settings(device=LLVM))
    run = torch.compile(function, backend=ours, dynamic=dynamic)
    (wanted,) = torch.autograd.grad(function(x).square().sum(), x)
    (found,) = torch.autograd.grad(run(x).square().sum(), x)
    torch.testing.assert_close(found, wanted)
    assert not ours.log.notes
    if not dynamic:
        assert not ours.log.report().left and tuple(x.shape) not in backwards[0]


def test_where_the_gradient_is_pytorchs_nothing_changes(backwards):
    torch._dynamo.reset()
    x = torch.randn(1, 1, 14, 14, requires_grad=True)

    def function(x):
        return functional.avg_pool2d(x * 3, 9, 1) * 2  # each element in up to 36 windows

    ours = GraphCompiler(Settings(device=LLVM))
    (wanted,) = torch.autograd.grad(function(x).sum(), x)
    (found,) = torch.autograd.grad(torch.compile(function, backend=ours)(x).sum(), x)
    torch.testing.assert_close(found, wanted)
    assert any(each.operator == "avg_pool2d_backward" for each in ours.log.report().left)
    assert tuple(x.shape) in backwards[0]


def test_what_is_kept_anyway_is_kept_for_it(backwards):
    torch._dynamo.reset()
    x = torch.randn(2, 4, 6, 6, requires_grad=True)

    def function(x):
        return functional.max_pool2d((x * 3).relu(), 2) * 2

    ours = GraphCompiler(Settings(device=LLVM))
    torch.compile(function, backend=ours)(x).sum().backward()
    (report,) = [part for part in ours.log.report().parts if part.graph == "backward 0"]
    assert "full" not in report.operators
