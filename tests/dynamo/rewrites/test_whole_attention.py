"""Attention of an inference is part of a part: cuDNN is called from there."""

import copy

import pytest
from library_stand_in import folder

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.whole_attention import with_whole_attention  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.dynamo.support import Libraries, Support  # noqa: E402
from tvm_stitch.kernel.attention.build import AttentionKernels  # noqa: E402
from tvm_stitch.library import locate, shim  # noqa: E402
from tvm_stitch.options import Options  # noqa: E402

aten = torch.ops.aten
WHOLE = aten.scaled_dot_product_attention.default
sdpa = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def libraries(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    shim.use_found(shim.load())


def heads(batch=2, count=4, length=64, depth=16, dtype=torch.bfloat16):
    return [torch.randn(batch, count, length, depth).to(dtype) for _ in range(3)]


def cudnn(q, k, v, bias=None, dropout=0.0, causal=False):
    return aten._scaled_dot_product_cudnn_attention(q, k, v, bias, False, dropout, causal)


CHOSEN = {
    "cudnn": lambda q, k, v: cudnn(q, k, v)[0],
    "flash": lambda q, k, v: aten._scaled_dot_product_flash_attention(q, k, v)[0],
    "efficient": lambda q, k, v: aten._scaled_dot_product_efficient_attention(
        q, k, v, None, False, scale=0.3
    )[0],
}


def rewritten(function, *inputs, accepted=lambda node: True):
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    with_whole_attention(graph.graph, accepted)
    graph.graph.lint()
    graph.recompile()
    return graph, [node for node in graph.graph.nodes if node.target is WHOLE]


@pytest.mark.parametrize("kernel", CHOSEN)
def test_a_chosen_kernel_becomes_the_operator_again(kernel):
    q, k, v = heads(dtype=torch.float32)
    graph, (whole,) = rewritten(CHOSEN[kernel], q, k, v)
    scale = 0.3 if kernel == "efficient" else None
    torch.testing.assert_close(graph(q, k, v), sdpa(q, k, v, scale=scale))
    assert whole.meta["val"].shape == q.shape


def test_causal_with_fewer_heads_of_keys():
    q, k, v = heads(dtype=torch.float32)
    graph, (whole,) = rewritten(lambda *given: cudnn(*given, causal=True)[0], q, k[:, :2], v[:, :2])
    assert whole.kwargs["enable_gqa"]
    wanted = sdpa(q, k[:, :2], v[:, :2], is_causal=True, enable_gqa=True)
    torch.testing.assert_close(graph(q, k[:, :2], v[:, :2]), wanted)


def test_what_a_gradient_would_read_stays():
    _, found = rewritten(lambda *given: cudnn(*given)[:2], *heads())
    assert not found


OURS = Support(torch.device("cpu"), Libraries(attention=frozenset({torch.bfloat16})))
TRAINED = Support(OURS.device, Libraries(attention=OURS.libraries.attention, trained=True))


@pytest.mark.parametrize(
    ("support", "how", "depth", "is_ours"),
    [
        (OURS, {}, 16, True),
        (OURS, {"causal": True}, 16, True),
        (OURS, {"dropout": 0.5}, 16, False),
        (OURS, {}, 12, False),
        (TRAINED, {}, 16, False),
        (Support(OURS.device), {}, 16, False),
    ],
)
def test_what_is_not_ours_stays(support, how, depth, is_ours):
    graph, found = rewritten(
        lambda *given: cudnn(*given, **how)[0], *heads(depth=depth), accepted=support.accepts
    )
    chosen = aten._scaled_dot_product_cudnn_attention.default
    assert len(found) == is_ours
    assert len(graph.graph.find_nodes(op="call_function", target=chosen)) == (not is_ours)


@pytest.mark.parametrize(("capability", "is_ours"), [((7, 5), False), ((8, 0), True)])
def test_of_an_older_gpu_it_is_pytorchs(monkeypatch, capability, is_ours):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    with FakeTensorMode():
        shape, how = (2, 4, 64, 16), {"dtype": torch.bfloat16, "device": "cuda"}
        of_gpu = torch.empty(shape, **how)
    graph = torch.fx.Graph()
    given = [graph.placeholder(name) for name in "qkv"]
    whole = graph.call_function(WHOLE, tuple(given))
    for node in (*given, whole):
        node.meta["val"] = of_gpu
    assert Support(of_gpu.device, OURS.libraries).accepts(whole) == is_ours


class Layer(torch.nn.Module):
    """Projections, attention between them, and a norm behind."""

    def __init__(self, size=64, count=4, shared=4, causal=False, masked=False):
        super().__init__()
        self.count, self.shared, self.causal, self.masked = count, shared, causal, masked
        depth = size // count
        self.query = torch.nn.Linear(size, size)
        self.key = torch.nn.Linear(size, shared * depth)
        self.value = torch.nn.Linear(size, shared * depth)
        self.out, self.norm = torch.nn.Linear(size, size), torch.nn.LayerNorm(size)

    def forward(self, x, mask=None):
        def split(values, count):
            return values.unflatten(-1, (count, -1)).transpose(1, 2)

        q = split(self.query(x), self.count)
        k, v = (split(each(x), self.shared) for each in (self.key, self.value))
        how = {"is_causal": self.causal, "enable_gqa": self.shared != self.count}
        attended = sdpa(q, k, v, mask, **how)
        return self.norm(x + self.out(attended.transpose(1, 2).flatten(-2)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["plain", "causal", "masked", "shared"])
def test_a_layer_is_one_part(libraries, kind, dtype):
    layer = Layer(shared=2 if kind == "shared" else 4, causal=kind == "causal").to(dtype).eval()
    x = torch.randn(2, 40, 64).to(dtype)
    mask = (torch.randn(2, 1, 40, 40).to(dtype),) if kind == "masked" else ()
    ours = GraphCompiler(Settings(device=EXECUTOR))
    with torch.no_grad():
        found = torch.compile(layer, backend=ours)(x, *mask)
        wanted = layer.double()(x.double(), *(each.double() for each in mask))
    report = ours.log.report()
    assert not report.left and len(report.parts) == 1, report
    assert "attention" in str(report)
    close = 2e-2 if dtype is torch.float16 else 8e-2
    torch.testing.assert_close(found.double(), wanted, rtol=close, atol=close)


@pytest.mark.parametrize("kind", [torch.bool, torch.bfloat16])
@pytest.mark.parametrize(("queries", "keys", "depth"), [(7, 9, 16), (40, 70, 64)])
def test_rows_that_see_no_key_are_zeros(libraries, queries, keys, depth, kind):
    """Small attention is a softmax between products, the other is cuDNN's."""
    q, k, v = (torch.randn(2, 2, n, depth).bfloat16() for n in (queries, keys, keys))
    mask = torch.rand(2, 1, queries, keys) < 0.5
    mask[0, :, 2:5] = False
    if kind is not torch.bool:
        mask = torch.zeros(mask.shape, dtype=kind).masked_fill(~mask, -torch.inf)
    ours = GraphCompiler(Settings(device=EXECUTOR, smallest_part=1))
    with torch.no_grad():
        found = torch.compile(lambda *given: sdpa(*given) * 2, backend=ours)(q, k, v, mask)
    assert not ours.log.report().left and (found[0, :, 2:5] == 0).all()
    torch.testing.assert_close(found, sdpa(q, k, v, mask) * 2, rtol=0, atol=6e-2)


@pytest.mark.parametrize("why", ["training", "float32", "deep heads", "no library"])
def test_other_attention_is_pytorchs(libraries, monkeypatch, why):
    if why == "no library":
        monkeypatch.setenv(locate.FOLDER, "off")
    dtype = torch.float32 if why == "float32" else torch.bfloat16
    q, k, v = heads(depth=12 if why == "deep heads" else 16, dtype=dtype)
    q.requires_grad_(why == "training")
    ours = GraphCompiler(Settings(device=EXECUTOR, smallest_part=1))

    def function(q, k, v):
        return sdpa(q * 2, k, v) + 1

    torch.compile(function, backend=ours)(q, k, v)
    names = [each.operator for each in ours.log.report().left]
    assert any("scaled_dot_product" in name for name in names), (why, names)


def test_on_a_cpu_without_kernels_attention_is_pytorchs(libraries):
    ours = GraphCompiler(Settings(device=LLVM, smallest_part=1))
    q, k, v = heads()
    found = torch.compile(lambda *given: sdpa(*given) + 1, backend=ours)(q, k, v)
    torch.testing.assert_close(found, sdpa(q, k, v) + 1)
    assert any("scaled_dot_product" in each.operator for each in ours.log.report().left)


class Decoding(torch.nn.Module):
    """One token more, in a cache of known length of which a part is taken."""

    def __init__(self, length=192, depth=32):
        super().__init__()
        for name in ("keys", "values"):
            given = torch.randn(1, 2, length, depth, dtype=torch.bfloat16)
            self.register_buffer(name, given)

    def forward(self, query, key, value, position):
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        seen = torch.arange(self.keys.shape[2]) <= position
        return sdpa(query, self.keys, self.values, attn_mask=seen[None, None, None]) + 1


def test_decoding_in_a_static_cache_is_one_part(libraries, monkeypatch):
    made, make = [], AttentionKernels.kernel
    monkeypatch.setattr(
        AttentionKernels, "kernel", lambda *given: made.append(given) or make(*given)
    )
    ours, model = GraphCompiler(Settings(device=EXECUTOR, target="sm_90")), Decoding()
    expected = copy.deepcopy(model)
    run = torch.compile(model, backend=ours)
    with torch.no_grad():
        for position in (40, 41, 191):
            token = [torch.randn(1, n, 1, 32, dtype=torch.bfloat16) for n in (2, 2, 2)]
            token.append(torch.tensor([position]))
            torch.testing.assert_close(run(*token), expected(*token), rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(model.keys, expected.keys)
    report = ours.log.report()
    assert len(report.parts) == 1 and not report.left
    assert made


class Growing(torch.nn.Module):
    """Tokens more, in a cache that is as long as there are tokens so far."""

    def __init__(self, masked=False):
        super().__init__()
        self.masked = masked

    def forward(self, query, key, value, keys, values):
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        mask = None
        if self.masked:
            mask = (torch.arange(keys.shape[2]) % 3 < 2).expand(len(keys), 1, 1, -1)
        return sdpa(query, keys, values, mask, enable_gqa=True) + 1, keys, values


def grown(
    model, ours, lengths=(40, 41, 42, 300), tokens=1, dtype=torch.bfloat16, batches=(2, 2, 2, 2)
):
    """The report of a model that was called with caches of these lengths; it was right."""
    run = torch.compile(model, backend=ours)
    with torch.no_grad():
        for batch, length in zip(batches, lengths, strict=False):
            sizes = (4, tokens), (2, tokens), (2, tokens), (2, length), (2, length)
            given = [torch.randn(batch, heads, rows, 32).to(dtype) for heads, rows in sizes]
            for found, wanted in zip(run(*given), model(*given), strict=True):
                torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
    return ours.log.report()


@pytest.fixture
def made(monkeypatch):
    """The attention that kernels of this package were made of."""
    found, make = [], AttentionKernels.kernel

    def noted(own, attention, tensors):
        found.append(attention)
        return make(own, attention, tensors)

    monkeypatch.setattr(AttentionKernels, "kernel", noted)
    return found


@pytest.mark.parametrize("masked", [False, True])
def test_decoding_in_a_growing_cache_is_one_part(libraries, made, masked):
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    report = grown(Growing(masked), ours)
    assert not report.left and len(report.parts) == len(ours.log.graphs) == 2, report
    assert [each.is_fixed for each in made] == [False]  # the first is small


@pytest.mark.parametrize("masked", [False, True])
def test_batches_of_any_size_in_a_growing_cache_are_one_part(libraries, made, masked):
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    report = grown(Growing(masked), ours, (40, 41, 42, 300), batches=(2, 3, 5, 2))
    assert not report.left and len(report.parts) == len(ours.log.graphs) == 2, report
    assert [isinstance(each.batch, int) for each in made] == [False]


def test_batches_of_any_size_in_a_cache_of_one_length(libraries, made):
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    report = grown(Growing(), ours, (600, 600, 600), batches=(2, 3, 5))
    assert not report.left and len(report.parts) == len(ours.log.graphs) == 2, report
    assert [(isinstance(each.batch, int), each.keys) for each in made][-1] == (False, 601)


@pytest.mark.parametrize(("length", "is_ours"), [(128, True), (1024, False)])
def test_short_attention_in_batches_of_any_size_is_ours(libraries, made, length, is_ours):
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))
    run = torch.compile(lambda *given: sdpa(*given) * 2, backend=ours)
    with torch.no_grad():
        for batch in (2, 3):
            q, k, v = heads(batch, 12, length, 64)
            torch.testing.assert_close(run(q, k, v), sdpa(q, k, v) * 2, rtol=2e-2, atol=2e-2)
    assert any(not isinstance(each.batch, int) for each in made) == is_ours
    assert bool(ours.log.report().left) != is_ours


def test_decoding_in_a_growing_cache_needs_no_library(monkeypatch, made):
    monkeypatch.setenv(locate.FOLDER, "off")
    report = grown(Growing(), GraphCompiler(Settings(device=EXECUTOR, target="sm_90")))
    assert len(report.parts) == 3 and report.left  # of the first, of known sizes
    assert not any(each.is_fixed for each in made) and len(made) == 1


@pytest.mark.parametrize("why", ["float32", "many queries", "an older GPU", "schemes"])
def test_other_attention_of_a_growing_cache_is_pytorchs(libraries, made, why):
    options = {"stitching": Options(schemes=("local", "warp"))} if why == "schemes" else {}
    target = "sm_75" if why == "an older GPU" else "sm_90"
    ours = GraphCompiler(Settings(device=EXECUTOR, target=target, smallest_part=1, **options))
    dtype = torch.float32 if why == "float32" else torch.bfloat16
    report = grown(Growing(), ours, (40, 41, 42), 9 if why == "many queries" else 1, dtype)
    assert not any(not each.is_fixed for each in made)
    assert why == "float32" or any("scaled_dot" in each.operator for each in report.left), report
