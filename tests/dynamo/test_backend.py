"""torch.compile with our backend: results, gradients and side effects are PyTorch's.

Parts run by TVM's LLVM target, or, where it says so, as stitched kernels on the CPU executor.
"""

import copy
import threading
import warnings
from importlib import import_module
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo import backend as backend_module  # noqa: E402
from tvm_stitch.dynamo import machines  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler, TorchWarning  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.errors import InputError, SimtError  # noqa: E402
from tvm_stitch.executable import compiler as compiling  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiler(device=LLVM, **settings):
    return GraphCompiler(Settings(device=device, **settings))


class Network(nn.Module):
    """A bit of everything that changes something: statistics, a counter, random numbers."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.batch_norm = nn.BatchNorm1d(8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        hidden = self.norm(self.linear(x).relu())
        return nn.functional.dropout(self.batch_norm(hidden), 0.2, self.training), x.shape[0]


def trained(model, run, inputs):
    """One step's results, gradients and buffers."""
    torch.manual_seed(1)
    results, _ = run(inputs)
    results.square().sum().backward()
    return [results, *(p.grad for p in model.parameters()), *model.buffers()]


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_training_step_is_pytorchs(dynamic):
    eager = Network()
    compiled = copy.deepcopy(eager)
    ours = compiler()
    run = torch.compile(compiled, backend=ours, dynamic=dynamic)
    for rows in (5, 7) if dynamic else (5,):
        inputs = torch.randn(rows, 8)
        for got, want in zip(
            trained(compiled, run, inputs), trained(eager, eager, inputs), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    report = ours.log.report()
    assert report.graphs == ("forward 0", "backward 0")
    assert not [part.failure for part in report.parts if part.failure]
    # The same random numbers as without us.
    assert "native_dropout" in {each.operator for each in report.left}


def test_the_kernels_of_a_gpu_run_on_the_cpu_executor():
    def function(x, w):
        normal = nn.functional.layer_norm(x, (16,), w)
        return torch.softmax(x * 2 + w, -1), nn.functional.rms_norm(normal, (16,), w)

    ours = compiler(EXECUTOR, target="sm_90")
    x, w = torch.randn(3, 16), torch.rand(16)
    found = torch.compile(function, backend=ours)(x, w)
    for got, want in zip(found, function(x, w), strict=True):
        torch.testing.assert_close(got, want)
    (part,) = ours.log.report().parts
    assert part.stitched


def test_stitched_kernels_of_halves_with_a_symbolic_length():
    def function(x):
        return (x.float() * 0.5).log_softmax(-1).to(x.dtype).relu() + x.amax(-1, keepdim=True)

    run = torch.compile(function, backend=compiler(EXECUTOR, target="sm_90"), dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 24, dtype=torch.bfloat16)
        torch.testing.assert_close(run(x), function(x))


def test_what_is_a_librarys_stays_pytorchs():
    def function(x, w, image, kernel):
        y = (x @ w).relu() * 2
        z = nn.functional.conv2d(image, kernel).sigmoid() + 1
        return y.sum() + z.mean()

    given = (torch.randn(4, 300), torch.randn(300, 8), torch.randn(1, 2, 6, 6))
    ours = compiler()
    run = torch.compile(function, backend=ours)
    given = (*given, torch.randn(3, 2, 3, 3))
    torch.testing.assert_close(run(*given), function(*given))
    left = {each.operator: each.reason for each in ours.log.report().left}
    assert left == {
        "mm": "a product of float32 of this size is a library's",
        "convolution": "a library's kernel is faster",
    }


def test_a_square_is_a_product_too():
    x = torch.randn(5, 5)
    run = torch.compile(lambda x: (x @ x + 1).relu(), backend=compiler())
    torch.testing.assert_close(run(x), (x @ x + 1).relu())


def test_what_is_constant_is_made_anew():
    run = torch.compile(lambda x: (torch.ones(2) * 2 + 1, x + 1), backend=compiler())
    for _ in range(2):
        constant, _ = run(torch.randn(3))
        torch.testing.assert_close(constant, torch.full([2], 3.0))
        constant.zero_()


def test_what_needs_no_input_is_computed_by_a_kernel():
    def function(x):
        places = torch.arange(64)
        mask = (places[:, None] >= places[None]) * 2
        return mask, x + 1

    ours, x = compiler(EXECUTOR, target="sm_90", smallest_part=1), torch.randn(3)
    for got, want in zip(torch.compile(function, backend=ours)(x), function(x), strict=True):
        torch.testing.assert_close(got, want)
    assert not [part.failure for part in ours.log.report().parts if part.failure]
    assert any("arange" in name for each in ours.machines.values() for name in each.kernels)


def test_autocast_and_inference_mode():
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16))
    x = torch.randn(4, 16)
    run = torch.compile(model, backend=compiler())
    with torch.inference_mode():
        torch.testing.assert_close(run(x), model(x))
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)


