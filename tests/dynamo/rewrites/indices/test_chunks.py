"""Gradients of windows of a tensor's memory: sums of slices, where windows overlap."""

import pytest

torch = pytest.importorskip("torch")

from compiled_gradients import judged  # noqa: E402

from tvm_stitch.dynamo.settings import EXECUTOR, LLVM  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)


def chunks_of_rows(x, weight):
    """As Longformer's attention looks at its queries and keys."""
    rows, batch, heads, depth = x.shape
    own = x.permute(1, 2, 0, 3).reshape(batch * heads, rows, depth)
    size, step = (batch * heads, 2 * rows // 4 - 1, 4, depth), list(own.stride())
    return own.as_strided(size, (step[0], 2 * step[1], step[1], step[2])) * weight


def chunks_of_padded(x, weight):
    """As it looks at its values: three windows share an element."""
    batch, rows, depth = x.shape
    own = torch.nn.functional.pad(x, (0, 0, 2, 2), value=-1.0)
    size = batch, rows // 2, 6, depth
    return own.as_strided(size, (own.stride(0), 2 * depth, depth, 1)) * weight


def taken(*memory):
    return lambda x: (x * 2).as_strided(*memory).exp()


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "batch, depth", [(1, 1), (3, 7), pytest.param(2, 33, marks=pytest.mark.slow)]
)
def test_chunks_of_which_two_or_three_share_a_row(dtype, batch, depth, device):
    x, weight = torch.randn(12, batch, 2, depth), torch.randn(2 * batch, 5, 4, depth)
    found = judged(chunks_of_rows, x.to(dtype), weight.to(dtype), device=device)
    x, weight = torch.randn(batch, 12, depth), torch.randn(batch, 6, 6, depth)
    found += judged(chunks_of_padded, x.to(dtype), weight.to(dtype), device=device)
    assert not {"index_put", "arange.start_step"} & {*found}


WINDOWS = {
    "uneven": ((4, 5), (3, 1)),
    "narrow": ((4, 5, 3), (12, 4, 1)),
    "apart": ((3, 2, 4), (40, 11, 2)),
    "between": ((3, 2), (40, 11), 5),
    "moved": ((6, 8), (4, 1), 3),
    "turned": ((8, 6), (1, 4)),
    "of a window": ((3, 4, 4, 5), (20, 10, 4, 1)),
    "of an image": ((4, 3, 4, 3), (24, 3, 12, 1)),
    "dense": ((5, 4, 6), (6, 30, 1)),
}
"""Size, strides and offset, of 121 elements: with and without overlaps, of rows and columns."""


@pytest.mark.spread(9)
@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_memory(name, dtype, device):
    found = judged(taken(*WINDOWS[name]), torch.randn(121).to(dtype), device=device)
    assert not {"index_put", "as_strided_scatter"} & {*found}


def added(x, values):
    index = torch.arange(121).as_strided((6, 8), (4, 1)).reshape(-1)
    return torch.ops.aten.index_put(x, [index], values, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_windows_are_added_to_what_is_there(dtype):
    assert "index_put" not in judged(added, torch.randn(121).to(dtype), torch.randn(48).to(dtype))


def test_many_windows_of_an_element_stay():
    assert "index_put" in judged(taken((90, 32), (1, 1)), torch.randn(121))
