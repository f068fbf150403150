"""Masks of attention: none where it hides nothing, and as PyTorch's fused kernels take them."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.untraced import attention as attention_rewrites  # noqa: E402
from tvm_stitch.dynamo.rewrites.untraced.attention import (  # noqa: E402
    with_fused_masks,
    with_rounded_scores_written_out,
    with_shared_heads,
    with_single_queries_written_out,
)
from tvm_stitch.dynamo.rewrites.untraced.attention_kernels import (  # noqa: E402
    attention_settings,
    cudnn_attention_first,
)
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
LENGTH = 17  # no multiple of anything


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def heads(batch=2, length=LENGTH):
    return [torch.randn(batch, 4, length, 8) for _ in range(3)]


def rewritten(rewrite, function, *inputs, dynamic=False):
    """The function's graph as the rewrite leaves it; the result is right."""
    found = []

    def backend(graph, _inputs):
        rewrite(graph.graph)
        graph.recompile()
        graph.graph.lint()
        found.append(graph.graph)
        return graph.forward

    given = [each.clone() for each in inputs]
    torch.testing.assert_close(
        torch.compile(function, backend=backend, dynamic=dynamic)(*given), function(*inputs)
    )
    (graph,) = found
    return graph


def masks_of(function, *inputs, dynamic=False):
    """The masks that are left in the graph, or None; what is computed stays."""
    graph = rewritten(with_fused_masks, function, *inputs, dynamic=dynamic)
    found = []
    for call in graph.find_nodes(op="call_function", target=attention):
        mask = call.args[3] if len(call.args) > 3 else call.kwargs.get("attn_mask")
        found.append(mask if mask is None else mask.meta["example_value"])
    return [*found, {str(node.target) for node in graph.nodes}]


def positions(x, dim):
    return torch.arange(x.shape[dim], device=x.device)


def as_a_traced_model_makes_it(q, k, v):
    queries = (positions(q, 2) + 0)[None, None, :, None]
    everything = queries.new_ones((), dtype=torch.bool) & (queries >= 0).to(q.device)
    mask = everything.expand(q.shape[0], -1, q.shape[2], k.shape[2])
    return attention(q, k, v, attn_mask=mask, scale=0.25)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mask_that_hides_nothing_is_left_out(dynamic):
    mask, functions = masks_of(as_a_traced_model_makes_it, *heads(), dynamic=dynamic)
    assert mask is None
    assert not any("arange" in each for each in functions)


@pytest.mark.parametrize(
    "make",
    [
        lambda q: torch.ones(LENGTH, LENGTH, dtype=torch.bool),
        lambda q: torch.full((LENGTH, LENGTH), True),
        lambda q: torch.zeros(2, 1, LENGTH, LENGTH),
        lambda q: (positions(q, 2)[:, None] > -1) | (positions(q, 2) < 3),
        lambda q: positions(q, 2).expand(LENGTH, LENGTH) > -1,
    ],
)
def test_what_else_hides_nothing(make):
    mask, _ = masks_of(lambda q, k, v: attention(q, k, v, make(q)), *heads())
    assert mask is None


def as_a_traced_model_counts(q, k, v):
    """Of a decoder: what is packed into a sequence is told apart by positions that begin anew."""
    places = positions(q, 2)[None].expand(q.shape[0], -1)
    batch = torch.arange(q.shape[0], device=q.device)[:, None, None, None]
    starts = torch.diff(places, prepend=places[:, :1] - 1, dim=-1).ne(1).cumsum(-1)
    rows, columns = positions(q, 2)[None, None, :, None], positions(k, 2)[None, None, None, :]
    together = (starts[batch, rows] == starts[batch, columns]) & (columns <= rows).to(q.device)
    return attention(q, k, v, attn_mask=together.expand(q.shape[0], -1, q.shape[2], k.shape[2]))


