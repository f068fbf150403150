"""What a graph with a loss keeps for its backward pass."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

ROWS, CLASSES = 6, 515


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def loss(logits, labels):
    return functional.cross_entropy(logits.float(), labels, label_smoothing=0.1)


class Kept(GraphCompiler):
    """Notes down the shapes that forward graphs return."""

    shapes = ()

    def compile_graph(self, device, graphs, kind, graph, inputs):
        (output,) = graph.graph.find_nodes(op="output")
        if kind == "forward":
            returned = [each for each in output.args[0] if each.op != "placeholder"]
            self.shapes = [tuple(each.meta["val"].shape) for each in returned]
        return super().compile_graph(device, graphs, kind, graph, inputs)


@pytest.mark.parametrize("device", [EXECUTOR, LLVM])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_as_large_as_the_logits_is_kept(dtype, device):
    given = torch.randn(ROWS, CLASSES).mul(4).to(dtype)
    given[0, 3] = 1e4 if dtype is torch.float32 else 100.0
    labels = torch.arange(ROWS) * 7
    labels[2] = -100
    found = {}
    compiler = Kept(Settings(device=device, target="sm_90"))
    for name in ("eager", "ours", "exact"):
        logits = (given.double() if name == "exact" else given.clone()).requires_grad_()
        run = torch.compile(loss, backend=compiler) if name == "ours" else loss
        result = run(logits, labels)
        result.backward()
        found[name] = torch.cat([result.detach().view(1), logits.grad.flatten()]).double()
    assert (ROWS, CLASSES) not in compiler.shapes
    assert (ROWS, 1) in compiler.shapes
    off = {name: (found[name] - found["exact"]).norm() for name in ("eager", "ours")}
    assert off["ours"] <= 1.2 * off["eager"] + 1e-6 * found["exact"].norm()
    assert not [part.failure for part in compiler.log.report().parts if part.failure]


def test_probabilities_that_are_asked_for_are_returned():
    logits = torch.randn(ROWS, CLASSES, requires_grad=True)
    function = torch.compile(
        lambda x: functional.log_softmax(x, -1), backend=Kept(Settings(device=LLVM))
    )
    torch.testing.assert_close(function(logits), functional.log_softmax(logits, -1))
