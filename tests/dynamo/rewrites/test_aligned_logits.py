"""Odd vocabularies in training: logits and gradients with aligned rows, as exact as before."""

import pytest
from library_stand_in import folder

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.aligned import products  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

TOKENS, DEPTH = 26, 16
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    monkeypatch.setattr(products, "_GAIN", 0.0)  # copies cost nothing
    torch._dynamo.reset()
    torch.manual_seed(0)


class Watched(GraphCompiler):
    """Notes down the last extents of what is scattered to, the gradient's, and what is padded."""

    def __post_init__(self):
        super().__post_init__()
        self.widths, self.padded, self.kept = set(), [], []

    def compile_graph(self, device, graphs, kind, graph, inputs):
        (output,) = graph.graph.find_nodes(op="output")
        if kind == "forward":
            returned = [each for each in output.args[0] if each.op != "placeholder"]
            self.kept = [tuple(each.meta["val"].shape) for each in returned]
        return super().compile_graph(device, graphs, kind, graph, inputs)

    def _compiled_part(self, log, part, operators, over, known):
        for node in part.graph.nodes:
            if node.target is aten.scatter.value:
                self.widths.add(node.meta["val"].shape[-1])
            if node.target is aten.constant_pad_nd.default:
                self.padded.append(tuple(node.meta["val"].shape))
        return super()._compiled_part(log, part, operators, over, known)


def entropy(logits, labels, **how):
    wide = torch.promote_types(logits.dtype, torch.float32)
    return functional.cross_entropy(logits.to(wide), labels, **how)


def weighted(hidden, weight, bias, labels):
    logits = hidden @ weight.t()
    wide = torch.promote_types(logits.dtype, torch.float32)
    return entropy(logits, labels, weight=bias.detach().to(wide).abs())


def with_log_z(hidden, weight, bias, labels):
    logits = hidden @ weight.t()
    return entropy(logits, labels) + 1e-2 * logits.to(bias.dtype).logsumexp(-1).square().mean()


def tied(hidden, weight, bias, labels):
    hidden = functional.embedding(labels.clamp(0), weight) + hidden
    return entropy(hidden @ weight.t(), labels)


def by_sequences(hidden, weight, bias, labels):
    logits = functional.linear(hidden.view(2, -1, DEPTH), weight, bias)
    return entropy(logits.view(-1, logits.shape[-1]), labels, reduction="sum")


LOSSES = {
    "mean": lambda h, w, b, labels: entropy(h @ w.t(), labels),
    "by sequences": by_sequences,
    "with a bias": lambda h, w, b, labels: entropy(functional.linear(h, w, b), labels),
    "of each token": lambda h, w, b, labels: (
        entropy(h @ w.t(), labels, reduction="none") * torch.arange(TOKENS)
    ).sum(),
    "with log z": with_log_z,
    "tied": tied,
    "of a frozen model": lambda h, w, b, labels: entropy(h.detach() @ w.t(), labels),
}
STAY = {
    "weighted": weighted,
    "of a transposed weight": lambda h, w, b, labels: entropy(h @ w.t().contiguous(), labels),
    "smoothed": lambda h, w, b, labels: entropy(h @ w.t(), labels, label_smoothing=0.1),
    "capped": lambda h, w, b, labels: entropy((h @ w.t() / 3).tanh() * 3, labels),
    "divided": lambda h, w, b, labels: entropy((h @ w.t()) / h[:, :1], labels),
}


def given(dtype, columns):
    """The same random numbers every time, in a type; logits are far below zero."""
    made = torch.Generator().manual_seed(1)
    shapes = (TOKENS, DEPTH), (columns, DEPTH), (columns,)
    labels = torch.randint(0, columns, (TOKENS,), generator=made)
    labels[3] = labels[20] = -100
    labels[4] = columns - 1
    hidden, weight, bias = (torch.randn(shape, generator=made) for shape in shapes)
    return [each.to(dtype) for each in (-hidden.abs(), weight.abs(), bias)], labels