def additive(q, k, v, least=-float("inf")):
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    return attention(q, k, v, torch.zeros(()).masked_fill(hidden, least), 0.0)


@pytest.mark.parametrize(
    "function",
    [
        as_a_traced_model_counts,
        additive,
        lambda q, k, v: additive(q, k, v, torch.finfo(torch.float32).min),
    ],
)
def test_what_hides_what_is_later_is_causal(function):
    mask, functions = masks_of(function, *heads())
    assert mask is None
    assert not any("arange" in each or "masked_fill" in each for each in functions)


def later(q, k, v, shift):
    return attention(q, k, v, positions(k, 2) <= positions(q, 2)[:, None] + shift)


def test_what_hides_other_things_stays():
    assert masks_of(lambda q, k, v: later(q, k, v, 0), *heads())[0] is None
    assert masks_of(lambda q, k, v: later(q, k, v, 1), *heads())[0] is not None
    q, k, v = heads()
    # One row for all: it hides all but the first from everybody.
    first = masks_of(lambda q, k, v: attention(q, k, v, positions(k, 2)[None] < 1), q, k, v)[0]
    assert first is not None
    # The last queries of more keys see more of them than `is_causal` says.
    few = masks_of(lambda q, k, v: later(q, k, v, LENGTH - 3), q[:, :, -3:], k, v)[0]
    assert few is not None
    assert masks_of(lambda q, k, v: later(q, k, v, 0), q[:, :, -3:], k, v)[0] is None


def changed(q):
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[0, 1:] = False
    return mask


def changed_in_a_view(q):
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[:, 3:].logical_and_(positions(q, 2)[3:] > 5)
    return mask


def changed_in_place(q):
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask &= positions(q, 2) < 9
    return mask


@pytest.mark.parametrize(
    "make",
    [
        lambda q: positions(q, 2)[:, None] <= positions(q, 2),
        lambda q: positions(q, 2).expand(LENGTH, LENGTH) >= 1,
        lambda q: torch.ones(LENGTH, LENGTH),
        lambda q: (q[0, 0, :, :1] < 9) & torch.ones(LENGTH, dtype=torch.bool),
        lambda q: (positions(q, 2) - 200).to(torch.uint8).expand(LENGTH, LENGTH) >= 60,
        lambda q: torch.arange(LENGTH - 1, -1, -1).expand(LENGTH, LENGTH) >= 4,
        changed,
        changed_in_a_view,
        changed_in_place,
    ],
)
def test_what_may_hide_something_stays(make):
    mask, _ = masks_of(lambda q, k, v: attention(q, k, v, make(q)), *heads())
    assert mask is not None


@pytest.mark.slow
def test_a_mask_of_more_than_the_queries_stays():
    stays = []

    def backend(graph, _inputs):
        with_fused_masks(graph.graph)
        (call,) = graph.graph.find_nodes(op="call_function", target=attention)
        stays.append(call.args[3] is not None)
        return lambda *_: (torch.zeros(1),)

    def function(q, k, v):
        return attention(q, k, v, torch.ones(3, 1, 1, LENGTH, dtype=torch.bool))

    torch.compile(function, backend=backend)(*heads(batch=1))
    assert stays == [True]


def test_a_mask_along_the_queries_is_written_out_once():
    def function(q, k, v, kept):
        mask = kept[:, None, :, None].expand(-1, 1, -1, LENGTH)
        return attention(attention(q, k, v, mask), k, v, mask).sum(-1) * kept[:, None]

    kept = torch.rand(2, LENGTH) > 0.3
    kept[:, 0] = True
    first, second, _ = masks_of(function, *heads(), kept)
    assert first.stride(-1) == 1 and first is second


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_bias_that_a_table_holds_by_heads_is_written_out_once(dynamic):
    def function(q, k, v, table):
        apart = (positions(q, 2)[:, None] - positions(k, 2)).abs()
        bias = table[apart].permute(2, 0, 1)[None]
        return attention(attention(q, k, v, bias), k, v, bias, scale=1.0)

    first, second, _ = masks_of(function, *heads(), torch.randn(LENGTH, 4), dynamic=dynamic)
    assert first.stride(-1) == 1 and first is second


