"""Functions that are as exact as PyTorch's, also where CUDA's fast math is not."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch_kernels import check_kernels  # noqa: E402
from torch_programs import run, traced  # noqa: E402
from tvm.ir import Op  # noqa: E402

from tvm_stitch import simt  # noqa: E402
from tvm_stitch.dynamo.machine import lowered_for_cuda  # noqa: E402
from tvm_stitch.dynamo.settings import Settings  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

NAN, INF = float("nan"), float("inf")
# What --use_fast_math makes the hardware's own.
FAST = ("tanhf(", "sinf(", "cosf(", "tanf(", "powf(")


def everywhere():
    torch.manual_seed(0)
    spread = [torch.randn(2000) * 10.0**power for power in range(-6, 5)]
    return torch.cat([*spread, torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, 2.0])])


def gelu_tanh(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize("function", [torch.tanh, torch.sin, torch.cos, gelu_tanh])
def test_everywhere(function):
    x = everywhere()
    (found,) = run(convert(traced(function, x).graph), (x,))
    exact = function(x.double())
    finite = exact.isfinite()
    assert torch.equal(finite, found.isfinite())
    error = (found.double() - exact)[finite].abs()
    assert (error / exact[finite].abs().clamp(min=1.0)).max() < 3e-7


@pytest.mark.parametrize("function", [torch.tanh, torch.sin, torch.tan, gelu_tanh])
def test_what_is_small_stays_as_exact(function):
    x = everywhere()
    x = x[x.abs() < 1]
    (found,) = run(convert(traced(function, x).graph), (x,))
    exact = function(x.double())
    error = (found.double() - exact).abs() / exact.abs().clamp(min=1e-30)
    assert error[x != 0].max() < 8e-7


@pytest.mark.parametrize("function", [torch.log, torch.log2, torch.log10])
def test_logarithms_near_one(function):
    x = torch.cat(
        [1 + torch.randn(1000) * 1e-3, torch.rand(1000) * 8, torch.tensor([0.0, -1.0, INF, NAN])]
    )
    (found,) = run(convert(traced(function, x).graph), (x,))
    exact = function(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=4e-7, atol=1e-30, equal_nan=True)


def test_powers():
    x = torch.rand(1000) * 50
    for exponent in (0.999, -3.5, 11.0, 0.5):
        (found,) = run(convert(traced(partial(torch.pow, exponent=exponent), x).graph), (x,))
        exact = x.double() ** exponent
        torch.testing.assert_close(found.double(), exact, rtol=2e-7, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [-8, -0.5, -1, 0, 1, 1.5, 5, 8, 9, 2.5, 40, 0.3])
def test_powers_to_numbers(dtype, exponent):
    """By products and roots, where these are as exact; in float64 for float32 alone."""
    x = torch.cat([torch.rand(1000) + 0.5, torch.tensor([0.0, INF, NAN, -0.7, -INF, 1.0])])
    x = x.to(dtype)
    converted = convert(traced(partial(torch.pow, exponent=exponent), x).graph)
    (found,) = run(converted, (x,))
    exact = x.double() ** exponent
    rounding = 4e-7 if dtype is torch.float32 else 1.5 * torch.finfo(dtype).eps
    expected = exact.to(dtype).double() if dtype is not torch.float32 else exact
    torch.testing.assert_close(found.double(), expected, rtol=rounding, atol=0.0, equal_nan=True)
    assert ("float64" in converted.module.script()) == (
        dtype is torch.float32 and exponent in (1.5, 9, 2.5, 40, 0.3)
    )


def test_powers_of_integers():
    n = torch.arange(-5, 6)
    (found,) = run(convert(traced(partial(torch.pow, exponent=7), n).graph), (n,))
    assert torch.equal(found, n**7)


def test_no_function_of_fast_math_is_left():
    def functions(x):
        return x.tanh() + gelu_tanh(x), x.sin() * x.cos(), x.tan(), x**0.3

    converted = convert(traced(functions, torch.randn(4, 32)).graph)
    lowered = lowered_for_cuda(converted.module, Settings(target="sm_90"))
    source = lowered.executable().mod.imports[0].imports[0].inspect_source()
    found = [name for name in FAST if name in source.replace("_" + name, "")]
    assert "expm1f(" in source and not found


@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
def test_on_the_executor():
    def functions(x):
        return (
            x.tanh() * gelu_tanh(x),
            (x * 300).sin(),
            (x * 300).cos(),
            x.abs().log(),
            x.abs() ** 0.7,
        )

    torch.manual_seed(0)
    check_kernels(functions, torch.randn(3, 32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_that_were_widened_are_multiplied_as_halves(dtype):
    """Their products are exact in float32, which they are summed in."""

    def function(x, y, z):
        wide = x.float()
        return wide.t() @ y.float(), y.float() @ z

    x, y, z = torch.randn(33, 40).to(dtype), torch.randn(33, 24).to(dtype), torch.randn(24, 9)
    converted = convert(traced(function, x, y, z).graph)
    bound = [each.value for each in converted.module["main"].body.blocks[0].bindings]
    products = [call for call in bound if getattr(call, "op", None) == Op.get("relax.matmul")]
    factors = [{str(each.ty.dtype.dtype) for each in call.args} for call in products]
    assert factors == [{str(dtype).removeprefix("torch.")}, {"float32"}]
    found = run(converted, (x, y, z))
    exact = x.double().t() @ y.double(), y.double() @ z.double()
    for each, wanted in zip(found, exact, strict=True):
        assert each.dtype is torch.float32
        assert (each.double() - wanted).abs().max() <= 1e-5 * wanted.abs().max()
