"""Equal layers of a model are shown once, with their count."""

import random
import time

from tvm_stitch.report.data import Repeat
from tvm_stitch.report.findings.fold import MOST_ITEMS, folded


def spelled(launches, items):
    """The launches that a folded list stands for, all repetitions of them."""
    for item in items:
        if isinstance(item, int):
            yield launches[item]
        else:
            yield from item.count * list(spelled(launches, item.items))


def test_nothing_repeats():
    assert folded([1, 2, 3, 2]) == (0, 1, 2, 3)
    assert folded([]) == ()


def test_layers_between_what_is_once():
    launches = [9, *[1, 2, 3] * 12, 8]
    assert folded(launches) == (0, Repeat(1, 3, 12, (1, 2, 3)), 37)
    assert list(spelled(launches, folded(launches))) == launches


def test_repeats_within_repeats():
    launches = [*[*[1, 2] * 3, 5] * 4]
    (outer,) = folded(launches)
    assert (outer.period, outer.count) == (7, 4)
    assert outer.items == (Repeat(0, 2, 3, (0, 1)), 6)
    assert list(spelled(launches, folded(launches))) == launches


def test_the_shortest_of_equal_periods():
    (repeat,) = folded([1, 2] * 6)
    assert (repeat.period, repeat.count) == (2, 6)


def test_too_short_to_be_worth_it():
    assert folded([1, 1, 2]) == (0, 1, 2)


def test_a_long_list_without_repeats_is_cut_into_sections():
    launches = list(range(1500))
    items = folded(launches)
    assert len(items) <= MOST_ITEMS and all(item.count == 1 for item in items)
    assert list(spelled(launches, items)) == launches


def test_long_lists_of_any_kind_are_folded_soon():
    chosen = random.Random(0)
    launches = [chosen.randrange(12) for _ in range(2000)]
    started = time.perf_counter()
    items = folded(launches)
    assert time.perf_counter() - started < 3
    assert list(spelled(launches, items)) == launches
