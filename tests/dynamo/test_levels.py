"""Levels of a graph: few, in an order that runs, and nothing computed long before it is wanted."""

import operator
import random

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.levels import levels  # noqa: E402
from tvm_stitch.dynamo.parts import PREFIX, device_of, split  # noqa: E402
from tvm_stitch.dynamo.support import Support, tensors_of  # noqa: E402

OURS, THEIRS = operator.neg, operator.pos


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
    split(graph, lambda node: support.refused(node) is None, 2)
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
