"""A part of PyTorch's operator database: what is most of models. The whole takes an hour."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing needs it

from tests.outside.torch_ops.suite import BAD, OURS, operators, verdicts  # noqa: E402

PART = (
    "add", "div", "where", "sum", "softmax", "amax", "cat", "nn.functional.gelu", "remainder",
    "gather", "scatter_add",
)  # fmt: skip


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", PART)
def test_samples_of_an_operator(name):
    op = next(op for op in operators() if op.name == name)
    found = [
        verdict
        for dtype in (torch.float32, torch.bfloat16, torch.int64)
        for verdict in verdicts(op, dtype, 1)
    ]
    assert not [verdict for verdict in found if verdict.kind in BAD]
    assert any(verdict.kind == OURS for verdict in found)