def test_a_part_that_cannot_be_compiled_runs_eagerly_and_says_so(monkeypatch):
    def refuse(*_arguments):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(machines, "machine_for", refuse)
    ours = compiler()
    x = torch.randn(3, 4)
    with pytest.warns(TorchWarning, match=r"add.Tensor, relu runs as.*no such luck"):
        found = torch.compile(lambda x: (x + 1).relu(), backend=ours)(x)
    torch.testing.assert_close(found, (x + 1).relu())
    (part,) = ours.log.report().parts
    assert part.failure == "no such luck"


def test_a_part_that_cannot_be_run_runs_eagerly_from_then_on_and_says_so(monkeypatch):
    calls = []

    def refuse(*_arguments):
        def run(*_given):
            calls.append(1)
            raise RuntimeError("too much shared memory")

        return run

    monkeypatch.setattr(machines, "machine_for", refuse)
    ours, x = compiler(), torch.randn(3, 4)
    run = torch.compile(lambda x: (x + 1).relu(), backend=ours)
    with pytest.warns(TorchWarning, match=r"add.Tensor, relu runs as.*too much shared"):
        torch.testing.assert_close(run(x), (x + 1).relu())
    torch.testing.assert_close(run(x), (x + 1).relu())
    assert len(calls) == 1
    (part,) = ours.log.report().parts
    assert not part.stitched


def test_code_that_no_compiler_takes_is_noticed_by_the_first_call(monkeypatch):
    # Threads compile it, while the rest of the model is traced.
    def refuse(*_arguments):
        raise RuntimeError("NVRTC says no")

    monkeypatch.setattr(compiling, "codegen_build", refuse)
    ours, x = compiler(), torch.randn(3, 4)
    with pytest.warns(TorchWarning, match=r"add.Tensor, relu runs as.*NVRTC says no"):
        found = torch.compile(lambda x: (x + 1).relu(), backend=ours)(x)
    torch.testing.assert_close(found, (x + 1).relu())
    (part,) = ours.log.report().parts
    assert part.failure == "NVRTC says no"


def test_what_the_executor_finds_wrong_is_not_hidden(monkeypatch):
    def wrong(*_arguments):
        def run(*_given):
            raise SimtError("a race")

        return run

    monkeypatch.setattr(machines, "machine_for", wrong)
    with pytest.raises(SimtError, match="a race"):
        torch.compile(lambda x: (x + 1).relu(), backend=compiler())(torch.randn(3, 4))


def test_a_model_on_another_device_runs_eagerly_and_says_so():
    x = torch.randn(3)
    with pytest.warns(TorchWarning, match=r"lie on cpu.*compiles what lies on cuda"):
        found = torch.compile(lambda x: (x + 1).relu(), backend=compiler("cuda"))(x)
    torch.testing.assert_close(found, (x + 1).relu())


def test_a_graph_of_sizes_alone_lies_nowhere_and_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = torch.compile(lambda n: n * 2 + 1, backend=compiler("cuda"), dynamic=True)(3)
    assert found == 7


def test_types_that_are_not_ours_stay_pytorchs():
    def function(x, z):
        return (x * 2).exp(), (z * 2).abs()

    x, z = torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=torch.complex64)
    ours = compiler()
    for got, want in zip(torch.compile(function, backend=ours)(x, z), function(x, z), strict=True):
        torch.testing.assert_close(got, want)
    reasons = {each.reason for each in ours.log.report().left}
    assert reasons == {"float64 tensors", "complex64 tensors"}


def test_negative_views_stay_pytorchs():
    """Imaginary parts of conjugates: their memory has the other sign."""

    def function(x, z):
        conjugate = torch.view_as_complex(x).conj()
        return x * 2, conjugate.imag + conjugate.real, z * 2 + 1

    x = torch.randn(7, 2)
    ours = compiler()
    run = torch.compile(function, backend=ours)
    for z in (x, torch._neg_view(x)):
        for got, want in zip(run(x, z), function(x, z), strict=True):
            torch.testing.assert_close(got, want)
    assert any("negative view" in each.reason for each in ours.log.report().left)


