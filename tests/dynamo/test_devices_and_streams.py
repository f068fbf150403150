"""GPUs, streams and threads: what is compiled computes where and when PyTorch would."""

import copy
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

import tvm  # noqa: E402
from torch.nn import functional  # noqa: E402
from tvm import relax  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler, tvm_stitch_backend  # noqa: E402
from tvm_stitch.dynamo.settings import Settings  # noqa: E402
from tvm_stitch.library import locate, shim  # noqa: E402

nn = torch.nn
GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not GPUS, reason="needs an NVIDIA GPU"),
]
on_two = pytest.mark.skipif(GPUS < 2, reason="needs two NVIDIA GPUs")
LAST = f"cuda:{max(GPUS - 1, 0)}"  # the second one, where there is one
WIDTH, ROWS = 1024, 64
WAIT = 1 << 30  # cycles: half a second, a hundred times what a call takes the host
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()


@pytest.fixture
def libraries(monkeypatch):
    """Parts may call cuBLASLt and cuDNN, whose handles belong to a thread and a GPU."""
    monkeypatch.delenv(locate.FOLDER)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    if shim.unusable(locate.CUBLASLT) or shim.unusable(locate.CUDNN):
        pytest.skip("cuBLASLt or cuDNN is not here")
    shim.use_found(shim.load())
    yield
    monkeypatch.undo()
    shim.use_found(shim.load())


class Layers(nn.Module):
    """Rows that one kernel computes, and a product that is cuBLASLt's where parts may call it."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        hidden = self.linear(self.norm(x) * 2)
        return functional.softmax(functional.gelu(hidden) + x, -1) * x


class Images(nn.Module):
    """A convolution, which is cuDNN's where parts may call it."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)

    def forward(self, x):
        return functional.relu(self.norm(self.convolution(x))).mean((2, 3))


def compiled(function, **settings):
    """The function under a compiler, of which no part may fail, and the compiler."""
    compiler = GraphCompiler(Settings(**settings))
    return torch.compile(function, backend=compiler), compiler


def agree(found, expected):
    assert found.device == expected.device
    torch.testing.assert_close(found, expected, **CLOSE)


def all_stitched(compiler):
    report = compiler.log.report()
    return report.parts and not [part.failure for part in report.parts if part.failure]


@contextmanager
def no_synchronisation():
    """PyTorch raises an error where it would wait for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@on_two
def test_inputs_on_one_gpu_and_then_on_the_other():
    def function(x, weight):
        return functional.softmax(x * weight + 1, -1) @ weight

    run, compiler = compiled(function)
    with torch.no_grad():
        for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
            x, weight = (torch.randn(WIDTH, WIDTH, device=device) for _ in range(2))
            agree(run(x, weight), function(x, weight))
    assert all_stitched(compiler)


@on_two
@pytest.mark.parametrize("make", [Layers, Images])
def test_a_model_on_a_gpu_that_is_not_the_current_one(make, libraries):
    model = make().to("cuda:1").eval()
    shape = (ROWS, WIDTH) if make is Layers else (4, 16, 32, 32)
    x = torch.randn(shape, device="cuda:1")
    run, compiler = compiled(model)
    before = torch.cuda.memory_allocated(0)
    with torch.inference_mode():
        for _ in range(3):
            agree(run(x), model(x))
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)
    assert torch.cuda.memory_allocated(0) == before
    assert all_stitched(compiler)


def trained(model, wrap, inputs):
    """The parameters after a step for each of the inputs, by wrapped functions."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
    forward, step = wrap(model), wrap(optimizer.step)
    for x in inputs:
        torch.compiler.cudagraph_mark_step_begin()
        forward(x).square().sum().backward()
        step()
        optimizer.zero_grad()
    return [parameter.detach() for parameter in model.parameters()]


def same_training(ours, eager):
    for got, want in zip(ours, eager, strict=True):
        assert got.device == want.device
        # AdamW takes a gradient that is a rounding of 0 by its sign.
        assert (got - want).abs().mean() < 1e-4


@pytest.mark.parametrize("device", ["cuda:0", pytest.param("cuda:1", marks=on_two)])
def test_training_on_either_gpu(device, libraries):
    model = Layers().to(device)
    twin = copy.deepcopy(model)
    inputs = [torch.randn(ROWS, WIDTH, device=device) for _ in range(4)]
    compiler = GraphCompiler(Settings())
    ours = trained(model, lambda each: torch.compile(each, backend=compiler), inputs)
    same_training(ours, trained(twin, lambda each: each, inputs))
    assert all_stitched(compiler)


@on_two
def test_a_model_over_two_gpus_is_compiled_on_both():
    first, second = nn.LayerNorm(64, device="cuda:0"), nn.LayerNorm(64, device="cuda:1")

    def function(x):
        return functional.gelu(second((first(x) * 2).sin().to("cuda:1"))) + 1

    run, compiler = compiled(function)
    x = torch.randn(ROWS, 64, device="cuda:0", requires_grad=True)
    found = run(x)
    (gradient,) = torch.autograd.grad(found.square().sum(), x)
    expected = function(x)
    agree(found, expected)
    agree(gradient, torch.autograd.grad(expected.square().sum(), x)[0])
    assert all_stitched(compiler)
    assert {key[1] for key in compiler.machines} == {torch.device("cuda:0"), torch.device("cuda:1")}