def results(run, tensors, labels):
    """A loss and the gradients of what it is made of, in float64."""
    tensors = [each.clone().requires_grad_() for each in tensors]
    loss = run(*tensors, labels)
    (0.5 * loss).backward()
    gradients = [x.grad for x in tensors if x.grad is not None]
    return [each.detach().double() for each in (loss, *gradients)]


def compared(loss, dtype, columns, **settings):
    """Ours are as near to float64 as eager's."""
    tensors, labels = given(dtype, columns)
    compiler = Watched(Settings(device=EXECUTOR, target="sm_90", **settings))
    exact = results(loss, [each.double() for each in tensors], labels)
    eager = results(loss, tensors, labels)
    found = results(torch.compile(loss, backend=compiler, fullgraph=True), tensors, labels)
    assert len(found) == len(exact)
    for mine, theirs, true in zip(found, eager, exact, strict=True):
        assert mine.shape == true.shape
        assert (mine - true).norm() <= 1.2 * (theirs - true).norm() + 2e-6 * true.norm()
    assert not [part.failure for part in compiler.log.report().parts if part.failure]
    return compiler


@pytest.mark.spread(3)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_logits_are_written_as_products_want_them(name, dtype):
    compiler = compared(LOSSES[name], dtype, 1237)
    assert compiler.widths == {1240}
    assert (TOKENS, 1240) in compiler.kept
    assert not any(TOKENS in shape for shape in compiler.padded)


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", [7, 31, 33, 1027, 2050])
def test_of_any_odd_number_of_columns(columns):
    compiler = compared(LOSSES["with a bias"], torch.bfloat16, columns)
    assert compiler.widths == {-(-columns // 8) * 8}


@pytest.mark.spread(1)
@pytest.mark.parametrize("name", STAY)
def test_logits_stay_where_columns_behind_the_last_would_be_counted(name):
    assert compared(STAY[name], torch.bfloat16, 1237).widths == {1237}


def test_aligned_logits_stay():
    compiler = compared(LOSSES["mean"], torch.bfloat16, 1240)
    assert compiler.widths == {1240} and not compiler.padded


def test_float32_stays_where_it_may_not_be_rounded():
    assert compared(LOSSES["mean"], torch.float32, 1237).widths == {1237}


def test_logits_that_are_asked_for_stay():
    def run(hidden, weight, labels):
        logits = hidden @ weight.t()
        return entropy(logits, labels), logits

    (hidden, weight, _), labels = given(torch.bfloat16, 1237)
    compiler = Watched(Settings(device=EXECUTOR, target="sm_90"))
    loss, logits = torch.compile(run, backend=compiler)(hidden.requires_grad_(), weight, labels)
    loss.backward()
    assert logits.shape == (TOKENS, 1237) and logits.is_contiguous()
    assert compiler.widths == {1237}


@pytest.mark.slow
def test_chunks_of_rows_have_wide_logits():
    most = 8 * 1240 * 2
    compiler = compared(LOSSES["tied"], torch.bfloat16, 1237, largest_logits=most)
    assert compiler.widths == {1240}
    assert compiler.padded and all(
        TOKENS not in shape and 8 not in shape for shape in compiler.padded
    )


def test_a_row_that_is_lost_loses_no_other():
    """Its gradient is no number, as in eager mode; others are, though the columns are summed."""
    (hidden, weight, _), labels = given(torch.bfloat16, 1237)
    hidden[5, 2], hidden[9, 0] = float("nan"), float("inf")
    compiler = Watched(Settings(device=EXECUTOR, target="sm_90"))
    found = []
    for run in (LOSSES["mean"], torch.compile(LOSSES["mean"], backend=compiler)):
        x = hidden.clone().requires_grad_()
        run(x, weight.clone().requires_grad_(), None, labels).backward()
        found.append(x.grad)
    eager, ours = found
    assert compiler.widths == {1240}
    assert torch.equal(eager.isnan(), ours.isnan()) and eager.isnan().any(1).sum() == 2