def test_a_branch_on_values_breaks_the_graph_and_nothing_else():
    def function(x):
        y = x * 2 + 1
        return y.relu() - 1 if y.sum() > 0 else y.exp() + 1

    run = torch.compile(function, backend=compiler())
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(run(x), function(x))


def test_results_of_one_operator_are_read_far_apart():
    """As Mamba's: one half of a projection goes through a convolution, the other waits for it."""

    def model(x):
        low, high = (x * 2).max(1)
        left, right = (x + 1).chunk(2, 1)
        sorted_ = torch.sort(left.sin() + low[:, None], 1).values
        return (sorted_ * right.cos()).exp() + high[:, None]

    x = torch.randn(4, 12000)  # rows that are too long for a sort of ours
    backend = compiler()
    compiled = torch.compile(model, backend=backend)
    torch.testing.assert_close(compiled(x), model(x))
    parts = backend.log.report().parts
    assert len(parts) == 2 and all(part.stitched for part in parts)


def test_equal_layers_are_compiled_once():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList(torch.randn(100, 100) / 10 for _ in range(4))

        def forward(self, x):
            for weight in self.weights:
                x = nn.functional.gelu(x @ weight).softmax(-1)
            return x

    ours, model, x = compiler(), Layers(), torch.randn(3, 100)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=ours)(x), model(x))
    assert len(ours.log.report().parts) == 4
    assert len(ours.machines) == 1


def test_several_threads():
    model = nn.Sequential(nn.LayerNorm(16), nn.GELU())
    run = torch.compile(model, backend=compiler())
    inputs = [torch.randn(4, 16) for _ in range(4)]
    with torch.no_grad():
        run(inputs[0])
    found = {}

    def work(number):
        with torch.no_grad():
            for _ in range(5):
                found[number] = run(inputs[number])

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in enumerate(inputs):
        torch.testing.assert_close(found[number], model(x), rtol=1e-5, atol=1e-5)


def test_an_optimizer_step():
    weights = [torch.randn(5), torch.randn(3, 4)]
    eager = [w.clone().requires_grad_() for w in weights]
    ours = [w.clone().requires_grad_() for w in weights]
    log = compiler()
    for parameters, wrap in (
        (eager, lambda f: f),
        (ours, lambda f: torch.compile(f, backend=log)),
    ):
        optimizer = torch.optim.AdamW(parameters, lr=0.1)
        step = wrap(optimizer.step)
        for number in range(3):
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, number + 0.5)
            step()
    for got, want in zip(ours, eager, strict=True):
        torch.testing.assert_close(got, want)
    assert any(part.stitched for part in log.log.report().parts)
    # Parameters, moments and counts, each of them in one call.
    assert "copy_" not in {each.operator for each in log.log.report().left}


def test_bad_options_are_refused():
    with pytest.raises(InputError, match=r"unknown options \['devise'\].*known are"):
        Settings.of({"devise": "cuda"})
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        tvm_stitch.torch.compile(nn.ReLU(), device="gpu")
    with pytest.raises(Exception, match="no mode 'fastest': leave mode out"):
        backend_module.tvm_stitch_backend(None, [], mode="fastest")
    with pytest.raises(InputError, match="smallest_part"):
        Settings(smallest_part=0)


def test_the_entry_point_names_the_backend():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    line = next(line for line in project.splitlines() if line.startswith('tvm_stitch = "'))
    module, name = line.split('"')[1].split(":")
    function = getattr(import_module(module), name)
    x = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = torch.compile(
            lambda x: (x + 1).relu(), backend=function, options={"device": LLVM, "smallest_part": 1}
        )
        torch.testing.assert_close(run(x), (x + 1).relu())


def test_compile_as_a_function_and_as_a_decorator():
    @tvm_stitch.torch.compile(device=LLVM)
    def function(x):
        return (x + 1).relu()

    x = torch.randn(3, 4)
    torch.testing.assert_close(function(x), (x + 1).relu())
    model = nn.Sequential(nn.LayerNorm(4), nn.ReLU())
    torch.testing.assert_close(tvm_stitch.torch.compile(model, device=LLVM)(x), model(x))
