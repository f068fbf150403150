"""Views between parts: what has gaps is taken inside of the part that reads it."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.parts import PREFIX, is_view, split  # noqa: E402
from tvm_stitch.frontend.torch.layout import is_dense  # noqa: E402

THEIRS = torch.ops.aten.sin.default


def halves(x):
    """Modulation: what comes first is wanted by the first part, the rest behind PyTorch's."""
    scale, shift, gate = (x * 2).chunk(3, -1)
    return x[:, :4] * scale + 1, lambda y: y * gate[:, :1] + shift


def selected(x):
    heads = (x + 1).view(6, 2, 6).permute(1, 0, 2)
    return heads[0].exp() - 1, lambda y: y * heads[1] + heads[0]


def expanded(x):
    row = (x * 3).sum(0, keepdim=True)
    return x * row, lambda y: y + row.expand(6, 12) * 2


def of_an_input(x):
    return x.exp() + 1, lambda y: y[:, :6] * x[:, 6:] + x[:, :6]


def dense(x):
    rows = (x * 2).exp()
    return x + rows, lambda y: y[:3] * rows[3:] + 1


@pytest.mark.parametrize("first", [halves, selected, expanded, of_an_input, dense])
def test_what_has_gaps_is_taken_by_its_reader(first):
    def function(x):
        before, behind = first(x)
        return behind(before.sin()) + 1

    x = torch.linspace(-1, 1, 72).view(6, 12)
    graph = make_fx(function, tracing_mode="fake")(x)
    split(graph, lambda node: node.target is not THEIRS, 2)
    graph.recompile()
    parts = [node for node in graph.graph.nodes if str(node.target).startswith(PREFIX)]
    assert len(parts) == 2
    for part in parts:
        given = [source.meta["val"] for source in part.all_input_nodes]
        assert all(map(is_dense, given)), [tuple(each.stride()) for each in given]
    assert all(node.users for node in graph.graph.nodes if is_view(node))
    torch.testing.assert_close(graph(x), function(x))


def test_what_pytorch_left_with_gaps_is_as_it_was():
    """Nothing dense is behind it: it is copied when the part runs."""

    def function(x):
        return (x.sin()[:, ::2] + 1).exp() * 2

    x = torch.rand(4, 6).t()
    graph = make_fx(function, tracing_mode="fake")(x[::2])
    split(graph, lambda node: node.target is not THEIRS, 2)
    graph.recompile()
    torch.testing.assert_close(graph(x[::2]), function(x[::2]))
