"""Sizes of memory as functions of the symbols' values."""

import pytest

pytest.importorskip("torch")

from tvm import tirx

from tvm_stitch.dynamo.sizes import of_expression
from tvm_stitch.errors import TorchError

ROWS, COLUMNS = (tirx.Var(name, "int64") for name in ("rows", "columns"))


def number(value):
    return tirx.const(value, "int64")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (number(7) * number(3), 21),
        (ROWS * COLUMNS + number(4), 39),
        (tirx.floordiv(ROWS + number(7), number(8)) * number(8), 8),
        (tirx.max(ROWS - COLUMNS, number(1)), 1),
        (tirx.Select(number(0) <= ROWS, ROWS * number(512), number(0)), 2560),
        (tirx.Select(COLUMNS < ROWS, ROWS, COLUMNS * number(2)), 14),
    ],
)
def test_an_expression_is_evaluated(expression, expected):
    found = of_expression([ROWS, COLUMNS], expression)
    assert (found if isinstance(found, int) else found((5, 7))) == expected


def test_what_no_size_is_made_of_is_named():
    with pytest.raises(TorchError, match="a size of"):
        of_expression([ROWS], tirx.shift_left(ROWS, number(2)) + tirx.popcount(ROWS))
