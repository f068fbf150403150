"""Parts through which much memory passes are cut, and gradients wait for no more than little."""

import operator

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402

from tvm_stitch.dynamo.parts import cuts, memory  # noqa: E402
from tvm_stitch.dynamo.parts.cuts import cut  # noqa: E402
from tvm_stitch.dynamo.parts.memory import is_little_kept  # noqa: E402

aten = torch.ops.aten
LAYERS = 8
ROWS, COLUMNS = 1 << 16, 1 << 10


class Traced:
    """A graph whose nodes say what they make."""

    def __init__(self):
        self.graph, self.mode = fx.Graph(), FakeTensorMode()

    def given(self, name, *shape):
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["val"] = torch.empty(shape)
        return node

    def call(self, target, *operands):
        node = self.graph.call_function(target, operands)
        values = fx.map_arg(operands, lambda each: each.meta["val"])
        with self.mode:
            node.meta["val"] = target(*values)
        return node

    def returns(self, *nodes):
        self.graph.output(nodes)
        return [node for node in self.graph.nodes if node.op == "call_function"]


def backward(rows, columns):
    """Layers of a product and a ReLU: what forward kept, their weights and their gradients."""
    traced = Traced()
    gradient, results = traced.given("tangents_1", rows, columns), []
    for layer in range(LAYERS):
        kept = traced.given(f"relu_{layer}", rows, columns)
        weight = traced.given(f"primals_{layer}", columns, columns)
        gradient = traced.call(aten.mul.Tensor, gradient, traced.call(aten.sign.default, kept))
        turned = traced.call(aten.permute.default, gradient, [1, 0])
        results.append(traced.call(aten.mm.default, turned, kept))
        results.append(traced.call(aten.sum.dim_IntList, gradient, [0]))
        gradient = traced.call(aten.mm.default, gradient, weight)
    return traced, traced.returns(gradient, *results)


def in_an_order_that_runs(part, pieces):
    assert sorted((n for piece in pieces for n in piece), key=part.index) == part
    done = {node for node in part[0].graph.nodes if node.op == "placeholder"}
    for node in (n for piece in pieces for n in piece):
        assert set(node.all_input_nodes) <= done
        done.add(node)
    return True


def test_what_passes_little_memory_is_one_part():
    _, part = backward(64, 64)
    assert cut(part) == [part]


def test_what_forward_kept_is_read_in_pieces():
    _, part = backward(ROWS, COLUMNS)  # 256 MB a layer
    pieces = cut(part)
    # Beside the layers the gradient that it is given, and the one that it returns.
    assert LAYERS <= len(pieces) <= LAYERS + 2 and in_an_order_that_runs(part, pieces)
    products = [sum(n.target is aten.mm.default for n in piece) for piece in pieces]
    assert max(products) <= 4


def test_nothing_that_could_stay_in_registers_is_cut():
    _, part = backward(ROWS, COLUMNS)
    place = {node: n for n, piece in enumerate(cut(part)) for node in piece}
    for node in part:
        if node.target is aten.sign.default:
            (user,) = node.users
            assert place[node] == place[user]


def test_a_view_goes_with_the_first_that_wants_it():
    _, part = backward(ROWS, COLUMNS)
    place = {node: n for n, piece in enumerate(cut(part)) for node in piece}
    views = [node for node in part if node.target is aten.permute.default]
    assert all(place[node] == min(place[user] for user in node.users) for node in views)


def test_several_results_are_taken_where_they_are_made():
    traced = Traced()
    x, results = traced.given("tangents_1", ROWS, COLUMNS), []
    for _ in range(LAYERS):
        several = traced.call(aten.max.dim, x, 1, True)
        largest, index = (traced.call(operator.getitem, several, n) for n in range(2))
        x = traced.call(aten.sub.Tensor, x, largest)
        results += [x, index]
    part = traced.returns(*results)
    pieces = cut(part)
    assert len(pieces) > 2 and in_an_order_that_runs(part, pieces)
    for piece in pieces:
        taken = [node.args[0] for node in piece if node.target is operator.getitem]
        assert set(taken) <= set(piece)


def test_one_large_result_cannot_be_cut():
    traced = Traced()
    x = traced.given("tangents_1", 2 * ROWS, COLUMNS)
    part = traced.returns(traced.call(aten.neg.default, x))
    assert cut(part) == [part]


@pytest.mark.parametrize("rows, waits", [(64, True), (ROWS, False)])
def test_gradients_of_weights_wait_where_that_keeps_little(rows, waits):
    traced, part = backward(rows, COLUMNS)
    assert is_little_kept(traced.graph, set(part)) is waits


def test_gradients_are_the_same_in_pieces(monkeypatch):
    """A part of every few operators: nothing is lost between them."""
    from tvm_stitch.torch import GraphCompiler, Settings

    def gradients(model):
        torch.nn.functional.mse_loss(model(x), y).backward()
        found = [parameter.grad.clone() for parameter in own.parameters()]
        own.zero_grad()
        return found

    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(33, 33), torch.nn.GELU()) for _ in range(4)]
    own = torch.nn.Sequential(*layers, torch.nn.LayerNorm(33))
    x, y = torch.randn(7, 33), torch.randn(7, 33)
    expected, parts = gradients(own), []
    for least in (cuts.LEAST_BYTES, 1 << 11):
        torch._dynamo.reset()
        monkeypatch.setattr(cuts, "LEAST_BYTES", least)
        monkeypatch.setattr(memory, "LEAST_BYTES", 0)
        compiler = GraphCompiler(Settings(device="cpu-executor", target="sm_90"))
        found = gradients(torch.compile(own, backend=compiler))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
        report = compiler.log.report()
        assert not [part.failure for part in report.parts if part.failure]
        parts.append(len(report.parts))
    assert parts[1] > parts[0] + 2
