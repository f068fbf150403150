"""Indices that count are slices: no list of them is read, and gradients add up nothing."""

import pytest

torch = pytest.importorskip("torch")

from compiled_gradients import judged  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.indices.slices import with_slices  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

arange, aten = torch.arange, torch.ops.aten


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


INDICES = {"arange", "embedding", "embedding_dense_backward", "index", "index_put", "index_select"}


def named(function, *inputs, device=LLVM):
    """What is left of indices where a function and its gradients are ours."""
    return INDICES & {name.split(".")[0] for name in judged(function, *inputs, device=device)}


def shifted(x):
    """As XLNet's attention turns positions to distances."""
    b, n, rows, columns = x.shape
    x = x.reshape(b, n, columns, rows)[:, :, 1:]
    x = x.reshape(b, n, rows, columns - 1)
    return torch.index_select(x, 3, arange(rows, dtype=torch.long)) * 2


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 7, 33])
@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_a_shift_takes_a_slice(dtype, rows, device):
    assert not named(shifted, torch.randn(2, 3, rows, 2 * rows).to(dtype), device=device)


READS = {
    "every second": lambda x: x[:, arange(1, 6, 2)] * 2,
    "whole": lambda x: x[arange(5)].exp(),
    "one": lambda x: x[:, arange(3, 4)] * 3,
    "a number": lambda x: aten.index(x, [None, arange(3, 4).squeeze() + 1]) * 3,
    "moved": lambda x: x[..., (arange(4).int() + 3).view(2, 2).reshape(-1)].exp(),
    "orthogonal": lambda x: x[:, arange(1, 5)[:, None], arange(0, 8, 3)[None]] * 2,
    "with ones": lambda x: x[arange(5)[:, None, None, None], arange(2, 4)[:, None]] * 2,
    "last": lambda x: torch.index_select(x, -1, arange(5) + 2).exp(),
    "alone": lambda x: x[:, arange(2, 6)],
    "turned": lambda x: x.transpose(0, 1)[arange(2, 6)].exp(),
}
"""Of 5 x 7 x 9 numbers."""


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("name", READS)
def test_what_is_read_where_indices_count_is_a_slice(name, device):
    assert not named(READS[name], torch.randn(5, 7, 9), device=device)


WRITES = {
    "put": lambda x, v: aten.index_put(x, [None, arange(1, 5)], v[:, :4]),
    "added": lambda x, v: aten.index_put(x, [arange(0, 5, 2)], v[:3], True),
    "spread": lambda x, v: aten.index_put(x, [arange(1, 4)[:, None], arange(6)], v[0, 0], True) * 2,
    "whole": lambda x, v: aten.index_put(x, [None, arange(7)], v),
    "whole, of one": lambda x, v: aten.index_put(x[:, :1], [None, arange(1)[None]], v[:, :1, None]),
    "all added": lambda x, v: aten.index_put(x, [None, arange(7)], v, True),
    "copied": lambda x, v: x.index_copy(1, arange(2, 6), v[:, :4]) * 2,
    "rows": lambda x, v: x.index_add(2, arange(1, 9, 4), v[:, :, :2]) * 2,
    "filled": lambda x, v: x.index_fill(1, arange(2, 6), 3.0) + v,
}


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_where_indices_count_is_a_slice(name, device):
    given = torch.randn(5, 7, 9), torch.randn(5, 7, 9)
    assert not named(WRITES[name], *given, device=device)


@pytest.mark.parametrize("rows", [1, 31, 40])
def test_positions_are_rows_of_an_embedding(rows):
    """As of a decoder that counts them; the table's gradient is the rows', among zeros."""

    def positions(x, table):
        return x + functional.embedding(arange(rows)[None], table)

    assert not named(positions, torch.randn(1, rows, 8), torch.randn(40, 8))


STAY = {
    "backwards": lambda x: x[:, arange(6, 2, -1)] * 2,
    "from the end": lambda x: x[:, arange(-3, 2)] * 2,
    "together": lambda x: x[:, arange(5), arange(5)] * 2,
    "apart": lambda x: x[arange(5)[:, None], :, arange(3)] * 2,
    "turned": lambda x: x[:, arange(5), arange(3)[:, None]] * 2,
    "scaled": lambda x: x[:, arange(3) * arange(3)] * 2,
}


@pytest.mark.parametrize("name", STAY)
def test_other_indices_stay(name):
    with torch.no_grad():
        x = torch.randn(5, 7, 9)
        compiler = GraphCompiler(Settings(device=LLVM, smallest_part=1))
        result = torch.compile(STAY[name], backend=compiler)(x)
        torch.testing.assert_close(result, STAY[name](x))
    (part,) = compiler.log.report().parts
    assert "index.Tensor" in part.operators


def of_two_dimensions(x, table):
    index = arange(6).view(2, 3)
    return aten.index_put(table, [index + 1], x, True) + functional.embedding(index, table).sum()


def test_indices_that_count_along_two_dimensions_stay():
    given = torch.randn(2, 3, 4), torch.randn(9, 4)
    assert {"embedding", "index_put"} <= named(of_two_dimensions, *given)
    compiled = torch.compile(of_two_dimensions, backend=GraphCompiler(Settings(device=LLVM)))
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), of_two_dimensions(*given))


def test_a_number_that_lies_elsewhere_stays_there():
    def put(x, number):
        return aten.index_put(x, [aten.arange.start_step(0, 3)], number)

    with FakeTensorMode():
        graph = make_fx(put)(torch.empty(5, device="cuda"), torch.empty(()))
        with_slices(graph.graph)
    assert graph.graph.find_nodes(op="call_function", target=aten.index_put.default)


@pytest.mark.parametrize("end", [8, 100])
@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_beyond_the_end_is_an_error(end, device):
    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    function = torch.compile(lambda x: x[:, arange(2, end)] * 2, backend=compiler)
    with torch.no_grad(), pytest.raises(IndexError, match="out of bounds"):
        function(torch.randn(5, 7, 9))


def test_of_sizes_that_change():
    """What is indexed has to be known, a batch beside it may change."""
    function = torch.compile(
        READS["orthogonal"], backend=GraphCompiler(Settings(device=LLVM, smallest_part=1))
    )
    for batch in (3, 5, 8):
        x = torch.randn(batch, 7, 9)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(function(x), READS["orthogonal"](x))
