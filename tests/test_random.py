"""Random graphs: whatever is put together compiles and is right."""

import pytest
from check import check
from random_graphs import random_case


@pytest.mark.parametrize("seed", range(32))
def test_right(seed):
    check(random_case(seed), kernels=None, orders=2)


@pytest.mark.parametrize("seed", (1001, 1004))
def test_larger_graphs_are_right(seed):
    """Two of those that `python tests/random_graphs.py` checks by the hundred."""
    check(random_case(seed, operators=40), kernels=None, orders=1)


def test_the_same_seed_is_the_same_graph():
    first, second = random_case(7), random_case(7)
    assert str(first.module) == str(second.module)
    assert str(first.module) != str(random_case(8).module)
