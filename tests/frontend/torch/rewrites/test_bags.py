"""Bags of rows, and their gradients, are PyTorch's, but for rounding, and ours as far as said."""

import pytest

torch = pytest.importorskip("torch")

import tvm  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch_programs import agree  # noqa: E402
from tvm import relax  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch.rewrites.bags import with_bags_written_out  # noqa: E402

embedding_bag = torch.nn.functional.embedding_bag
HALVES = torch.float16, torch.bfloat16
ROWS, COLUMNS, COUNT = 21, 7, 40
# The first bag has several rows; others have none, at the end too.
OFFSETS = {
    "several": [0, 3, 3, 11, 12, 39, 40],
    "ends": [0, 0, 0, 40, 40, 40],
    "one": [0],
    "each": list(range(COUNT)),
}
PYTORCHS = {"_embedding_bag", "searchsorted.Tensor"}


def table(dtype=torch.float32, rows=ROWS):
    torch.manual_seed(0)
    return torch.randn(rows, COLUMNS).to(dtype)


def fixed(bags=13, length=3):
    torch.manual_seed(1)
    return torch.randint(0, ROWS, (bags, length))


def flat():
    return fixed(COUNT, 1).view(-1)


def step(function, given, changes=False):
    """Results and gradients; of sums in which every row and every element counts otherwise."""
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in given]
    if changes:
        torch._dynamo.mark_dynamic(leaves[0], 0)
    y = function(*leaves)
    torch.manual_seed(2)
    y.backward(torch.randn(y.shape).to(y.dtype))
    return [y.detach(), *(x.grad for x in leaves if x.grad is not None)]


def check(function, *given, device=EXECUTOR, changes=False):
    """What is computed is right; what is left to PyTorch."""
    torch._dynamo.reset()
    target = "sm_90" if device == EXECUTOR else None
    ours = GraphCompiler(Settings(device=device, target=target, smallest_part=1))
    compiled = torch.compile(function, backend=ours)
    exact = [x.double() if x.is_floating_point() else x for x in given]
    for got, want, truth in zip(
        step(compiled, given, changes), step(function, given), step(function, exact), strict=True
    ):
        agree(got, want, truth)
    report = ours.log.report()
    assert [part.failure for part in report.parts if part.failure] == []
    return {left.operator for left in report.left}


def bags(mode="sum", **how):
    """A function of indices, a table and, where they are given, offsets and weights."""

    def function(indices, weight, *others):
        offsets = next((x for x in others if not x.is_floating_point()), None)
        weights = next((x for x in others if x.is_floating_point()), None)
        return embedding_bag(indices, weight, offsets, mode=mode, per_sample_weights=weights, **how)

    return function


@pytest.mark.spread(2)
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 4, -1])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("length", [1, 3])
def test_bags_of_one_length_are_ours(mode, padding, dtype, length):
    indices = fixed(length=length)
    indices[2] = padding or 0  # nothing is in it
    indices[2] %= ROWS
    assert not check(bags(mode, padding_idx=padding), indices, table(dtype))


@pytest.mark.spread(2)
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("offsets", ["several", "ends", "each"])
def test_of_bags_that_offsets_say_gradients_are_ours(mode, padding, include_last_offset, offsets):
    """PyTorch sums them up; on the CPU it says sometimes nothing of which bag an index is in."""
    how = {"padding_idx": padding, "include_last_offset": include_last_offset}
    places = torch.tensor(OFFSETS[offsets] + [COUNT] * include_last_offset)
    left = check(bags(mode, **how), flat(), table(), places)
    assert left <= PYTORCHS


@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_weights_have_gradients(padding, dtype):
    """Neither of a pad, nor of the row that it names."""
    torch.manual_seed(3)
    weights, how = torch.randn(COUNT).to(dtype), {"padding_idx": padding}
    indices = fixed(8, 5)
    assert not check(bags(**how), indices, table(dtype), weights.view(8, 5))
    places = torch.tensor(OFFSETS["several"])
    left = check(bags(**how), indices.view(-1), table(dtype), places, weights)
    assert left <= PYTORCHS


def test_one_bag_and_bags_that_are_cut_out_of_others():
    assert not check(bags("mean"), flat(), table(), torch.tensor(OFFSETS["one"]))
    sliced = bags("mean")
    assert not check(lambda i, w: sliced(i[:, 1], w), fixed(13, 12).view(13, 4, 3), table())
    assert not check(lambda i, w: sliced(i.int().t(), w), fixed(), table())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_how_many_bags_there_are_may_change(mode):
    assert not check(bags(mode, padding_idx=4), fixed(), table(), changes=True)


