"""Logits, their loss and gradients by chunks of rows: as exact, and never all of the logits."""

import copy
from typing import Any, NamedTuple

import pytest
from library_stand_in import folder

torch = pytest.importorskip("torch")

transformers = pytest.importorskip("transformers")

from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.parts.nodes import is_view  # noqa: E402
from tvm_stitch.dynamo.rewrites.row_chunks.logits import rows_of_chunk  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

TOKENS, DEPTH, VOCABULARY = 26, 16, 37
ROWS = 8  # of a chunk, at most


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    torch._dynamo.reset()
    torch.manual_seed(0)


class Watched(GraphCompiler):
    """Notes down what chunks may write over, and the largest tensor of a part, views apart."""

    largest = 0

    def __post_init__(self):
        super().__post_init__()
        self.over = []

    def _compiled_part(self, log, part, operators, over, known):
        if any(each.startswith("amax") for each in operators):
            self.over.append(known.results.over)
        for node in part.graph.nodes:
            if node.op != "output" and not is_view(node):
                self.largest = max(self.largest, node.meta["val"].numel())
        return super()._compiled_part(log, part, operators, over, known)


class Given(NamedTuple):
    """What losses are of; `wide` is the type that they are computed in."""

    hidden: Any
    weight: Any
    bias: Any
    labels: Any
    wide: Any


def compiler(dtype, rows=ROWS):
    most = rows * VOCABULARY * dtype.itemsize
    return Watched(Settings(device=EXECUTOR, target="sm_90", largest_logits=most))


def entropy(logits, of, **how):
    return functional.cross_entropy(logits.to(of.wide), of.labels, ignore_index=-100, **how)


def logits_of(of):
    return of.hidden @ of.weight.t()


def by_sequences(of):
    """As a model has them: a batch of sequences."""
    return functional.linear(of.hidden.view(2, -1, DEPTH), of.weight, of.bias)


def tied(of):
    hidden = functional.embedding(of.labels.clamp(0), of.weight) + of.hidden
    return entropy(hidden @ of.weight.t(), of)


def capped(of):
    logits = logits_of(of).to(of.wide)
    return entropy((logits / 3).tanh() * 3, of)


def with_log_z(of):
    logits = logits_of(of).to(of.wide)
    return entropy(logits, of) + 0.01 * logits.logsumexp(-1).square().mean()


def by_autocast(of):
    """Logits of float32 are halves, of which twice as many rows fit."""
    with torch.autocast("cpu", torch.bfloat16, enabled=of.wide is torch.float32):
        return entropy(functional.linear(of.hidden, of.weight, of.bias), of)


def of_two_heads(of):
    return entropy(logits_of(of), of) + entropy(of.hidden @ (of.weight * 2).t(), of)


LOSSES = {
    "mean": lambda of: entropy(logits_of(of), of),
    "sum": lambda of: entropy(logits_of(of), of, reduction="sum") / 7,
    "smoothed": lambda of: entropy(logits_of(of), of, label_smoothing=0.1),
    "weighted": lambda of: entropy(logits_of(of), of, weight=of.bias.detach().to(of.wide).abs()),
    "each": lambda of: (entropy(logits_of(of), of, reduction="none") * torch.arange(TOKENS)).sum(),
    "by sequences": lambda of: entropy(by_sequences(of).view(-1, VOCABULARY), of),
    "transposed": lambda of: entropy(of.hidden @ of.weight.t().contiguous(), of),
    "frozen head": lambda of: entropy(of.hidden @ of.weight.detach().t(), of),
    "frozen model": lambda of: entropy(of.hidden.detach() @ of.weight.t(), of),
    "tied": tied,
    "by autocast": by_autocast,
    "capped": capped,
    "with log z": with_log_z,
    "of two heads": of_two_heads,
}
AT_ONCE = {
    "a sum over rows": (
        lambda of: entropy(logits := logits_of(of), of) + logits.mean(0).square().sum(),
        "is over rows",
    ),
    "losses of tokens": (
        lambda of: entropy(logits_of(of), of, reduction="none"),
        "its gradients are of more than one number",
    ),
    "a square of the gradient": (
        lambda of: Squared.apply(entropy(logits_of(of), of)),
        "its gradients are not linear, by aten.mul.Tensor",
    ),
    "logits without the last": (
        lambda of: functional.cross_entropy(
            by_sequences(of)[:, :-1].to(of.wide).reshape(-1, VOCABULARY),
            of.labels.view(2, -1)[:, 1:].reshape(-1),
        ),
        "aten.slice.Tensor is not known by rows",
    ),
}


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x.clone()

    @staticmethod
    def backward(_context, gradient):
        return gradient * gradient


