"""Processes that compile a model by torch.compile at once, or are killed at it."""

import pytest

pytest.importorskip("torch")

from repeated_builds import builds_of, killed_at_any_time

from tvm_stitch.dynamo import kept

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not kept.can_be_kept(), reason="this PyTorch keeps Inductor's only"),
]

# A step of training whose result and gradients are those of eager PyTorch, or else no counts.
BUILD = """
import torch, tvm_stitch.torch
from tvm_stitch import Options
from tvm_stitch.dynamo import machines

torch.set_num_threads(1)
nn = torch.nn
convert = machines.convert
machines.convert = lambda graph: compiled.append(1) or convert(graph)
options = dict(device="llvm", stitching=Options(cache=sys.argv[1]))

def step(model, run, x):
    result = run(x)
    result.square().sum().backward()
    found = [result.detach(), *(each.grad for each in model.parameters())]
    model.zero_grad()
    return found

def build():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()), torch.randn(5, 8)
    run = torch.compile(model, backend="tvm_stitch", options=options)
    for got, want in zip(step(model, run, x), step(model, model, x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
"""


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Starts a process that compiles a model whenever it is asked to."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    with builds_of(BUILD, tmp_path / "ours") as start:
        yield start


def test_two_processes_at_once_are_right_and_the_next_converts_nothing(begun):
    both = begun(), begun()
    for builds in both:
        builds.begin()
    assert None not in [builds.counts() for builds in both]
    both[0].begin()
    assert both[0].counts() == [0, 0]


def test_those_that_are_killed_at_any_time_leave_caches_that_are_used(begun, tmp_path):
    assert killed_at_any_time(begun(), (tmp_path / "ours", tmp_path / "torch")) == [0, 0]