def test_attention_stays_one_call():
    ours, given = GraphCompiler(Settings(device=LLVM)), heads()
    with torch.no_grad():
        found = torch.compile(as_a_traced_model_makes_it, backend=ours)(*given)
    torch.testing.assert_close(found, as_a_traced_model_makes_it(*given))
    left = {each.operator for each in ours.log.report().left}
    assert left == {"_scaled_dot_product_flash_attention_for_cpu"}


# A single query


def calls_left(function, *inputs, dynamic=False):
    """How many calls of attention are left where single queries are written out."""
    graph = rewritten(with_single_queries_written_out, function, *inputs, dynamic=dynamic)
    return len(graph.find_nodes(op="call_function", target=attention))


def with_one_query(batch=2, keys=LENGTH, heads_of_keys=4):
    return torch.randn(batch, 4, 1, 8), *(
        torch.randn(batch, heads_of_keys, keys, 8) for _ in range(2)
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_a_single_query_is_written_out(kind, dynamic):
    mask = torch.arange(LENGTH) < LENGTH - 2
    if kind == "float":
        mask = torch.where(mask, 0.5, float("-inf"))
    given = None if kind == "none" else mask[None, None, None].expand(2, 1, 1, -1)

    def attend(q, k, v):
        return attention(q, k, v, attn_mask=given, scale=0.3) + 1

    assert calls_left(attend, *with_one_query(), dynamic=dynamic) == 0


def test_groups_of_heads_are_written_out_too():
    def attend(q, k, v):
        return attention(q, k, v, enable_gqa=True)

    assert calls_left(attend, *with_one_query(heads_of_keys=2)) == 0


def test_a_query_that_sees_no_key_gives_zeros():
    hidden = torch.zeros(2, 1, 1, LENGTH, dtype=torch.bool)
    assert calls_left(lambda q, k, v: attention(q, k, v, hidden), *with_one_query()) == 0


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: attention(q.half(), k.half(), v.half()),
        lambda q, k, v: attention(k, k, v),  # of many queries
        lambda q, k, v: attention(q, k, v, is_causal=True),
        lambda q, k, v: attention(q, k, v, None, 0.0, True),
    ],
)
def test_others_stay(attend):
    assert calls_left(attend, *with_one_query()) == 1


# Scores of float32 in training by TF32


def scores_left(function, *inputs, dynamic=False):
    """How many calls of attention are left where scores may be rounded."""
    graph = rewritten(with_rounded_scores_written_out, function, *inputs, dynamic=dynamic)
    return len(graph.find_nodes(op="call_function", target=attention))


@pytest.mark.parametrize("kind", ["none", "bool", "float", "causal"])
def test_scores_that_may_be_rounded_are_written_out(kind):
    mask = torch.rand(LENGTH, LENGTH) < 0.7
    mask[:, 0] = True
    given = {"bool": mask, "float": torch.where(mask, 0.5, float("-inf"))}.get(kind)

    def attend(q, k, v):
        return attention(q, k, v, given, is_causal=kind == "causal", scale=0.3) + 1

    assert scores_left(attend, *heads()) == 0


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: attention(q.half(), k.half(), v.half()),
        lambda q, k, v: attention(q, k, v, None, 0.0001).detach() * 0,
        lambda q, k, v: attention(*(x.repeat(1, 8, 8, 1) for x in (q, k, v))),
    ],
    ids=["halves", "dropout", "many scores"],
)
def test_other_scores_stay(attend, monkeypatch):
    monkeypatch.setattr(attention_rewrites, "MOST_SCORES", 2 * 4 * LENGTH * LENGTH)
    assert scores_left(attend, *heads()) == 1


