"""Images sampled at places of a grid are PyTorch's, whatever lies beyond them."""

import itertools
import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from check import H200  # noqa: E402
from torch_kernels import check_kernels  # noqa: E402
from torch_programs import check, run, traced  # noqa: E402

import tvm_stitch.torch  # noqa: E402
from tvm_stitch import transform  # noqa: E402
from tvm_stitch.device import device_of  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402
from tvm_stitch.kernel.ir.mapping import Rows  # noqa: E402
from tvm_stitch.kernel.rows import choose  # noqa: E402
from tvm_stitch.kernel.rows.row_batching import batched  # noqa: E402

functional = torch.nn.functional
MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
SAMPLER = "grid_sampler_2d"
WAYS = [*itertools.product(MODES, PADDINGS, (False, True))]


def sampled(mode="bilinear", padding_mode="zeros", align_corners=False):
    return lambda image, grid: functional.grid_sample(
        image, grid, mode, padding_mode, align_corners
    )


def image_and_grid(image, places, dtype=torch.float32):
    """Places are up to half an image beyond it."""
    torch.manual_seed(0)
    axes = len(places)
    grid = torch.rand(image[0], *places, axes) * 3 - 1.5
    return torch.randn(image).to(dtype), grid.to(dtype)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way(way):
    check(sampled(*way), *image_and_grid((2, 3, 7, 9), (5, 6)))


@pytest.mark.spread(3)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("image", [(1, 1, 1, 1), (1, 5, 1, 33), (2, 31, 8, 7)], ids=str)
def test_kernels(image, way):
    check_kernels(sampled(*way), *image_and_grid(image, (3, 11)))


@pytest.mark.parametrize("way", [("bilinear", "border"), ("nearest", "reflection")], ids=str)
def test_volumes(way):
    check(sampled(*way), *image_and_grid((2, 3, 4, 5, 6), (5, 2, 3)))


def test_cudnns_sampler():
    """On a GPU PyTorch may trace it where corners are aligned."""
    given = image_and_grid((2, 3, 7, 9), (5, 6))
    expected = sampled(align_corners=True)
    graph = traced(expected, *given).graph
    (node,) = graph.find_nodes(op="call_function", target=torch.ops.aten.grid_sampler_2d.default)
    node.target, node.args = torch.ops.aten.cudnn_grid_sampler.default, node.args[:2]
    (found,) = run(convert(graph), given)
    torch.testing.assert_close(found, expected(*given))


def test_channels_last():
    image, grid = image_and_grid((2, 8, 7, 9), (5, 6))
    check(sampled(), image.to(memory_format=torch.channels_last), grid)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_float32(dtype):
    """PyTorch's kernels for CPUs round places as well."""
    image, grid = image_and_grid((2, 3, 7, 9), (5, 6), dtype)
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM))
    found = torch.compile(sampled(), backend=ours)(image, grid)
    exact = sampled()(image.double(), grid.double())
    assert found.dtype == dtype and not ours.log.report().left
    assert (found.double() - exact).abs().max() <= torch.finfo(dtype).eps * exact.abs().max()


NOWHERE = (float("nan"), float("inf"), float("-inf"), 1e30, -1e30)


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("padding", PADDINGS[:2])
@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_places_far_beyond_and_none_at_all(mode, padding, device):
    """Nothing, or an end; what is no number is the first, as it is in PyTorch's GPU kernels."""
    image, _ = image_and_grid((1, 2, 7, 9), (5, 6))
    grid = torch.tensor([*itertools.product(NOWHERE, NOWHERE)]).view(1, 5, 5, 2)
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90" if device == EXECUTOR else None))
    found = torch.compile(sampled(mode, padding), backend=ours)(image, grid)
    assert not ours.log.report().left
    ends = torch.where(grid > 1, 1.0, -1.0)
    expected = sampled(mode, padding, True)(image, ends) if padding == "border" else 0 * found
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("end", [float("inf"), float("nan")])
def test_ends_that_are_no_number_are_not_what_lies_beyond(device, end):
    """Elements that are not inside are read as well, of the next that is, and count nothing."""
    image, _ = image_and_grid((1, 2, 7, 9), (5, 6))
    image[..., [0, -1], :] = end
    grid = torch.tensor([[-0.5, -3.0], [0.2, 2.5], [0.1, 0.3]]).view(1, 1, 3, 2)
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90" if device == EXECUTOR else None))
    found = torch.compile(sampled(), backend=ours)(image, grid)
    assert not ours.log.report().left and found.isfinite().all()
    torch.testing.assert_close(found, sampled()(image, grid))


