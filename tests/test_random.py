"""Random graphs: whatever is put together compiles and is right."""

import pytest
from check import check
from random_graphs import random_case


@pytest.mark.parametrize("seed", range(32))
def test_right(seed):
    check(random_case(seed), kernels=None, orders=2)


def test_the_same_seed_is_the_same_graph():
    first, second = random_case(7), random_case(7)
    assert str(first.module) == str(second.module)
    assert str(first.module) != str(random_case(8).module)