@pytest.mark.parametrize("gradients", [False, True])
def test_a_call_is_queued_behind_its_stream_and_waits_for_nothing(gradients, libraries):
    model = Layers().cuda()
    run, compiler = compiled(model)
    side = torch.cuda.Stream()
    done = torch.cuda.Event()
    x = torch.randn(ROWS, WIDTH, device="cuda", requires_grad=gradients)

    def call(given):
        found = run(given)
        return torch.autograd.grad(found.square().sum(), given)[0] if gradients else found

    with torch.set_grad_enabled(gradients):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # compiles, and has its memory in this stream
                call(x * 3)
            side.synchronize()
            with no_synchronisation():
                torch.cuda._sleep(WAIT)
                given = x * 2  # not there until the stream has slept
                found = call(given)
                done.record()
            assert not done.query()
        torch.cuda.current_stream().wait_event(done)
        expected = model(given)
        if gradients:
            (expected,) = torch.autograd.grad(expected.square().sum(), given)
        agree(found, expected)
    assert all_stitched(compiler)


def calls_in_a_stream(model, run, device, seed, count=20):
    """Calls with inputs that a stream of one's own makes late; each with eager's result."""
    stream = torch.cuda.Stream(device)
    random = torch.Generator(device).manual_seed(seed)
    pairs = []
    with torch.cuda.device(device), torch.cuda.stream(stream), torch.no_grad():
        for _ in range(count):
            torch.cuda._sleep(1 << 18)
            x = torch.randn(ROWS, WIDTH, device=device, generator=random)
            pairs.append((run(x), model(x)))
    stream.synchronize()
    return pairs


@pytest.mark.parametrize("first_call", ["before", "in both threads"])
def test_two_threads_on_two_streams(first_call, libraries):
    model = Layers().cuda()
    run, compiler = compiled(model)
    if first_call == "before":
        with torch.no_grad():
            run(torch.randn(ROWS, WIDTH, device="cuda"))
    torch.cuda.synchronize()
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(calls_in_a_stream, model, run, "cuda:0", seed) for seed in (1, 2)]
        for work in works:
            for found, expected in work.result():
                agree(found, expected)
    assert all_stitched(compiler)


@on_two
def test_two_threads_on_two_gpus(libraries):
    models = [Layers().to(f"cuda:{number}") for number in range(2)]
    runs = [compiled(model) for model in models]
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    with ThreadPoolExecutor(2) as pool:
        works = [
            pool.submit(calls_in_a_stream, models[number], runs[number][0], f"cuda:{number}", 3)
            for number in range(2)
        ]
        for work in works:
            for found, expected in work.result():
                agree(found, expected)
    assert all(all_stitched(compiler) for _, compiler in runs)


def reduced(function, **more):
    """Under mode="reduce-overhead"."""
    return torch.compile(function, backend=tvm_stitch_backend, mode="reduce-overhead", **more)


@pytest.mark.parametrize("device", ["cuda:0", pytest.param("cuda:1", marks=on_two)])
def test_captured_graphs_of_sizes_that_change(device):
    model = Layers(128).to(device)
    run = reduced(model, dynamic=True)
    with torch.no_grad():
        for rows in (32, 48, 32, 48, 64, 32, 64):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(rows, 128, device=device)
            agree(run(x).clone(), model(x))


@pytest.mark.parametrize("device", ["cuda:0", pytest.param("cuda:1", marks=on_two)])
def test_captured_training(device):
    model = Layers(128).to(device)
    twin = copy.deepcopy(model)
    inputs = [torch.randn(ROWS, 128, device=device) for _ in range(6)]
    ours = trained(model, reduced, inputs)
    same_training(ours, trained(twin, lambda each: each, inputs))


def test_captured_graphs_of_two_threads_that_share_autograds():
    model = Layers(128).cuda()
    run = reduced(model)

    def steps(seed):
        random = torch.Generator("cuda").manual_seed(seed)
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(ROWS, 128, device="cuda", generator=random, requires_grad=True)
            found = run(x)
            (gradient,) = torch.autograd.grad(found.square().sum(), x)
            expected = model(x)
            agree(found.detach().clone(), expected.detach())
            agree(gradient.clone(), torch.autograd.grad(expected.square().sum(), x)[0])
        torch.cuda.synchronize()

    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            steps(1)
            pool.submit(steps, 2).result()


@on_two
def test_a_library_in_a_module_of_tvms_on_the_second_gpu(libraries):
    """cuBLASLt launches on the current GPU, which a module without kernels did not choose."""
    builder = relax.BlockBuilder()
    left, right = (
        relax.Var(name, relax.TensorType((512, WIDTH), "float32")) for name in ("left", "right")
    )
    with builder.function("main", [left, right]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(left, relax.op.permute_dims(right)))
            result = builder.emit_output(product)
        builder.emit_func_output(result)
    built = tvm_stitch.compile(builder.get(), "cuda")
    machine = relax.VirtualMachine(built, tvm.cuda(1))
    for _ in range(3):
        torch.cuda.set_device(0)
        given = [torch.randn(512, WIDTH, device="cuda:1") for _ in range(2)]
        found = torch.from_dlpack(machine["main"](*given))
        torch.cuda.set_device(0)
        agree(found, given[0] @ given[1].T)
