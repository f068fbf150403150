"""Sums with what lies across the rows lie row by row, and results leave as PyTorch's do."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.rows_together import with_rows_together  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch.layout import order_of  # noqa: E402

nn = torch.nn
LENGTH = 14
ACROSS = (0, 2, 1)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Speech(nn.Module):
    """A signal by channels, and layers behind it that want its places."""

    def __init__(self, channels=8, batch=2, ends_across=False):
        super().__init__()
        self.wide = nn.Conv1d(3, channels, 3, padding=1)
        self.places = nn.Parameter(torch.randn(LENGTH, channels))
        self.layers = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))
        self.ends_across = ends_across

    def forward(self, x):
        across = self.wide(x).permute(0, 2, 1)
        h = across + self.places
        for layer in self.layers:
            h = h + layer(h.tanh()).relu()
        return h + across * 2 if self.ends_across else h


def compiled(model, *inputs, dynamic=False):
    """The layouts of sums before and after, and of the first result; None: nothing changed."""
    seen = []

    def kept(graph, is_ours):
        found = with_rows_together(graph, is_ours)
        (output,) = found.find_nodes(op="output")
        result = order_of(output.args[0][0].meta["val"])
        seen.append(None if found is graph else (sums(graph), sums(found), result))
        return found

    with pytest.MonkeyPatch.context() as patched, torch.no_grad():
        patched.setattr("tvm_stitch.dynamo.rewrites.in_order.with_rows_together", kept)
        run = torch.compile(
            model, backend=GraphCompiler(Settings(device=LLVM)), dynamic=dynamic, fullgraph=True
        )
        got, want = run(*inputs), model(*inputs)
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
    return seen[-1]


def sums(graph):
    """How each sum of the graph is read: as it lies, or as the copy of it."""
    found = []
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        (user, *others) = node.users
        is_copied = not others and user.target is torch.ops.aten.clone.default
        found.append(order_of((user if is_copied else node).meta["val"]))
    return found


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_residual_behind_a_convolution_lies_row_by_row(batch, dynamic):
    before, after, result = compiled(Speech(), torch.randn(batch, 3, LENGTH), dynamic=dynamic)
    assert before.count(ACROSS) >= 3
    assert after.count(ACROSS) == 1, "that of the convolution with the places"
    assert result == ACROSS


def test_a_result_that_is_such_a_sum_leaves_as_pytorchs_does():
    before, _after, result = compiled(Speech(ends_across=True), torch.randn(2, 3, LENGTH))
    assert before[-1] == result == ACROSS


def test_heads_and_images_stay_as_they_are():
    def heads(q, k):
        return q.permute(0, 2, 1, 3) * 2 + k

    def image(x, y):
        return x.relu() + y

    assert compiled(heads, torch.randn(2, 5, 3, 4), torch.randn(2, 3, 5, 4)) is None
    x = torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last)
    assert compiled(image, x, torch.randn(2, 4, 5, 6)) is None


def test_what_stays_pytorchs_is_left():
    def function(x, y):
        return x.permute(1, 0) + y

    graph = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(
        torch.randn(5, 4), torch.randn(4, 5)
    ).graph
    assert sums(with_rows_together(graph, lambda _node: False)) == [(1, 0)]
    assert sums(with_rows_together(graph, lambda _node: True)) == [(0, 1)]
