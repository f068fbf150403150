"""explain: the parts of a PyTorch model, their kernels, what is left, without a GPU."""

import json

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402

nn = torch.nn


def test_a_model_with_its_gradients():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(8, 300), nn.LayerNorm(300), nn.Linear(300, 8), nn.Softmax(-1))
    report = tvm_stitch.torch.explain(model, torch.randn(32, 8), target="sm_90")
    assert report.graphs == ("forward 0", "backward 0")
    assert all(part.kernels.kernels for part in report.parts)
    assert "mm" in {each.operator for each in report.left}
    text = str(report)
    assert "2 graphs" in text
    assert "a product of float32 of this size is a library's" in text
    json.dumps(report.to_json())
    assert all(parameter.grad is None for parameter in model.parameters())


class Attention(nn.Module):
    """Heads turned to the front and back again, and a dropout of nothing: copies to PyTorch."""

    def __init__(self, dropped):
        super().__init__()
        self.norm, self.dropped = nn.LayerNorm(64), dropped
        self.heads, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.heads(self.norm(x)).view(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*heads)
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        return x + self.dropped(self.out(mixed))


@pytest.mark.slow
def test_copies_of_a_training_step_are_no_kernels():
    def kernels(dropped):
        torch._dynamo.reset()
        model = Attention(dropped).bfloat16()
        x = torch.randn(2, 16, 64).bfloat16()
        parts = tvm_stitch.torch.explain(model, x, target="sm_90").parts
        copies = sum(part.operators.count("clone") for part in parts)
        return copies, [tuple(kernel.ops) for part in parts for kernel in part.kernels.kernels]

    copies, found = kernels(nn.Dropout(0.0))
    fewer, without = kernels(nn.Identity())
    assert copies > fewer > 0  # gradients of heads are laid out by copies
    assert len(found) == len(without)
    moves = {"reshape", "transpose", "concatenate", "strided_slice", "cast", "copy"}
    assert all(set(ops) - moves for ops in found)
