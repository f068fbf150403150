"""What tests of searches share."""

import pytest

from tvm_stitch.tuning import model as models


@pytest.fixture
def nothing_shipped(monkeypatch):
    """What the package ships knows an H200, and nothing of the costs that are made up here."""
    monkeypatch.setattr(models, "shipped_model", lambda _capability: None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.jsonl"
