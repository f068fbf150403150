"""mode="reduce-overhead": what is handed to PyTorch's trees of CUDA graphs, and when."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo import backend as backend_module  # noqa: E402
from tvm_stitch.dynamo import cuda_graphs  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402
from tvm_stitch.errors import InputError  # noqa: E402
from tvm_stitch.options import Options  # noqa: E402

nn = torch.nn
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def asked(monkeypatch):
    """What PyTorch's trees would be asked to capture; the functions run uncaptured."""
    calls = []

    def capture(function, inputs, static, **given):
        calls.append({"inputs": len(inputs), "static": tuple(static), **given})
        return function

    from torch._inductor import cudagraph_trees

    monkeypatch.setattr(cudagraph_trees, "cudagraphify_impl", capture)
    monkeypatch.setattr(backend_module, "CUDA", "cpu")
    from torch._dynamo.backends import cudagraphs

    monkeypatch.setattr(cudagraphs, "check_for_skip", lambda graph, fixed: None)
    monkeypatch.setattr(cudagraphs, "get_device_index", lambda graph: 0)
    return calls


def test_forward_and_backward_are_captured_once_each(asked):
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4))
    run = torch.compile(model, backend=GraphCompiler(Settings(device=LLVM, cuda_graphs=True)))
    for _ in range(2):
        x = torch.randn(3, 8)
        model.zero_grad()
        run(x).sum().backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        for got, parameter in zip(found, model.parameters(), strict=True):
            torch.testing.assert_close(got, parameter.grad)
    forward, backward = asked
    # Weights stay where they are, the input does not.
    assert len(forward["static"]) == 4 and forward["inputs"] == 5
    assert not forward["is_backward"] and not forward["is_inference"]
    assert backward["is_backward"]
    assert len(backward["static"]) < backward["inputs"]


def test_inference_is_captured_as_such(asked):
    model = nn.Sequential(nn.LayerNorm(8), nn.GELU())
    run = torch.compile(model, backend=GraphCompiler(Settings(device=LLVM, cuda_graphs=True)))
    with torch.no_grad():
        x = torch.randn(3, 8)
        torch.testing.assert_close(run(x), model(x))
    assert [each["is_inference"] for each in asked] == [True]


def test_without_a_gpu_nothing_is_captured():
    run = torch.compile(
        lambda x: (x + 1).relu(),
        backend=GraphCompiler(Settings(device=LLVM, cuda_graphs=True)),
    )
    x = torch.randn(3)
    torch.testing.assert_close(run(x), (x + 1).relu())


def test_what_cannot_be_captured_runs_without_and_says_so(monkeypatch):
    from torch._dynamo.backends import cudagraphs

    monkeypatch.setattr(backend_module, "CUDA", "cpu")
    monkeypatch.setattr(cudagraphs, "check_for_skip", lambda graph, fixed: "cpu device")
    ours = GraphCompiler(Settings(device=LLVM, cuda_graphs=True))
    x = torch.randn(3, requires_grad=True)
    torch.compile(lambda x: (x + 1).relu().exp(), backend=ours)(x).sum().backward()
    assert x.grad is not None
    assert ours.log.notes == [
        "no CUDA graph of the forward graph: cpu device",
        "no CUDA graph of the backward graph: cpu device",
    ]


def test_a_reset_gives_the_graphs_back():
    assert backend_module.tvm_stitch_backend.reset is cuda_graphs.forget


@on_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dynamic", [False, True])
def test_replayed_graphs_are_right(dynamic):
    model = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()).cuda()
    run = torch.compile(model, backend=backend_module.tvm_stitch_backend,
                        mode="reduce-overhead", dynamic=dynamic)  # fmt: skip
    for rows in (32, 48, 32) if dynamic else (32, 32, 32):
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(rows, 64, device="cuda")
            found = run(x)
            found.sum().backward()
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_graphs_of_modules_are_not_for_torch_compile():
    with pytest.raises(InputError, match="reduce-overhead"):
        Settings(stitching=Options(cuda_graph=True))
