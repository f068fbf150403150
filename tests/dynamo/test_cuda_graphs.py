"""mode="reduce-overhead": what is handed to PyTorch's trees of CUDA graphs, and when."""

import ctypes
import sys
import threading
from weakref import WeakKeyDictionary

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
    monkeypatch.setattr(cudagraph_trees, "get_container", lambda index: None)
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


def in_a_thread(function):
    """What a function gives, called in a thread of its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def graph(kind):
    capture = cuda_graphs.Capture(kind, (), 0, (), (), ())
    return capture(lambda inputs: list(inputs))


def test_every_thread_captures_graphs_of_its_own(asked):
    forward = graph("forward")
    for _ in range(2):
        assert forward([1]) == in_a_thread(lambda: forward([1])) == [1]
    assert len(asked) == 3  # once for this thread, and for each of the others


def test_autograds_thread_replays_what_was_captured_for_the_thread_that_asks(asked):
    """Autograd has one thread for all that ask, and hands on what they stashed in theirs."""
    backward = graph("backward")

    def asking():
        graph("forward")([1])
        return cuda_graphs._captured()

    def autograd():
        for captured in (*stashed, *stashed):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(torch._C, "_is_key_in_tls", lambda key: True)
                patched.setattr(torch._C, "_get_obj_in_tls", lambda key, own=captured: own)
                backward([1])

    stashed = [in_a_thread(asking) for _ in range(2)]
    asked.clear()
    in_a_thread(autograd)
    assert len(asked) == 2
    assert all(backward in each for each in stashed)


@pytest.mark.parametrize("takes", [True, False])
def test_what_a_thread_handed_on_outlives_it(takes, monkeypatch):
    """PyTorch gives a reference back in a thread that has ended: it must not be the last one."""
    stashed = []

    def stash(_key, given):
        stashed.append(id(given))
        if takes:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(given))

    monkeypatch.setattr(torch._C, "_stash_obj_in_tls", stash)
    captured = WeakKeyDictionary()
    before = sys.getrefcount(captured)
    cuda_graphs._hand_on(captured)
    assert stashed == [id(captured)]
    assert (
        sys.getrefcount(captured) == before + 2
    )  # PyTorch's own, and one that is never given back


def test_threads_that_pytorch_has_no_trees_for_run_without(asked, monkeypatch):
    from torch._inductor import cudagraph_trees

    def unknown(index):
        raise AssertionError

    monkeypatch.setattr(cudagraph_trees, "get_container", unknown)
    assert in_a_thread(lambda: graph("forward")([1, 2])) == [1, 2]
    assert not asked


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
            model.zero_grad()  # gradients lie in the graphs' memory, which the next step reuses
            x = torch.randn(rows, 64, device="cuda")
            found = run(x)
            found.sum().backward()
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_graphs_of_modules_are_not_for_torch_compile():
    with pytest.raises(InputError, match="reduce-overhead"):
        Settings(stitching=Options(cuda_graph=True))