@pytest.mark.parametrize("device", [LLVM, pytest.param(EXECUTOR, marks=pytest.mark.slow)])
def test_sizes_that_change(device):
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90" if device == EXECUTOR else None))
    function = torch.compile(sampled(), backend=ours, dynamic=True)
    for image, places in [
        ((2, 3, 7, 9), (5, 6)),
        ((3, 5, 11, 4), (2, 9)),
        ((2, 2, 31, 33), (7, 7)),
    ]:
        given = image_and_grid(image, places)
        torch.testing.assert_close(function(*given), sampled()(*given))
    assert not ours.log.report().left


def test_training_leaves_the_gradient_to_pytorch():
    image, grid = image_and_grid((2, 3, 7, 9), (5, 6))

    def step(function):
        leaves = [each.clone().requires_grad_() for each in (image, grid)]
        loss = (function(*leaves).sin() ** 2).sum()
        return loss.detach(), *torch.autograd.grad(loss, leaves)

    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM))
    found = step(torch.compile(sampled(), backend=ours))
    torch.testing.assert_close(found, step(sampled()))
    assert [left.operator for left in ours.log.report().left] == ["grid_sampler_2d_backward"]


def deformable_attention(value, places, weights, shapes):
    """Of Deformable DETR: a few places on images of several sizes, summed by weights."""
    batch, queries, heads, levels, points, _ = places.shape
    images = value.split([height * width for height, width in shapes], dim=1)
    grids = 2 * places - 1
    found = []
    for level, (height, width) in enumerate(shapes):
        image = images[level].flatten(2).transpose(1, 2).reshape(batch * heads, -1, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        found.append(functional.grid_sample(image, grid, align_corners=False))
    own = weights.transpose(1, 2).reshape(batch * heads, 1, queries, levels * points)
    summed = (torch.stack(found, dim=-2).flatten(-2) * own).sum(-1)
    return summed.view(batch, -1, queries).transpose(1, 2).contiguous()


def attention_of(batch, queries, heads, channels, shapes, dtype, points=4):
    """What it reads."""
    torch.manual_seed(0)
    value = torch.randn(batch, sum(map(math.prod, shapes)), heads, channels)
    places = torch.rand(batch, queries, heads, len(shapes), points, 2) * 1.4 - 0.2
    weights = torch.rand(batch, queries, heads, len(shapes), points)
    return [each.to(dtype) for each in (value, places, weights)]


def compare_attention(given, shapes, dtype):
    """Its kernels in the executor, beside float64."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    found = torch.compile(lambda *a: deformable_attention(*a, shapes), backend=ours)(*given)
    exact = deformable_attention(*(each.double() for each in given), shapes)
    # PyTorch's kernels for CPUs round places of halves, whose images are a few elements apart.
    allowed = 2e-6 if dtype == torch.float32 else 0.04
    assert (found.double() - exact).abs().max() <= allowed * exact.abs().max()
    return ours


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "queries"), [(1, 33), (2, 7), (3, 1)])
def test_deformable_attention_is_few_kernels(batch, queries, dtype):
    shapes = (5, 7), (3, 4)
    ours = compare_attention(attention_of(batch, queries, 2, 8, shapes, dtype), shapes, dtype)
    # Of several images the grids, which halves round, may be made of the places first.
    assert sum(len(machine.kernels) for machine in ours.machines.values()) <= (
        1 if batch == 1 else 3
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
)
@pytest.mark.parametrize(
    ("queries", "channels", "beside"),
    [(131, 16, True), pytest.param(300, 7, False, marks=pytest.mark.slow)],
)
def test_channels_that_follow_each_other_share_a_thread(
    monkeypatch, queries, channels, beside, dtype
):
    """Where a device is full without, and as many as a vector of rows has: no odd number."""
    small = replace(device_of(H200), multiprocessors=1)
    monkeypatch.setattr(transform, "device_of", lambda target: small)
    found: list[Rows] = []

    def noted(*given):
        found.append(batched(*given))
        return found[-1]

    monkeypatch.setattr(choose, "batched", noted)
    given = attention_of(2, queries, 2, channels, ((5, 7), (3, 4)), dtype)
    compare_attention(given, ((5, 7), (3, 4)), dtype)
    assert any(mapping.beside for mapping in found) == beside


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_that_samples_transposes_for_the_product_behind_it(dtype):
    """Neighbouring threads have the channels of a place, which lie side by side."""
    shapes, heads, channels = ((16, 16), (8, 8)), 8, 32
    given = attention_of(1, 320, heads, channels, shapes, dtype)
    project = torch.nn.Linear(heads * channels, 64, dtype=dtype)
    with torch.no_grad():
        report = tvm_stitch.torch.explain(
            lambda *given: project(deformable_attention(*given, shapes)),
            *given, target="nvidia/nvidia-h200",
        )  # fmt: skip
    (part,) = report.parts
    samplers = [k for k in part.kernels.kernels if SAMPLER in k.ops]
    assert [kernel.ops.count(SAMPLER) for kernel in samplers] == [len(shapes)]
    assert samplers[0].ops[-1] == "transpose"
    assert samplers[0].mapping.startswith("1 threads per row")
