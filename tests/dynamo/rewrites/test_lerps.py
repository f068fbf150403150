"""Steps between tensors that dynamo wrote out become `lerp` again, and round once."""

import pytest

pytest.importorskip("torch")

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tvm_stitch.dynamo.rewrites.lerps import with_lerps

WEIGHT = 0.1


def summed(start, end):
    return start + (end - start) * WEIGHT


def summed_of_scalars(start, end):
    return torch.add(start, torch.ops.aten.mul.Scalar(end - start, WEIGHT))


def filled(start, end):
    difference = end - start
    return torch.addcmul(start, torch.full_like(difference, WEIGHT), difference)


def of_a_list(start, end):
    """With the arguments' defaults, as calls of lists are when they come apart."""
    difference = torch.ops.aten.sub.Tensor(end, start, alpha=1)
    full = torch.full_like(difference, WEIGHT)
    return torch.ops.aten.addcmul(start, full, difference, value=1)


def read_twice(start, end):
    difference = end - start
    return start + difference * WEIGHT, difference


def by_a_tensor(start, end):
    return start + (end - start) * end


def another_start(start, end):
    return end + (end - start) * WEIGHT


def scaled(start, end):
    return torch.add(start, (end - start) * WEIGHT, alpha=2)


def graph_of(function, dtype=torch.bfloat16):
    with FakeTensorMode() as mode:
        values = [mode.from_tensor(torch.empty(3, 5, dtype=dtype)) for _ in range(2)]
        graph = make_fx(function)(*values)
    with_lerps(graph.graph)
    graph.graph.lint()
    graph.recompile()
    return graph


def targets(graph):
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("function", [summed, summed_of_scalars, filled, of_a_list])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_step_is_one_operator(function, dtype):
    graph = graph_of(function, dtype)
    assert targets(graph) == [torch.ops.aten.lerp.Scalar]
    start, end = (torch.randn(3, 5).to(dtype) for _ in range(2))
    assert torch.equal(graph(start, end), torch.lerp(start, end, WEIGHT))


@pytest.mark.parametrize("function", [read_twice, by_a_tensor, another_start, scaled])
def test_what_is_no_step_stays(function):
    assert torch.ops.aten.lerp.Scalar not in targets(graph_of(function))


def test_float32_is_exact_enough_as_it_is():
    assert torch.ops.aten.lerp.Scalar not in targets(graph_of(summed, torch.float32))
