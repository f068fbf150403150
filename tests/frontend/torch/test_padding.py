"""Margins of mirrored and repeated elements, both ways: one kernel each."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

functional = torch.nn.functional
aten = torch.ops.aten

MARGINS = [
    ((2, 7), (1, 1)), ((3, 2, 9), (0, 3)), ((3, 2, 9), (8, 0)),
    ((2, 3, 5, 7), (1, 1, 1, 1)), ((2, 3, 5, 7), (3, 0, 0, 4)), ((3, 5, 33), (2, 5, 4, 1)),
    ((1, 2, 4, 5, 6), (1, 2, 3, 0, 2, 1)), ((2, 3, 5, 7), (0, 0, 0, 0)),
]  # fmt: skip
KINDS = ["reflect", "replicate"]


def image(*shape):
    torch.manual_seed(0)
    return torch.randn(shape)


def gradient_of(kind, padding):
    name = {"reflect": "reflection", "replicate": "replication"}[kind]
    return getattr(aten, f"{name}_pad{len(padding) // 2}d_backward")


@pytest.mark.spread(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape, padding", MARGINS, ids=str)
def test_both_ways(kind, shape, padding):
    x = image(*shape)

    def padded(x):
        return functional.pad(x.relu(), padding, mode=kind) * 2

    check(padded, x)
    given = torch.randn_like(functional.pad(x, padding, mode=kind))
    check(lambda g, x: gradient_of(kind, padding)(g, x, padding).sin(), given, x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(kind, dtype):
    x, padding = image(2, 3, 6, 7).to(dtype), (1, 1, 2, 2)
    given = torch.randn_like(functional.pad(x, padding, mode=kind))
    check(lambda g, x: gradient_of(kind, padding)(g, x, padding), given, x)


@pytest.mark.parametrize("kind", KINDS)
def test_integers(kind):
    x = torch.arange(2 * 3 * 6 * 9).reshape(2, 3, 6, 9)
    check(lambda x: functional.pad(x, (1, 2, 3, 0), mode=kind), x)


@pytest.mark.parametrize("kind", KINDS)
def test_channels_that_lie_last(kind):
    x = image(2, 8, 5, 7).to(memory_format=torch.channels_last)
    check(lambda x: functional.pad(x * 2, (1, 1, 2, 2), mode=kind), x)
    given = torch.randn_like(functional.pad(x, (1, 1, 2, 2), mode=kind))
    given = given.to(memory_format=torch.channels_last)
    check(lambda g, x: gradient_of(kind, (1, 1, 2, 2))(g, x, (1, 1, 2, 2)), given, x)


def test_no_number_is_made_of_what_is_none():
    x = torch.full((1, 1, 4, 4), float("inf"))
    x[0, 0, 0, 0] = float("nan")
    for kind in KINDS:
        given = functional.pad(x, (1, 1, 1, 1), mode=kind)
        gradient = gradient_of(kind, (1,) * 4)
        check(partial(gradient_at_one, gradient), given, x)


def gradient_at_one(gradient, given, x):
    return gradient(given, x, (1,) * 4)


def test_what_is_pytorchs():
    x = image(1, 1, 4, 4)
    with pytest.raises(TorchError, match="cut off"):
        convert(traced(lambda x: aten.replication_pad2d(x, (-1, 1, 0, 0)), x).graph)
    given, padding = torch.randn(1, 1, 4, 34), (15, 15, 0, 0)
    gradient = gradient_of("replicate", padding)
    with pytest.raises(TorchError, match="more than 27"):
        convert(traced(lambda g, x: gradient(g, x, padding), given, x).graph)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.slow
def test_a_model_with_it_trains(kind, dynamic):
    torch._dynamo.reset()

    def function(x):
        return functional.pad(x.exp(), (1, 1, 1, 1), mode=kind).sin()

    settings = {"device": "cpu-executor", "target": "sm_90"}
    run = torch.compile(function, backend="tvm_stitch", options=settings, dynamic=dynamic)
    for size in (5, 8) if dynamic else (5,):
        x = image(2, 3, size, 6).requires_grad_()
        (wanted,) = torch.autograd.grad(function(x).square().sum(), x)
        (found,) = torch.autograd.grad(run(x).square().sum(), x)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_launches(kind):
    torch._dynamo.reset()
    x = image(2, 16, 16, 16).bfloat16().requires_grad_()

    def function(x):
        return functional.pad(x, (1, 1, 1, 1), mode=kind).sin()

    report = tvm_stitch.torch.explain(function, x, target="sm_90")
    assert [len(part.kernels.kernels) for part in report.parts] == [1, 1]
    assert not report.left
