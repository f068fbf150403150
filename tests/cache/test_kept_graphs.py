"""Compiled graphs of PyTorch's are taken up by later processes, where they fit."""

import copy
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import tvm  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from tvm_stitch.dynamo import backend, kept, machines  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import Settings  # noqa: E402
from tvm_stitch.library import shim  # noqa: E402
from tvm_stitch.options import Options  # noqa: E402

pytestmark = pytest.mark.skipif(not kept.can_be_kept(), reason="this PyTorch keeps Inductor's only")
nn = torch.nn


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The caches are this test's."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    torch._dynamo.reset()
    counters.clear()
    yield tmp_path / "ours"
    torch._dynamo.reset()


@pytest.fixture
def converted(monkeypatch):
    """The graphs of parts that were converted, that is, compiled."""
    found = []
    convert = machines.convert
    monkeypatch.setattr(machines, "convert", lambda graph: found.append(graph) or convert(graph))
    return found


def compiler(folder, **settings):
    torch._dynamo.reset()
    options = Options(cache=folder, **settings.pop("stitching", {}))
    return GraphCompiler(Settings(device="llvm", stitching=options, **settings))


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.GELU()).train()


def trained(model, run, x):
    """What a step leaves: the result, the gradients, and the running statistics."""
    for parameter in model.parameters():
        parameter.grad = None
    result = run(x)
    result.square().sum().backward()
    return [result, *(each.grad for each in model.parameters()), *model.buffers()]


@pytest.mark.slow
def test_a_step_of_training_is_taken_up_whole(folder, converted):
    x, eager = torch.randn(5, 8), block()
    wanted = trained(eager, eager, x)
    reports = []
    for _process in range(2):
        model, ours = block(), compiler(folder)
        found = trained(model, torch.compile(model, backend=ours), x)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        reports.append(str(ours.log.report()))
    assert len(converted) == 2  # forward and backward, the first time
    assert reports[0] == reports[1] and "2 graphs, 2 stitched parts" in reports[0]
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@pytest.mark.slow
def test_by_another_process(folder):
    text = (
        "import torch, tvm_stitch.torch; from torch._dynamo.utils import counters\n"
        "from tvm_stitch.options import Options\n"
        f"options = dict(device='llvm', stitching=Options(cache={str(folder)!r}))\n"
        "x, softmax = torch.randn(3, 5), lambda x: (x + 1).softmax(-1)\n"
        "run = torch.compile(softmax, backend='tvm_stitch', options=options)\n"
        "torch.testing.assert_close(run(x), softmax(x))\n"
        "print(counters['aot_autograd']['autograd_cache_hit'])"
    )
    said = [subprocess.check_output([sys.executable, "-c", text], text=True) for _ in range(2)]
    assert said == ["0\n", "1\n"]


def test_what_is_asked_of_the_compiler_counts(folder, converted):
    x = torch.randn(4, 6)
    asked = [{}, {"smallest_part": 1}, {"stitching": {"recomputed": 0}}, {}]
    for settings in asked:
        torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder, **settings))(x)
    assert len(converted) == len(asked) - 1


def test_helpers_are_started_before_a_graph_is_traced_that_nobody_has_compiled(folder, monkeypatch):
    early = []

    def expect(_self, graph, operators=1):
        if operators > 1:  # a graph of dynamo's
            early.append(len(graph.graph.nodes))

    monkeypatch.setattr(machines.Machines, "expect", expect)
    x = torch.randn(4, 6)
    for function in (lambda x: x.exp().sum(-1), lambda x: x.sin().sum(-1)):
        for _ in range(2):
            torch.compile(function, backend=compiler(folder))(x)
    assert len(early) == 2
    torch.compile(function, backend=compiler("off"))(x)
    torch.compile(function, backend=compiler("off"))(x)
    assert len(early) == 4


def test_flags_of_pytorchs_count(folder, converted, monkeypatch):
    x = torch.randn(4, 6)
    for products in ((), (torch.float16,), ()):
        libraries = backend.Libraries(products=frozenset(products))
        monkeypatch.setattr(GraphCompiler, "_libraries", lambda _self, found=libraries: found)
        torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))(x)
    assert len(converted) == 2


@pytest.mark.parametrize("kind", [kept.KIND, "libraries"])
def test_what_is_no_longer_there_is_compiled_and_kept_again(folder, converted, kind, monkeypatch):
    from tvm_stitch.executable import shared_object

    x = torch.randn(4, 6)
    for count in (1, 2, 2):
        run = torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))
        torch.testing.assert_close(run(x), x.exp().sum(-1))
        assert len(converted) == count
        if count == 1:
            for file in (folder / kind).iterdir():
                file.unlink()
            monkeypatch.setattr(shared_object, "_LOADED", {})  # as in another process


