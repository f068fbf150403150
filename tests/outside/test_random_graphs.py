"""Random graphs: a few of those that `python -m tests.outside.graphs` runs by the thousand."""

import pytest

from tests.outside.graphs.generate import generate
from tests.outside.graphs.graph import module_of
from tests.outside.graphs.meaning import MEANINGS
from tests.outside.graphs.outcome import OK
from tests.outside.graphs.trial import Settings, Trial

# Small ones, which take about a second each.
SEEDS = (
    7, 19, 20, 24, 27, 31, 34, 40, 51, 59, 73, 88, 90, 93, 95, 98, 103, 108, 110, 127, 96130,
)  # fmt: skip
MORE = (
    130, 138, 147, 154, 167, 173, 174, 181, 185, 187, 192, 205, 207, 210, 225, 229, 235, 238,
    248, 250,
)  # fmt: skip


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    "seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE)]
)
def test_right(seed):
    found = Trial(generate(seed), Settings(orders=2), lambda stage: None).outcome()
    assert found.kind == OK, found


def test_the_same_seed_is_the_same_graph():
    first, second = generate(7), generate(7)
    assert first == second and str(module_of(first)) == str(module_of(second))
    assert first != generate(8)


@pytest.mark.slow
def test_a_hundred_operators_and_every_rank_and_dtype_occur():
    graphs = [generate(seed) for seed in range(400)]
    inputs = [value for graph in graphs for value in graph.inputs.values()]
    assert len({name for graph in graphs for name in graph.operators}) > 100
    assert len(MEANINGS) > 130
    assert {len(value.shape) for value in inputs} >= {0, 1, 2, 3, 4, 5}
    assert {value.dtype for value in inputs} >= {
        "float16", "bfloat16", "float32", "bool", "int8", "int16", "int32", "int64", "uint8",
    }  # fmt: skip
    sizes = [extent.constant for value in inputs for extent in value.shape]
    assert {0, 1} <= set(sizes) and None in sizes
    assert max(size for size in sizes if size is not None) >= 3000
    assert any(symbol.bound for graph in graphs for symbol in graph.symbols)
    assert len({graph.arch for graph in graphs}) == 8
    assert any(len(set(graph.outputs)) < len(graph.outputs) for graph in graphs)