def test_scores_of_sizes_that_change_stay():
    assert scores_left(attention, *heads(), dynamic=True) == 1


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("trains", [False, True])
def test_scores_are_ours_in_training_by_tf32(monkeypatch, precision, trains):
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: True)
    compiler, given = GraphCompiler(Settings(device=LLVM)), heads()
    with torch.set_grad_enabled(trains):
        torch.compile(attention, backend=compiler)(*(x.requires_grad_(trains) for x in given))
    left = {each.operator for each in compiler.log.report().left}
    is_whole = any("scaled_dot_product" in each for each in left)
    assert is_whole != (trains and precision == "high")


# Heads that share keys and values


def repeated(x, times):
    """As transformers repeats heads."""
    batch, shared, length, depth = x.shape
    wide = x[:, :, None, :, :].expand(batch, shared, times, length, depth)
    return wide.reshape(batch, shared * times, length, depth)


def heads_of_keys(function, *inputs, dynamic=False):
    """How many heads the keys have that attention is given."""
    graph = rewritten(with_shared_heads, function, *inputs, dynamic=dynamic)
    (call,) = graph.find_nodes(op="call_function", target=attention)
    return call.args[1].meta["example_value"].shape[1]


def with_two_heads_of_keys(queries=1):
    return torch.randn(3, 4, queries, 8), *(torch.randn(3, 2, LENGTH, 8) for _ in range(2))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "of the batch"])
def test_heads_that_are_repeated_for_a_single_query_are_shared(kind, dynamic):
    masks = {
        "bool": torch.arange(LENGTH) < LENGTH - 2,
        "float": torch.randn(1, 1, 1, LENGTH),
        "of the batch": torch.rand(3, 1, 1, LENGTH) < 0.7,
    }
    given = masks.get(kind)
    mask = given[None] if kind == "bool" else given

    def attend(q, k, v):
        return attention(q, repeated(k, 2), repeated(v, 2), attn_mask=mask, scale=0.3) + 1

    # Where all sizes change, nothing says how many heads share one.
    assert heads_of_keys(attend, *with_two_heads_of_keys(), dynamic=dynamic) == 2 or dynamic


def test_heads_stay_shared_while_the_keys_grow():
    """Sizes of the cache change from call to call, those of the heads do not."""

    def attend(q, k, v):
        return attention(q, repeated(k, 2), repeated(v, 2))

    q, k, v = with_two_heads_of_keys()
    for each in (k, v):
        torch._dynamo.mark_dynamic(each, 2)
    graphs = []

    def backend(graph, _inputs):
        with_shared_heads(graph.graph)
        graph.recompile()
        graphs.append(graph.graph)
        return graph.forward

    compiled = torch.compile(attend, backend=backend)
    torch.testing.assert_close(compiled(q, k, v), attend(q, k, v))
    longer = [torch.cat([each, each], 2) for each in (k, v)]
    torch.testing.assert_close(compiled(q, *longer), attend(q, *longer))
    ((call,),) = (g.find_nodes(op="call_function", target=attention) for g in graphs)
    assert call.args[1].meta["example_value"].shape[1] == 2


def with_a_mask_a_head(q, k, v):
    mask = q[:, :, :, :1] > k.new_zeros(LENGTH)
    return attention(q, repeated(k, 2), repeated(v, 2), mask)


def turned(q, k, v):
    """Keys of as many numbers as there are keys, flattened into others' places."""
    wide = k[:, :, None, :, :].expand(3, 2, 2, LENGTH, 8)
    keys = wide.reshape(3, 4, 8, LENGTH)
    return attention(q.repeat(1, 1, 1, 3)[..., :LENGTH], keys, keys)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_many_queries_of_halves_ask_for_groups(causal, dynamic):
    """Of all sizes, as fused kernels of this device take them."""

    def attend(q, k, v):
        return attention(q, repeated(k, 2), value=repeated(v, 2), is_causal=causal)

    given = [each.half() for each in with_two_heads_of_keys(LENGTH)]
    shared = partial(with_shared_heads, device="cpu")
    graph = rewritten(shared, attend, *given, dynamic=dynamic)
    (call,) = graph.find_nodes(op="call_function", target=attention)
    assert call.kwargs.get("enable_gqa") or dynamic


