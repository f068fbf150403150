"""Architectures of transformers: a fixed few of what tests.outside.architectures tries."""

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
from tests.outside import architectures

# To import transformers takes seconds.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed"),
]


@pytest.mark.parametrize("name", ["jetmoe", "nystromformer"])
def test_results_are_as_near_to_float64_as_eagers(name, capsys):
    assert architectures.main([name]) == 0
    assert f"{name}: right" in capsys.readouterr().out


def test_a_wrong_result_is_said(monkeypatch, capsys):
    """Of a model that is compiled to something else."""
    monkeypatch.setattr(
        architectures, "distance", lambda found, exact, _: float(found is not exact)
    )
    monkeypatch.setattr(architectures, "EXACT", 0.0)
    monkeypatch.setattr(architectures, "WORSE", 0.0)
    assert architectures.main(["bert"]) == 1
    assert "bert: WRONG" in capsys.readouterr().out


def test_sizes_are_small():
    from transformers import AutoConfig

    found = architectures.shrunk(AutoConfig.for_model("gpt_oss"))
    assert (found.hidden_size, found.num_hidden_layers, found.num_local_experts) == (64, 2, 4)
    assert len(found.layer_types) == 2
