"""Indices at a vector's lanes: the numbers that dividing for each lane gives, without dividing."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from check import check, cuda_of, schedule_by, the_kernel
from tvm import tirx
from tvm.relax import op
from zoo import Case, graph

from tvm_stitch.kernel.codegen.lane_indices import LaneIndices
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.ir.mapping import Flat
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import constant, substitute

COLUMN, ROW = tirx.Var("column", "int64"), tirx.Var("row", "int64")


class Inline(Writer):
    """Names nothing: what is written is the value itself."""

    def value(self, name, value):
        return value


def divides(expr) -> bool:
    found = []
    for kind in (tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(expr, (kind, found.append))
    return bool(found)


def at(expr, first, lane, lanes, limit=4000):
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(COLUMN, tvm.ir.Range(0, limit))
    known = {COLUMN: tirx.IntImm("int64", first), ROW: tirx.IntImm("int64", 3)}
    indices = LaneIndices(Inline(), COLUMN, known, lanes, analyzer, [expr])
    found = indices.at(tirx.IntImm("int64", lane))(expr)
    return constant(tvm.sym.Analyzer().simplify(found))


def exact(expr, column):
    known = {COLUMN: tirx.IntImm("int64", column), ROW: tirx.IntImm("int64", 3)}
    return constant(tvm.sym.Analyzer().simplify(substitute(expr, known)))


def digits(width, height):
    """A pixel's plane, line and column."""
    line = tirx.floormod(tirx.floordiv(COLUMN, width), height)
    return tirx.floordiv(COLUMN, width * height), line, tirx.floormod(COLUMN, width)


def padded(width, height):
    plane, line, own = digits(width, height)
    return plane * ((width - 2) * (height - 2)) + line * (width - 2) + own - (width - 1)


INDICES = {
    "quotient": tirx.floordiv(COLUMN, 9),
    "rest": tirx.floormod(COLUMN, 11),
    "digit": tirx.floormod(tirx.floordiv(COLUMN, 10), 9),
    "digit, simplified": tirx.floordiv(tirx.floormod(COLUMN, 90), 10),
    "padded": padded(9, 13),
    "padded, of even lines": padded(10, 14),
    "a divisor that is a multiple": padded(16, 9),
    "one that is less than the lanes": padded(5, 7),
    "that divide no other": tirx.floordiv(COLUMN, 9) * 100 + tirx.floordiv(COLUMN, 13),
    "a row's": ROW * 1000 + tirx.floormod(COLUMN, 19) * 3 - tirx.floordiv(COLUMN, 19),
    "reversed": tirx.IntImm("int64", 18) - tirx.floormod(COLUMN, 19),
    "not linear": tirx.floormod(COLUMN, 19) * tirx.floordiv(COLUMN, 19),
    "chosen": tirx.Select(tirx.floormod(COLUMN, 21) < 10, tirx.floordiv(COLUMN, 21), COLUMN),
    "clipped": tirx.min(tirx.floormod(COLUMN, 21) + 1, 20),
    "divided once more": tirx.floordiv(tirx.floormod(COLUMN, 35) + 2, 3),
    "shifted before": tirx.floordiv(COLUMN + 3, 9),
}


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("name", INDICES)
def test_they_are_what_dividing_gives(name, lanes):
    for first in (*range(0, 260, lanes), 3992 - 3992 % lanes):
        for lane in range(lanes):
            expr = INDICES[name]
            assert at(expr, first, lane, lanes) == exact(expr, first + lane), (first, lane)


@pytest.mark.parametrize("name", ["quotient", "rest", "digit", "padded", "padded, of even lines"])
def test_no_lane_divides(name):
    first, lane = tirx.Var("first", "int64"), tirx.Var("lane", "int64")
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(COLUMN, tvm.ir.Range(0, 4000))
    expr = INDICES[name]
    here = LaneIndices(Writer(), COLUMN, {COLUMN: first * 8}, 8, analyzer, [expr]).at(lane)
    assert divides(expr) and not divides(here(expr))


def test_indices_beyond_32_bits_stay_as_wide():
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(COLUMN, tvm.ir.Range(0, 1 << 40))
    expr = tirx.floordiv(COLUMN, 9) * 7
    first = {COLUMN: tirx.IntImm("int64", 9 << 35)}
    here = LaneIndices(Inline(), COLUMN, first, 8, analyzer, [expr]).at(tirx.IntImm("int64", 5))
    assert constant(tvm.sym.Analyzer().simplify(here(expr))) == 7 << 35


@pytest.fixture
def eighths(monkeypatch):
    """Eight elements a thread, however few there are."""
    schedule_by(monkeypatch, lambda *_: Schedule((Flat(32, 8, 1),)))


def padded_images(dtype, shape, margins) -> Case:
    """Margins of a constant around the last axes, and what is element-wise behind."""
    around = [(0, 0)] * (len(shape) - len(margins)) + list(margins)
    flat = [each for pair in around for each in pair]

    def build(emit, x):
        return emit(op.nn.relu(emit(op.nn.pad(x, flat, pad_value=2.0))))

    def expected(x):
        return np.maximum(np.pad(x, around, constant_values=2.0), 0)

    return graph(dtype, [shape], build, expected)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "shape, margins",
    [
        ((2, 3, 13, 28), [(1, 1), (1, 1)]),
        ((3, 5, 9, 31), [(2, 0), (0, 3)]),
        ((4, 5, 7, 9), [(1, 2), (0, 1), (3, 3)]),
        ((2, 3, 5), [(1, 1)]),  # rows of seven, less than a vector
        ((3, 1000), [(0, 27)]),
        ((1, 12), [(3, 4), (0, 1)]),
    ],
)
def test_padded_images(eighths, shape, margins, dtype):
    check(padded_images(dtype, shape, margins), orders=2)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("first, second", [(9, 11), (13, 6), (31, 2)])
def test_tensors_side_by_side(eighths, axis, first, second):
    shapes = [(8, 9, 12), (8, 9, 12)]
    shapes = [(*s[:axis], n, *s[axis + 1 :]) for s, n in zip(shapes, (first, second), strict=True)]
    case = graph(
        "bfloat16",
        shapes,
        lambda emit, x, y: emit(op.nn.relu(emit(op.concat([x, y], axis)))),
        lambda x, y: np.maximum(np.concatenate([x, y], axis), 0),
    )
    check(case, orders=2)


@pytest.mark.slow
def test_no_lane_of_a_padded_image_divides():
    case = padded_images("float16", (32, 64, 112, 112), [(1, 1), (1, 1)])
    _before, lanes = cuda_of(the_kernel(case.module)).split("for (int lane = 0;")
    assert "is_next" in lanes and "%" not in lanes and " / " not in lanes


def test_lines_of_whole_vectors_are_left_as_they_are():
    """All lanes of a vector are in one line: there is nothing that changes among them."""
    case = padded_images("float16", (32, 64, 112, 96), [(1, 1), (8, 8)])
    assert "is_next" not in cuda_of(the_kernel(case.module))