def test_how_many_indices_there_are_may_change():
    places = torch.tensor(OFFSETS["several"])
    left = check(bags("mean"), flat(), table(), places, changes=True)
    assert left <= PYTORCHS


def test_on_the_cpu():
    assert not check(bags("mean"), fixed(), table(), device=LLVM)


def scaled(indices, weight):
    return embedding_bag(indices, weight, scale_grad_by_freq=True)


@pytest.mark.parametrize("function", [bags("max"), scaled], ids=["max", "scaled"])
def test_what_stays_pytorchs_stays_whole(function):
    """Of a gradient that reads what is said of bags, the sums are PyTorch's as well."""
    assert check(function, fixed(), table()) == {"_embedding_bag", "_embedding_bag_backward"}


def test_a_table_without_a_kernel_is_pytorchs():
    big = torch.zeros((1 << 20) + 1, 2)
    assert "_embedding_bag_backward" in check(bags(), fixed(), big)


def test_whoever_reads_all_results_gets_them():
    def both(indices, weight, offsets):
        sums, bag_of, *_ = torch.embedding_bag(weight, indices, offsets, False, 1)
        return sums * bag_of.sum()

    left = check(both, flat(), table(), torch.tensor(OFFSETS["one"]))
    assert left == {"_embedding_bag"}


def test_bags_without_rows_are_pytorchs():
    nothing = torch.zeros(0, dtype=torch.int64)
    check(bags(), nothing, table(), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize(("mode", "last"), [(0, False), (1, True)])
def test_on_a_gpu_the_call_says_which_bag_an_index_is_in(mode, last):
    """And how many are in each, of one more where the last offset is included."""
    aten = torch.ops.aten

    def both(weight, indices, offsets, gradient):
        sums, *said = aten._embedding_bag(
            weight, indices, offsets, False, mode, False, None, last, 4
        )
        how = (ROWS, False, mode, False, None, 4)
        return sums, aten._embedding_bag_backward(gradient, indices, offsets, *said, *how)

    numbers = {"device": "cuda", "dtype": torch.int64}
    with FakeTensorMode():
        weight, gradient = (torch.empty(n, COLUMNS, device="cuda") for n in (ROWS, 6 - last))
        given = weight, torch.empty(COUNT, **numbers), torch.empty(6, **numbers), gradient
        graph = make_fx(both)(*given).graph
    with_bags_written_out(graph, lambda call: call.target is not aten.searchsorted.Tensor)
    graph.lint()
    names = {call.target for call in graph.nodes}
    assert aten._embedding_bag.default in names
    assert aten.embedding_dense_backward.default in names
    assert not names & {aten.searchsorted.Tensor, aten._embedding_bag_backward.default}


def test_nothing_sorts_and_all_tables_share_a_launch():
    """Eight of them, as recommenders have: one kernel reads all rows, and sums them."""

    class Tables(torch.nn.Module):
        def __init__(self):
            super().__init__()
            one = torch.nn.EmbeddingBag
            self.tables = torch.nn.ModuleList(one(1000, 64, mode="sum") for _ in range(8))

        def forward(self, indices):
            return torch.stack([one(indices[:, n]) for n, one in enumerate(self.tables)], 1)

    report = tvm_stitch.torch.explain(
        Tables(), torch.randint(0, 1000, (256, 8, 4)), target="nvidia/nvidia-h100"
    )
    assert not report.left
    forward, backward = report.parts
    bags, *others = forward.kernels.kernels
    assert (bags.ops.count("embedding"), bags.ops.count("sum")) == (8, 8)
    assert len(others) <= 1
    assert len(backward.kernels.kernels) <= 8


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_exported_bags(mode):
    """There is no PyTorch behind them: which bag an index is in is searched for."""

    class Bags(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed = torch.nn.EmbeddingBag(ROWS, COLUMNS, mode=mode, padding_idx=4)
            self.others = torch.nn.EmbeddingBag(ROWS, COLUMNS, mode=mode)

        def forward(self, indices, several, offsets):
            return self.fixed(indices), self.others(several, offsets)

    model, given = Bags(), (fixed(), flat(), torch.tensor(OFFSETS["several"]))
    program = torch.export.export(model, given)
    module = tvm_stitch.torch.load(program, device=LLVM)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    for got, want in zip(machine["main"](*given), model(*given), strict=True):
        torch.testing.assert_close(torch.from_dlpack(got), want)