def test_a_damaged_graph_is_compiled_again(folder, converted):
    x = torch.randn(4, 6)
    torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))(x)
    (file,) = (folder / kept.KIND).iterdir()
    file.write_bytes(file.read_bytes()[:-60])
    with pytest.warns(UserWarning, match="damaged"):
        run = torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))
        torch.testing.assert_close(run(x), x.exp().sum(-1))
    assert len(converted) == 2


def test_sizes_that_change_are_served(folder, converted):
    def function(x):
        return (x.softmax(-1) * x.shape[0]).cumsum(0)

    for _process in range(2):
        run = torch.compile(function, backend=compiler(folder), dynamic=True)
        for rows in (5, 2, 33):
            x = torch.randn(rows, 7)
            torch.testing.assert_close(run(x), function(x))
    parts = len(converted)
    run = torch.compile(function, backend=compiler(folder), dynamic=True)
    run(torch.randn(5, 7))
    assert len(converted) == parts


def test_what_cannot_be_run_runs_as_pytorchs_operators(folder, converted):
    x = torch.randn(4, 6)
    torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))(x)
    ours = compiler(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvm_stitch.dynamo.machine._Compiled.__call__", _refusing)
        with pytest.warns(backend.TorchWarning, match="exp, sum.*the driver refuses"):
            found = torch.compile(lambda x: x.exp().sum(-1), backend=ours)(x)
    torch.testing.assert_close(found, x.exp().sum(-1))
    assert len(converted) == 1
    assert [part.failure for part in ours.log.report().parts] == ["the driver refuses"]


def _refusing(*_given):
    raise RuntimeError("the driver refuses")


def test_a_part_that_failed_may_succeed_the_next_time(folder, converted):
    x = torch.randn(4, 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machines, "machine_for", _refusing)
        with pytest.warns(backend.TorchWarning, match="the driver refuses"):
            torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))(x)
    ours = compiler(folder)
    torch.compile(lambda x: x.exp().sum(-1), backend=ours)(x)
    assert len(converted) == 2 and ours.log.report().parts[0].stitched


def test_constants_are_kept_with_it(folder, converted):
    table = torch.randn(6)

    def function(x):
        return (x + table).exp() * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])

    x = torch.randn(4, 6)
    for _process in range(2):
        run = torch.compile(function, backend=compiler(folder))
        torch.testing.assert_close(run(x), function(x))


def test_nothing_is_kept_where_caches_are_off(folder):
    x = torch.randn(4, 6)
    torch.compile(lambda x: x.exp().sum(-1), backend=compiler("off"))(x)
    with torch.compiler.config.patch(force_disable_caches=True):
        torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))(x)
    assert not (folder / kept.KIND).exists()


def test_inductors_settings_are_as_they_were(folder):
    from torch._functorch import config

    model = block()
    trained(model, torch.compile(model, backend=compiler(folder)), torch.randn(5, 8))
    assert not config.bundled_autograd_cache and not config.force_non_lazy_backward_lowering


def test_models_of_equal_code_do_not_meet(folder):
    # The same Python, with other shapes and types inside.
    for size, dtype in ((6, torch.float32), (7, torch.float32), (6, torch.float64)):
        x = torch.randn(4, size, dtype=dtype)
        run = torch.compile(lambda x: x.exp().sum(-1), backend=compiler(folder))
        torch.testing.assert_close(run(x), x.exp().sum(-1))


def test_a_copy_of_a_model_shares_its_graphs(folder, converted):
    x, model = torch.randn(5, 8), block()
    other = copy.deepcopy(model)
    for each in (model, other):
        trained(each, torch.compile(each, backend=compiler(folder)), x)
    assert len(converted) == 2
    assert list(Path(folder, kept.KIND).iterdir())


def test_the_compiler_and_its_settings_count(monkeypatch):
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    ours = GraphCompiler(Settings(target=target))
    first = ours._compiled_by(target, None)
    assert ours._compiled_by(target, None) == first
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", "--ftz=false")
    assert ours._compiled_by(target, None) != first


def test_what_it_depends_on_waits_for_no_compiler(monkeypatch):
    """The libraries' shim is compiled while AOTAutograd traces."""
    monkeypatch.setattr(shim, "find", lambda library: Path(library.title))
    monkeypatch.setattr(shim, "has_compiler", lambda: True)
    monkeypatch.setattr(shim, "_begun", Future)  # one that is never done
    monkeypatch.setattr(shim, "failure", lambda: pytest.fail("it waits"))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    assert GraphCompiler(Settings(target=target))._compiled_by(target, None)
