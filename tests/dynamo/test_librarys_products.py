"""Which matrix products stay PyTorch's: those that a library is faster for."""

import pytest
from library_stand_in import folder

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

FEW_ROWS = "a product of halves of fewer than 16 rows is a library's"
CHANGING = "a product of halves of sizes that change is a library's"
OF_FLOAT32 = "a product of float32 of this size is a library's"


def left(rows, summed, columns, dtype, dynamic=False):
    """Why the product stays PyTorch's, if it does; with `dynamic`, its rows change."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM, smallest_part=1))
    x, w = torch.randn(rows, summed).to(dtype), torch.randn(summed, columns).to(dtype)
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    run = torch.compile(lambda x, w: (x @ w).relu(), backend=ours)
    torch.testing.assert_close(run(x, w), (x @ w).relu(), rtol=1e-2, atol=1e-2)
    return "".join(each.reason for each in ours.log.report().left)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_by_tensor_cores_are_ours(dtype):
    assert left(16, 96, 264, dtype) == ""
    assert left(15, 96, 264, dtype) == FEW_ROWS
    assert left(1, 96, 24, dtype) == FEW_ROWS
    assert left(16, 96, 264, dtype, dynamic=True) == CHANGING


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_small_products_are_ours(dtype):
    assert left(3, 64, 256, dtype) == ""
    assert left(3, 64, 256, dtype, dynamic=True) == ""


def test_columns_times_rows_sum_nothing_up_and_are_ours():
    """As the angles of a rotary embedding are: positions by frequencies."""
    assert left(300, 1, 700, torch.float32) == ""
    assert left(300, 1, 700, torch.float32, dynamic=True) == ""
    assert left(300, 1, 700, torch.bfloat16, dynamic=True) == ""


def test_of_float32_only_small_ones_are():
    assert left(32, 65, 8, torch.float32) == OF_FLOAT32
    assert left(32, 64, 257, torch.float32) == OF_FLOAT32


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_change_by_weights_are_the_librarys_in_our_part(monkeypatch, dtype):
    """One part, compiled once, computes them at all sizes."""
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    up, down = torch.nn.Linear(96, 264), torch.nn.Linear(264, 96)
    model = torch.nn.Sequential(up, torch.nn.ReLU(), down, torch.nn.LayerNorm(96)).to(dtype)
    run = torch.compile(model, backend=ours, dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 7), (3, 33), (5, 2)):
            x = torch.randn(batch, length, 96, dtype=dtype)
            rough = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 5e-2}
            torch.testing.assert_close(run(x), model(x), **rough)
    report = ours.log.report()
    assert not report.left and not report.notes
    assert len(report.parts) == 1


@pytest.mark.slow
def test_matrices_of_changing_sizes_stay_pytorchs(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    run = torch.compile(torch.matmul, backend=ours, dynamic=True)
    for size in (34, 70):
        x, y = torch.randn(2, size, size), torch.randn(2, size, size)
        torch.testing.assert_close(run(x, y), x @ y)
    assert [each.reason for each in ours.log.report().left] == [OF_FLOAT32]


class Int4(torch.nn.Module):
    """A layer with two weights a byte, as of models that are quantized by groups of 32."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (outputs, inputs // 2)).byte())
        self.register_buffer("scales", torch.rand(outputs, inputs // 32) / 100)

    def forward(self, x):
        low, high = (self.packed & 15).to(x.dtype), (self.packed >> 4).to(x.dtype)
        groups = (*self.scales.shape, 32)
        weights = (torch.stack([low, high], -1).view(groups) - 8) * self.scales[..., None]
        return torch.nn.functional.linear(x, weights.flatten(1))


def test_weights_of_few_bits_are_not_written_for_few_rows(monkeypatch):
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(Int4(128, 256), torch.nn.GELU(), Int4(256, 72)).half()
    x = torch.randn(3, 128, dtype=torch.half)
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"), explained=True)
    with torch.no_grad():
        torch.compile(model, backend=ours)(x)
    (part,) = ours.log.report().parts
    assert len(part.kernels.kernels) == 2
    torch._dynamo.reset()
    run = torch.compile(model, backend=GraphCompiler(Settings(device=EXECUTOR, target="sm_90")))
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-3)
