"""Parts that fall apart: in few pieces, of which as many as possible are equal."""

import operator

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from tvm_stitch.dynamo.parts.components import MOST_OPERATORS, pieces  # noqa: E402


def updates(kinds, operators=10):
    """For each kind a chain of operators on a tensor of its own; the chains are interleaved."""
    graph = fx.Graph()
    values = []
    for number, kind in enumerate(kinds):
        value = graph.placeholder(f"x{number}")
        value.meta["val"] = torch.empty(kind, device="meta")
        values.append(value)
    made = []
    for _ in range(operators):
        values = [graph.call_function(operator.neg, (value,)) for value in values]
        for value, kind in zip(values, kinds, strict=True):
            value.meta["val"] = torch.empty(kind, device="meta")
        made += values
    return made


def shape_of(piece):
    return tuple(node.meta["val"].shape[0] for node in piece)


def split(part):
    found = pieces(part, lambda node: True)
    assert sorted(node.name for piece in found for node in piece) == sorted(n.name for n in part)
    place = {node: n for n, node in enumerate(part)}
    for piece in found:
        assert piece == sorted(piece, key=place.__getitem__)
    return found


def test_what_is_small_stays_whole():
    part = updates([1] * (MOST_OPERATORS // 10))
    assert split(part) == [part]


def test_layers_are_equal_pieces():
    layer = [7, 3, 7, 5, 3, 2, 2, 9, 4, 1]
    found = split(updates([100, 50, *layer * 12, 60]))
    assert len(found) == 7  # two layers each, and what is around them
    assert len({shape_of(piece) for piece in found}) == 2


def test_nothing_repeated_is_halved():
    found = split(updates(range(1, 31)))
    assert [len(piece) for piece in found] == [150, 150]


def test_what_hangs_together_stays_together():
    part = updates([1] * 30)
    graph = part[0].graph
    joined = graph.call_function(operator.add, (part[-1], part[-2]))
    joined.meta["val"] = part[-1].meta["val"]
    found = split([*part, joined])
    (owner,) = [piece for piece in found if joined in piece]
    assert part[-1] in owner and part[-2] in owner


def test_a_large_component_is_one_piece_beside_small_ones():
    part = updates([1] * 30)
    large = updates([2], operators=300)
    found = split([*part, *large])
    assert large in found and len(found) == 3


def test_one_large_component_stays_whole():
    part = updates([1], operators=2 * MOST_OPERATORS)
    assert split(part) == [part]
