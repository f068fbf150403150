"""Gradients of convolutions that are products, and of weight norms, beside PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

from training_steps import trained  # noqa: E402

from tvm_stitch.frontend.torch.decompositions import decompositions  # noqa: E402
from tvm_stitch.frontend.torch.ops.images.products import (  # noqa: E402
    becomes_product,
    gradients,
    has_gradients,
)

nn = torch.nn
backward = torch.ops.aten.convolution_backward
# Images, weights, groups, stride and padding: of positions of a wav2vec 2.0, odd ones, of two
# dimensions; patches, and pixels in groups.
OVERLAPPING = [
    ((2, 12, 9), (12, 3, 32), 4, 1, 16),
    ((3, 6, 40), (9, 2, 33), 3, 1, 0),
    ((1, 4, 7), (4, 2, 39), 2, 1, 38),
    ((2, 4, 9, 11), (6, 2, 6, 7), 2, 1, (3, 2)),
]
SIDE_BY_SIDE = [((2, 3, 9, 12), (5, 3, 4, 4), 1, 4, 0), ((2, 6, 5), (9, 2, 1), 3, 1, 0)]


@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("case", [*OVERLAPPING, *SIDE_BY_SIDE], ids=str)
def test_gradients(case, mask):
    shape, filters, groups, stride, padding = case
    torch.manual_seed(0)
    spatial = len(shape) - 2
    images, weight = (torch.randn(each, dtype=torch.float64) for each in (shape, filters))
    stride, padding = ([n] * spatial if isinstance(n, int) else list(n) for n in (stride, padding))
    ones, zeros = [1] * spatial, [0] * spatial
    how = (stride, padding, ones, False)
    assert has_gradients(images, weight, *how, groups)
    result = torch.convolution(images, weight, None, *how, zeros, groups)
    given = torch.randn_like(result)
    expected = backward(given, images, weight, None, *how, zeros, groups, [*mask, False])
    found = gradients(given, images, weight, stride, padding, groups, mask)
    for mine, theirs, asked in zip(found, expected, mask, strict=False):
        assert (mine is not None) == asked
        if asked:
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "number, stride, padding", [(1, 2, 16), (1, 1, 32), (1 << 16, 1, 16)], ids=str
)
def test_products_whose_gradients_are_pytorchs(number, stride, padding):
    """In steps, with more padding than a window has, and of windows for which there is no room."""
    with torch.device("meta"):
        images, weight = torch.empty(number, 128, 64), torch.empty(128, 8, 32)
    how = ([stride], [padding], [1], False, 16)
    assert becomes_product(images, weight, *how) and not has_gradients(images, weight, *how)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 2])
def test_gradients_of_weight_norms(dim, dtype):
    torch.manual_seed(0)
    v, given = (torch.randn(6, 5, 7, dtype=torch.float64) for _ in range(2))
    size = [1, 1, 1]
    size[dim] = v.shape[dim]
    g = torch.rand(size, dtype=torch.float64)
    norms = v.norm(dim=[axis for axis in range(3) if axis != dim], keepdim=True)
    v.requires_grad_(), g.requires_grad_()
    expected = torch.autograd.grad(torch._weight_norm(v, g, dim), (v, g), given)
    write = decompositions()[torch.ops.aten._weight_norm_interface_backward.default]
    wide = torch.float32 if dtype is torch.bfloat16 else dtype
    found = write(given.to(dtype), v.detach().to(dtype), g.detach().to(dtype), norms.to(wide), dim)
    tolerance = {"rtol": 0.05, "atol": 0.05} if dtype is torch.bfloat16 else {}
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype is dtype and mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, check_dtype=False, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 2])
def test_positions_of_speech_are_ours_in_training(dim):
    """As wav2vec 2.0 has them: a long window in groups, behind a weight norm."""

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
            along = nn.Conv1d(8, 8, 32, padding=16, groups=2)
            self.along = nn.utils.parametrizations.weight_norm(along, dim=dim)

        def forward(self, x):
            h = self.along(self.layer(x).transpose(1, 2))[:, :, :-1]
            return nn.functional.gelu(h).transpose(1, 2) + x

    x = torch.randn(2, 11, 8, dtype=torch.bfloat16)
    report = trained(Positions().bfloat16(), x, alike=False)
    assert not report.left and not any(part.failure for part in report.parts)
