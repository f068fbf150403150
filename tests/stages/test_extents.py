"""Representative sizes of symbolic dimensions: what plans and reports count with."""

import pytest
from check import H200, plan_of
from tvm import tirx
from tvm.relax import op
from zoo import graph

from tvm_stitch import Options
from tvm_stitch.stages.extents import NOMINAL_EXTENT, Extents, points_of

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def test_an_expression_has_the_size_of_its_symbols():
    sizes = Extents((("n", 100),))
    assert sizes.size(N * 3 + tirx.floordiv(N, 8)) == 312
    assert sizes.size(N * M) == 100 * NOMINAL_EXTENT
    assert sizes.size(tirx.IntImm("int64", 7)) == 7
    assert sizes.size(N - 200) == 1


@pytest.mark.parametrize(
    ("sizes", "bounds", "points"),
    [
        ({}, {"n": 64}, []),
        ({"m": (1,)}, {"n": 64}, [{"m": 1, "n": 64}]),
        ({"m": (1,)}, {"n": 4096}, [{"m": 1, "n": NOMINAL_EXTENT}]),
        ({"n": (1, 128), "m": (5,)}, {}, [{"m": 5, "n": 1}, {"m": 5, "n": 128}]),
        ({"n": (1, 128)}, {"n": 100}, [{"n": 1}, {"n": 100}]),
    ],
)
def test_points_are_first_sizes_then_second_ones(sizes, bounds, points):
    assert [dict(point.of) for point in points_of(sizes, bounds)] == points
    assert points_of({}, {}) == ()


def test_a_plan_costs_what_it_does_on_average():
    def cost(*sizes: int) -> float:
        case = graph(
            "float32",
            [((N, 5), 512)],
            lambda emit, x: emit(op.nn.softmax(emit(op.exp(x)))),
            lambda x: x,
        )
        return plan_of(case.module, H200, Options(extents={"n": sizes})).solved.cost_us

    few, many = cost(1), cost(1 << 20)
    assert 10 * few < many
    # By one kernel, which suits the larger of the two.
    assert cost(1, 1 << 20) == pytest.approx((few + many) / 2, rel=1e-3)
