"""A part of PyTorch's operator database: what is most of models. The whole takes an hour."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch.testing needs it

from tests.outside.torch_ops.__main__ import report  # noqa: E402
from tests.outside.torch_ops.suite import (  # noqa: E402
    BAD,
    OURS,
    PARTLY,
    Verdict,
    operators,
    verdicts,
)

PART = (
    "add", "div", "where", "sum", "softmax", "amax", "cat", "nn.functional.gelu", "remainder",
    "gather", "scatter_add", "nn.functional.conv2d", "nn.functional.max_pool2d",
    "nn.functional.layer_norm", "nn.functional.embedding", "nn.functional.cross_entropy",
    "nn.functional.scaled_dot_product_attention",
)  # fmt: skip


@pytest.mark.spread(2)
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


def test_what_models_call_by_other_names_is_among_the_operators():
    names = {op.name for op in operators()}
    assert {
        "nn.functional.conv_transpose3d", "nn.functional.interpolate", "nn.functional.pad",
        "nn.functional.instance_norm", "native_batch_norm", "matmul", "to", "__getitem__", "cdist",
    } <= names  # fmt: skip


def test_a_report_says_what_was_not_tried():
    found = [
        Verdict("softmax", "float32", 0, "forward", OURS, graph=frozenset({"_softmax"})),
        Verdict("prod", "float32", 0, "backward", PARTLY, "sort: it sorts", frozenset({"sort"})),
    ]
    text = report(found, ["prod"], 1.0)
    assert "2 samples in 1 s: 1 ours (50%), 1 partly, 0 PyTorch's, 0 bad; 0 skipped" in text
    assert "- last samples, for want of time: prod\n" in text
    missing = text.split("operators of the table in no graph: ")[1].splitlines()[0].split(", ")
    assert "topk" in missing and not {"_softmax", "sort"} & set(missing)