@pytest.mark.parametrize(
    "attend, queries",
    [
        (lambda q, k, v: attention(q, repeated(k, 2), repeated(v, 2)), 5),
        (lambda q, k, v: attention(q, repeated(k, 2), repeated(v, 2), is_causal=True), 1),
        (lambda q, k, v: attention(q, repeated(k, 2), v.repeat(1, 2, 1, 1)), 1),
        (lambda q, k, v: attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)), 1),
        (with_a_mask_a_head, 1),
        (turned, 1),
    ],
)
def test_heads_that_stay_repeated(attend, queries):
    """Many queries; one that sees the first key alone; others' orders; a mask for each head."""
    assert heads_of_keys(attend, *with_two_heads_of_keys(queries)) == 4


def traced_order(function, inputs, device="cuda", dynamic=False):
    """The order in which PyTorch asks its kernels for attention while a graph is traced."""
    found = []

    def backend(graph, _inputs):
        with cudnn_attention_first(graph.graph, torch.device(device)):
            found.append(torch._C._get_sdp_priority_order())
        return graph.forward

    torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    return found[0]


PYTORCHS, CUDNNS = [1, 2, 0, 3, 4], [3, 1, 2, 0, 4]


@pytest.mark.parametrize(
    ("how", "order"),
    [
        ("halves", CUDNNS),
        ("a mask", PYTORCHS),
        ("float32", PYTORCHS),
        ("few queries", PYTORCHS),
        ("sizes that change", PYTORCHS),
        ("an older GPU", PYTORCHS),
        ("a CPU", PYTORCHS),
        ("the user's", [2, 1, 0, 3, 4]),
    ],
)
def test_cudnns_attention_is_asked_first_where_it_is_faster(monkeypatch, how, order):
    capability = (8, 0) if how == "an older GPU" else (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    before = torch._C._get_sdp_priority_order()
    dtype = torch.float32 if how == "float32" else torch.bfloat16
    query, key, value = (torch.randn(2, 4, 64, 8, dtype=dtype) for _ in range(3))
    query = query[:, :, : 1 if how == "few queries" else 64]
    mask = (torch.zeros(1, 1, 64, 64, dtype=dtype),) if how == "a mask" else ()
    if how == "the user's":
        torch._C._set_sdp_priority_order(order)
    try:
        found = traced_order(
            attention,
            (query, key, value, *mask),
            "cpu" if how == "a CPU" else "cuda",
            how == "sizes that change",
        )
        assert found == order
        assert torch._C._get_sdp_priority_order() == (order if how == "the user's" else before)
    finally:
        torch._C._set_sdp_priority_order(before)


def test_where_pytorch_has_no_order_nothing_is_asked_of_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (9, 0))
    inputs = [torch.randn(2, 4, 64, 8, dtype=torch.bfloat16) for _ in range(3)]
    before = torch._C._get_sdp_priority_order()
    monkeypatch.delattr(torch._C, "_get_sdp_priority_order")
    monkeypatch.delattr(torch._C, "_set_sdp_priority_order")
    torch._dynamo.reset()

    def backend(graph, _inputs):
        with cudnn_attention_first(graph.graph, torch.device("cuda")):
            return graph.forward

    torch.compile(attention, backend=backend)(*inputs)
    assert attention_settings().startswith("[]")
    monkeypatch.undo()
    assert torch._C._get_sdp_priority_order() == before


def test_a_kept_graph_is_for_the_kernels_that_were_allowed():
    before = attention_settings()
    with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.MATH]):
        assert attention_settings() != before
    assert attention_settings() == before
