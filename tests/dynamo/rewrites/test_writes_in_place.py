"""Writes of PyTorch's into what is filled for them: nothing is copied first."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.writes_in_place import with_writes_in_place  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

_aten = torch.ops.aten


def graph_of(function, *inputs):
    """A functional graph of core operators."""
    return torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(*inputs)


def targets(graph):
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_each_write_has_zeros_of_its_own():
    def twice(index, x):
        zeros = _aten.full.default([5, 40], 0.0)
        return _aten.scatter_add(zeros, 1, index, x), _aten.scatter_add(zeros, 1, index, x + 1)

    index, x = torch.randint(0, 40, (5, 20)), torch.randn(5, 20)
    module = graph_of(twice, index, x)
    wanted = module(index, x)
    with_writes_in_place(module.graph, {})
    module.recompile()
    assert targets(module.graph).count(_aten.full.default) == 2
    assert targets(module.graph).count(_aten.scatter_add_.default) == 2
    torch.testing.assert_close(module(index, x), wanted)


def test_what_others_read_and_what_is_ours_is_left():
    def read(index, x, y):
        return _aten.scatter_add(y, 1, index, x), _aten.scatter.value(y * 0, 1, index, 2.0)

    index, x = torch.randint(0, 40, (5, 20)), torch.randn(5, 20)
    graph = graph_of(read, index, x, torch.randn(5, 40)).graph
    before = targets(graph)
    with_writes_in_place(graph, {})
    assert targets(graph) == before
    graph = graph_of(
        lambda i, x: _aten.scatter_add(_aten.full([5, 40], 0.0), 1, i, x), index, x
    ).graph
    before = targets(graph)
    with_writes_in_place(graph, dict.fromkeys(graph.nodes, True))
    assert targets(graph) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_gather(dtype):
    def gathered(x, index):
        return (x.exp().gather(-1, index) * 2).sigmoid(), x.gather(-1, index)

    index, results = torch.randint(0, 70, (6, 40)), []
    compiler = GraphCompiler(Settings(device=LLVM))
    torch._dynamo.reset()
    values = torch.randn(6, 70).to(dtype)
    for run in (torch.compile(gathered, backend=compiler), gathered):
        x = values.clone().requires_grad_()
        first, second = run(x, index)
        (first.sum() + second.sum()).backward()
        results.append((first.detach(), x.grad))
    torch.testing.assert_close(*results)
    assert {each.operator for each in compiler.log.report().left} == {"scatter_add"}
    assert not [part.failure for part in compiler.log.report().parts if part.failure]
