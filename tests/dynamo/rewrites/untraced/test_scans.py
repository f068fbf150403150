"""Associative scans, as of state space models, are operators of ours; of GPUs they are one call."""

import pytest

torch = pytest.importorskip("torch")

from torch._higher_order_ops.associative_scan import associative_scan_op  # noqa: E402

import tvm_stitch.torch  # noqa: E402

EXECUTOR = {"device": "cpu-executor"}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def recurrence(decay, added, seen):
    """What a selective scan computes: decay * state + added, weighed at each step.

    As associative_scan calls it for tensors on a GPU, which it does not for others.
    """

    def combine(decay_left, left, decay_right, right):
        return [decay_left * decay_right, decay_right * left + right]

    leaves = [torch.movedim(each, 1, 0) for each in (decay.sigmoid(), added)]
    _, states = associative_scan_op(combine, leaves, additional_inputs=())
    return (torch.movedim(states, 0, 1) * seen).sum(-1)


def step_by_step(decay, added, seen):
    decay, added, seen = (each.double() for each in (decay, added, seen))
    state, found = torch.zeros_like(added[:, 0]), []
    for step in range(added.shape[1]):
        state = decay[:, step].sigmoid() * state + added[:, step]
        found.append((state * seen[:, step]).sum(-1))
    return torch.stack(found, 1)


def inputs(length, **how):
    return [torch.randn(3, length, 5, 4, **how) for _ in range(3)]


@pytest.mark.parametrize("length", [1, 7, 33])
@pytest.mark.slow
def test_scans_are_ours(length):
    given = inputs(length)
    compiled = torch.compile(recurrence, backend="tvm_stitch", options=EXECUTOR)
    torch.testing.assert_close(compiled(*given).double(), step_by_step(*given), rtol=0, atol=2e-6)
    report = tvm_stitch.torch.explain(recurrence, *given)
    assert len(report.parts) == 1 and not report.left


@pytest.mark.slow
def test_gradients_go_through_scans():
    given = inputs(5, requires_grad=True)
    exact = torch.autograd.grad(step_by_step(*given).sum(), given)
    compiled = torch.compile(recurrence, backend="tvm_stitch", options=EXECUTOR)
    found = torch.autograd.grad(compiled(*given).sum(), given)
    for mine, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=4e-6)


@pytest.mark.slow
def test_a_scan_of_any_length_stays_pytorchs():
    compiled = torch.compile(recurrence, backend="tvm_stitch", options=EXECUTOR, dynamic=True)
    for length in (5, 6):
        given = inputs(length)
        torch.testing.assert_close(
            compiled(*given).double(), step_by_step(*given), rtol=0, atol=2e-6
        )