def given(dtype, wide=torch.float32):
    """The same random numbers every time, in a type."""
    made = torch.Generator().manual_seed(1)
    shapes = {
        "hidden": (TOKENS, DEPTH), "weight": (VOCABULARY, DEPTH), "bias": (VOCABULARY,),
    }  # fmt: skip
    found = {name: torch.randn(shape, generator=made) for name, shape in shapes.items()}
    labels = torch.randint(0, VOCABULARY, (TOKENS,), generator=made)
    labels[3] = labels[20] = -100
    return found, labels, wide


def results(run, dtype, exact=False):
    """A loss and the gradients of what it is made of, in float64."""
    found, labels, wide = given(dtype)
    kind = torch.float64 if exact else dtype
    tensors = {name: x.to(dtype).to(kind).requires_grad_() for name, x in found.items()}
    loss = run(*tensors.values(), labels, torch.float64 if exact else wide)
    (0.5 * loss.sum()).backward()
    gradients = [x.grad for x in tensors.values() if x.grad is not None]
    return [each.detach().double() for each in (loss, *gradients)]


def compared(loss, dtype, ours):
    """Ours are as near to float64 as eager's."""

    def run(hidden, weight, bias, labels, wide):
        return loss(Given(hidden, weight, bias, labels, wide))

    exact = results(run, dtype, exact=True)
    eager, found = (
        results(run, dtype),
        results(torch.compile(run, backend=ours, fullgraph=True), dtype),
    )
    assert len(found) == len(exact)
    for mine, theirs, true in zip(found, eager, exact, strict=True):
        off, allowed = (mine - true).norm(), (theirs - true).norm()
        assert off <= 1.2 * allowed + 2e-6 * true.norm()
    assert not [part.failure for part in ours.log.report().parts if part.failure]


def chunks(ours):
    return [part for part in ours.log.report().parts if "amax" in part.operators]


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_are_as_exact_by_chunks(name, dtype):
    ours = compiler(dtype)
    compared(LOSSES[name], dtype, ours)
    assert not ours.log.notes
    several = {"of two heads": 8, "by autocast": 4 if dtype is torch.bfloat16 else 2}
    assert len(chunks(ours)) == several.get(name, 4)
    are_halves = dtype is torch.bfloat16 or name == "by autocast"
    padded = 40 if are_halves else VOCABULARY
    assert ours.largest <= max(ROWS * padded, DEPTH * padded)
    assert ours.largest < TOKENS * VOCABULARY


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", AT_ONCE)
def test_what_needs_more_than_a_row_or_a_number_is_computed_at_once(name):
    loss, reason = AT_ONCE[name]
    ours = compiler(torch.bfloat16)
    compared(loss, torch.bfloat16, ours)
    (note,) = ours.log.notes
    assert note.startswith(f"logits of {TOKENS} x {VOCABULARY} are computed at once: ")
    assert note.endswith(reason)
    assert len(chunks(ours)) == 1


