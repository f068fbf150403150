"""Rows of every length and number: what is odd, what is one, what fits no register."""

import pytest
from check import A100, HALVES, TOGETHER, check, schedule_of, the_kernel
from zoo import layer_norm, softmax

COLUMNS = (1, 2, 7, 31, 32, 33, 127, 1000, 1024, 1027, 4096, 30000)
LONG = 1000  # a thousand rows of more columns than this take the executor too long
GRAPHS = {"softmax": softmax, "layer norm": layer_norm}


@pytest.mark.spread(12)
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", (1, 3))
@pytest.mark.parametrize("graph", GRAPHS)
def test_few_rows(graph, rows, columns):
    check(GRAPHS[graph]("float32", rows, columns), options=TOGETHER)


@pytest.mark.spread(3)
@pytest.mark.parametrize("columns", [columns for columns in COLUMNS if columns < LONG])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_thousand_rows(graph, columns):
    check(GRAPHS[graph]("float32", 1000, columns), orders=3 if columns < 64 else 2)


@pytest.mark.spread(6)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("columns", (1, 7, 33, 1027, 4096, 30000))
@pytest.mark.parametrize("graph", GRAPHS)
def test_half_precision(graph, columns, dtype):
    check(GRAPHS[graph](dtype, 3, columns), options=TOGETHER)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("columns", (2, 31))
def test_a_thousand_short_rows_in_half_precision(columns, dtype):
    check(softmax(dtype, 1000, columns))


def test_a_thousand_long_misaligned_rows():
    check(softmax("float32", 1000, 1027), orders=2)


@pytest.mark.parametrize("columns", (60_000, pytest.param(100_003, marks=pytest.mark.slow)))
@pytest.mark.parametrize("graph", GRAPHS)
def test_rows_longer_than_a_block_has_room_for(graph, columns):
    check(GRAPHS[graph]("float32", 2, columns))


@pytest.mark.parametrize("columns", (48_000, 45_001))
@pytest.mark.slow
def test_rows_that_are_read_again_in_every_phase(columns):
    case = softmax("float32", 54, columns)
    (mapping,) = schedule_of(the_kernel(case.module, A100)).parts
    assert mapping.residence == "nowhere"
    check(case, orders=1, target=A100)
