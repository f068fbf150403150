"""A backward graph is divided, and others asked for its parts, while forward is compiled."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo import backend  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.kept import can_be_kept  # noqa: E402
from tvm_stitch.dynamo.machines import Machines  # noqa: E402
from tvm_stitch.dynamo.rewrites.in_order import copied, described  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402
from tvm_stitch.options import Options  # noqa: E402

nn = torch.nn


@pytest.fixture
def seen(monkeypatch):
    """What happens, in order; as if there were a GPU, and idle cores beside it."""
    events = []
    divided, lower_ahead = backend.divided, Machines.lower_ahead

    def dividing(graph, kind, *rest):
        events.append(f"divided {kind}")
        return divided(graph, kind, *rest)

    def lowering(self, parts, over):
        events.append(f"asked for {len(parts)}")
        return lower_ahead(self, parts, over)

    monkeypatch.setattr(backend, "divided", dividing)
    monkeypatch.setattr(Machines, "lower_ahead", lowering)
    monkeypatch.setattr(Machines, "have_idle_processes", True)
    monkeypatch.setattr(GraphCompiler, "_is_for_gpu", True)
    return events


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(31, 7), nn.LayerNorm(7), nn.GELU(), nn.Linear(7, 1))


def gradients(function, module, x):
    module.zero_grad()
    function(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


def check(seen, wanted, compiler=None):
    compiler = compiler or GraphCompiler(Settings(LLVM))
    module, x = model(), torch.randn(5, 31)
    exact = gradients(module, module, x)
    found = gradients(torch.compile(module, backend=compiler), module, x)
    torch.testing.assert_close(found, exact)
    assert seen == wanted
    assert all(part.stitched for part in compiler.log.report().parts)
    assert not compiler._expected
    return compiler


def test_it_is_divided_before_forward_and_once(seen):
    compiler = check(seen, ["divided backward", "asked for 1", "divided forward"])
    names = [part.graph for part in compiler.log.report().parts]
    assert names == ["forward 0", "backward 0"]


def test_what_pytorch_has_changed_since_is_divided_anew(seen, monkeypatch):
    monkeypatch.setattr(backend, "copied", lambda graph: _another(copied(graph)))
    compiler = GraphCompiler(Settings(LLVM))
    module, x = model(), torch.randn(5, 31)
    described_ = iter(["before", "after"])
    monkeypatch.setattr(backend, "described", lambda _graph: next(described_, "after"))
    found = gradients(torch.compile(module, backend=compiler), module, x)
    torch.testing.assert_close(found, gradients(module, module, x))
    assert seen[-1] == "divided backward" and seen.count("divided backward") == 2


def _another(graph):
    (output,) = graph.graph.find_nodes(op="output")
    output.args = (tuple(reversed(output.args[0])),)
    return graph


@pytest.mark.slow
def test_sizes_that_change_are_no_other_matter(seen):
    compiler, module = GraphCompiler(Settings(LLVM)), model()
    function = torch.compile(module, backend=compiler, dynamic=True)
    for rows in (5, 9):
        x = torch.randn(rows, 31)
        found = gradients(function, module, x)
        torch.testing.assert_close(found, gradients(module, module, x))
    assert [each for each in seen if "divided" in each] == ["divided backward", "divided forward"]
    assert all(part.stitched for part in compiler.log.report().parts)


@pytest.mark.skipif(not can_be_kept(), reason="this release of PyTorch keeps no graphs")
def test_later_processes_take_it_up(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    module, x = model(), torch.randn(5, 31)
    for _ in range(2):
        torch._dynamo.reset()
        compiler = GraphCompiler(Settings(LLVM, stitching=Options(cache=tmp_path / "ours")))
        found = gradients(torch.compile(module, backend=compiler), module, x)
        torch.testing.assert_close(found, gradients(module, module, x))
        assert [part.graph for part in compiler.log.report().parts] == ["forward 0", "backward 0"]
    assert [each for each in seen if "divided" in each] == ["divided backward", "divided forward"]


def test_what_fails_ahead_is_compiled_when_it_is_wanted(seen, monkeypatch):
    def fails(_self, _parts, _over):
        raise RuntimeError("no process")

    monkeypatch.setattr(Machines, "lower_ahead", fails)
    check(seen, ["divided backward", "divided forward", "divided backward"])


def test_nobody_idle_is_asked_for_nothing(seen, monkeypatch):
    monkeypatch.setattr(Machines, "have_idle_processes", False)
    check(seen, ["divided forward", "divided backward"])


def test_a_graph_is_described_by_its_operators_and_tensors():
    def traced(rows, function=lambda x: x.exp() + 1, mode="fake"):
        made = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode=mode)
        return made(torch.randn(rows, 3))

    assert described(traced(4)) == described(traced(4)) == described(copied(traced(4)))
    assert described(traced(4)) != described(traced(5))
    assert described(traced(4)) != described(traced(4, lambda x: x.exp() + 2))
    weights = torch.randn(3)
    assert described(traced(4, lambda x: x + weights, "real")) is None