def test_logits_that_are_asked_for_are_computed_at_once():
    ours = compiler(torch.bfloat16)

    def run(hidden, weight, labels):
        logits = hidden @ weight.t()
        return functional.cross_entropy(logits.float(), labels), logits

    found, labels, _ = given(torch.bfloat16)
    tensors = [found[name].bfloat16().requires_grad_() for name in ("hidden", "weight")]
    loss, logits = torch.compile(run, backend=ours, fullgraph=True)(*tensors, labels)
    wanted = run(*tensors, labels)
    torch.testing.assert_close((loss, logits), wanted, rtol=1e-2, atol=1e-2)
    (note,) = ours.log.notes
    assert note.endswith("is asked for")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_sums_over_rows_are_written_over_those_before(dtype):
    ours = compiler(dtype)
    compared(LOSSES["by sequences"], dtype, ours)
    first, *others = ours.over
    assert not first
    assert [len(over) for over in others] == [2, 2, 2]  # of the weight and of the bias


@pytest.mark.parametrize(
    ("rows", "columns", "most", "size"),
    [
        (2048, 50257, 1 << 30, None),
        (8192, 128256, 1 << 30, 4096),
        (8192, 128256, 1 << 28, 1024),
        (2048, 50257, 110 << 20, 1024),
        (8190, 128256, 1 << 30, 4096),
        (26, 37, 8 * 37 * 2, 8),
        (26, 37, 1, 1),
        (8192, 128256, 1, 128),
    ],
)
def test_chunks_are_alike_if_that_takes_few_more(rows, columns, most, size):
    logits = torch.empty(rows, columns, dtype=torch.bfloat16, device="meta")
    assert rows_of_chunk(logits, most) == size


@pytest.mark.slow
def test_rows_that_change_are_computed_at_once():
    ours = compiler(torch.bfloat16)

    def run(hidden, weight, labels):
        return functional.cross_entropy((hidden @ weight.t()).float(), labels)

    hidden, weight = torch.randn(TOKENS, DEPTH), torch.randn(VOCABULARY, DEPTH)
    labels = torch.randint(0, VOCABULARY, (TOKENS,))
    found = []
    for each in (torch.compile(run, backend=ours, dynamic=True), run):
        x, w = hidden.bfloat16().requires_grad_(), weight.bfloat16().requires_grad_()
        each(x, w, labels).backward()
        found.append((x.grad, w.grad))
    torch.testing.assert_close(*found, rtol=1e-2, atol=1e-3)
    assert len(chunks(ours)) == 1


def gpt2():
    sizes = {"n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 16, "vocab_size": 517}
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    tokens = {"bos_token_id": 0, "eos_token_id": 0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **rates, **tokens))
    model.loss_type = "ForCausalLM"  # else Transformers warns in front of the loss
    return model


def llama():
    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 520}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_language_models_learn_as_in_eager_mode(make, dtype):
    """Tied embeddings and an odd vocabulary, or neither; a divisor of the loss; two batches."""
    model = make().to(dtype)
    tokens = torch.randint(0, 500, (2, 2, 12))
    labels = tokens.clone()
    labels[:, 0, :3] = -100
    vocabulary = model.config.vocab_size
    ours = GraphCompiler(
        Settings(EXECUTOR, "sm_90", largest_logits=8 * vocabulary * dtype.itemsize)
    )
    found = {}
    for name in ("exact", "eager", "ours"):
        torch.manual_seed(0)
        trained = copy.deepcopy(model).to(torch.float64 if name == "exact" else dtype)

        def loss(tokens, labels, trained=trained):
            return trained(
                input_ids=tokens, labels=labels, use_cache=False, num_items_in_batch=40
            ).loss

        run = torch.compile(loss, backend=ours) if name == "ours" else loss
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            for batch in zip(tokens, labels, strict=True):
                losses.append(run(*batch))
                losses[-1].backward()
            if len(losses) == 2:
                gradients = [each.grad.double() for each in trained.parameters()]
            optimizer.step()
        found[name] = torch.stack(losses).detach().double(), gradients
    assert len(chunks(ours)) >= 3
    assert not ours.log.notes
    (exact, true), (eager, theirs), (mine, our) = found.values()
    rounding = 1e-6 if dtype is torch.float32 else 1e-3
    assert (mine - exact).abs().max() <= 1.5 * (eager - exact).abs().max() + rounding
    for one, other, each in zip(our, theirs, true, strict=True):
        assert (one - each).norm() <= 1.3 * (other - each).norm() + rounding * each.norm()
