"""Levels of a graph: few, in an order that runs, and nothing computed long before it is wanted.

And what passes between parts: views that have gaps are taken by their readers.
"""

import operator
import random

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.parts.levels import levels  # noqa: E402
from tvm_stitch.dynamo.parts.nodes import device_of, is_view  # noqa: E402
from tvm_stitch.dynamo.parts.split import PREFIX, split  # noqa: E402
from tvm_stitch.dynamo.support import Support, tensors_of  # noqa: E402
from tvm_stitch.frontend.torch.layout import is_dense  # noqa: E402

OURS, THEIRS = operator.neg, operator.pos
SINE = torch.ops.aten.sin.default


def is_ours(node):
    return node.target is not THEIRS


def call(graph, target, *operands):
    return graph.call_function(target, operands)


def place_of(graph):
    return {node: n for n, level in enumerate(levels(graph, is_ours)) for node in level}


def test_layers_of_theirs_stand_between():
    graph = fx.Graph()
    x = graph.placeholder("x")
    for _ in range(3):
        x = call(graph, THEIRS, call(graph, OURS, x))
    graph.output((call(graph, OURS, x),))
    assert [len(level) for level in levels(graph, is_ours)] == [1, 1, 1, 1]


def test_a_cast_of_a_weight_waits_for_its_user():
    graph = fx.Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    cast = call(graph, OURS, weight)
    user = call(graph, operator.add, call(graph, THEIRS, call(graph, OURS, x)), cast)
    graph.output((user,))
    place = place_of(graph)
    assert place[cast] == place[user] == 1


def test_what_is_only_returned_stays_with_its_operands():
    graph = fx.Graph()
    first = call(graph, OURS, graph.placeholder("x"))
    kept = call(graph, OURS, call(graph, OURS, first))
    last = call(graph, OURS, call(graph, THEIRS, first))
    graph.output((kept, last))
    place = place_of(graph)
    assert place[first] == place[kept] == 0 and place[last] == 1


def test_what_is_taken_of_several_results_stays_with_them():
    graph = fx.Graph()
    several = call(graph, OURS, graph.placeholder("x"))
    first, second = (call(graph, operator.getitem, several, n) for n in range(2))
    behind = call(graph, operator.add, call(graph, THEIRS, first), second)
    graph.output((behind,))
    place = place_of(graph)
    assert place[several] == place[first] == place[second] < place[behind]


def test_gradients_of_weights_come_together_at_the_end():
    graph = fx.Graph()
    x = graph.placeholder("x")
    gradients = []
    for _ in range(3):
        x = call(graph, THEIRS, call(graph, OURS, x))
        gradients.append(call(graph, OURS, x))
    graph.output(tuple(gradients))
    ends = [set(level) & set(gradients) for level in levels(graph, is_ours, returned_last=True)]
    assert ends[-1] == set(gradients)


@pytest.mark.parametrize("seed", range(20))
def test_no_order_is_broken_and_no_level_is_needless(seed):
    chance, graph = random.Random(seed), fx.Graph()
    made = [graph.placeholder(name) for name in "xyz"]
    for _ in range(40):
        target = chance.choice([OURS, THEIRS, operator.add])
        made.append(
            call(graph, target, *chance.choices(made[-12:], k=2 if target is operator.add else 1))
        )
    graph.output(tuple(made[-3:]))
    place, depth = place_of(graph), {}
    for node in graph.nodes:
        above = [depth[each] for each in node.all_input_nodes]
        theirs = node.target is THEIRS
        depth[node] = max(
            (
                d + (theirs and each in place)
                for d, each in zip(above, node.all_input_nodes, strict=True)
            ),
            default=0,
        )
    assert len(set(place.values())) <= 1 + max(depth.values())
    # Levels run one after the other, and theirs as soon as what they want is there.
    ready, waiting = {n for n in graph.nodes if n.op == "placeholder"}, levels(graph, is_ours)
    theirs = [n for n in graph.nodes if n.target is THEIRS]
    while waiting:
        for node in theirs:
            if set(node.all_input_nodes) <= ready:
                ready.add(node)
        level = waiting.pop(0)
        for node in level:
            assert set(node.all_input_nodes) <= ready, "an operand of a level is not there yet"
            ready.add(node)


def parted(function, *devices):
    """The parts of a function of a tensor for each device, as one of them is told to take them."""
    with FakeTensorMode():
        graph = make_fx(function)(*(torch.empty(4, 8, device=each) for each in devices))
    support = Support(torch.device(devices[0]))
    split(graph, support.accepts, 2)
    return [part for name, part in graph.named_children() if name.startswith(PREFIX)]


def devices(part):
    values = [node.meta.get("val") for node in part.graph.nodes if node.op != "output"]
    return {str(tensor.device) for value in values for tensor in tensors_of(value)}


def test_a_part_lies_on_one_device():
    def function(x, y):
        first, other = (x + 1).relu(), (y * 2).exp()
        return first, other, (first.to("cuda:1") * other + 3).sin()

    parts = parted(function, "cuda:0", "cuda:1")
    assert [devices(part) for part in parts] == [{"cuda:0"}, {"cuda:1"}]
    for part in parts:
        (output,) = part.graph.find_nodes(op="output")
        assert {str(device_of(output.args[0][0]))} == devices(part)


def test_what_lies_on_another_kind_of_device_is_pytorchs():
    (part,) = parted(lambda x, y: ((x + 1).relu(), (y + 1).relu()), "cuda:0", "cpu")
    assert devices(part) == {"cuda:0"}


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
    split(graph, lambda node: node.target is not SINE, 2)
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
    split(graph, lambda node: node.target is not SINE, 2)
    graph.recompile()
    torch.testing.assert_close(graph(x[::2]), function(x[::2]))
