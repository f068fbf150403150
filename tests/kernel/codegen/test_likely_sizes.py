"""Kernels of symbolic rows suit the sizes that Options(extents=...) names, and are right at all."""

import pytest
from check import H200, schedule_of, the_kernel
from symbolic_rows import COLUMNS, ROWS, run_softmax
from twins import TWINS
from twins_verified import verify
from zoo import softmax

from tvm_stitch import Options, simt
from tvm_stitch.build import lowering_context


def kernel_of(shape, options=None):
    case = softmax("float32", *shape)
    return the_kernel(case.module, H200, options)


def extents(**sizes: tuple[int, ...]) -> Options:
    return Options(extents=sizes)


def test_few_rows_are_mapped_as_few_known_ones_are():
    symbolic = schedule_of(kernel_of(((ROWS, 5), 30_000), extents(n=(64,))))
    static = schedule_of(kernel_of((64, 30_000)))
    assert symbolic == static
    assert schedule_of(kernel_of(((ROWS, 5), 30_000))) != static


def test_rows_as_long_as_at_a_point_have_a_kernel():
    schedule = schedule_of(kernel_of((3, (COLUMNS, 50)), extents(m=(300, 60_000))))
    capacities = []
    while schedule is not None:
        capacities.append(schedule.parts[0].capacity)
        schedule = schedule.longer
    assert 300 <= capacities[0] < 1024 and capacities[1] >= 60_000 and len(capacities) == 3


@pytest.mark.spread(2)
@pytest.mark.parametrize("columns", (1, 299, 300, 301, 2000, 20_001, 50_000))
def test_right_below_and_above_the_sizes(columns):
    with lowering_context():
        function = simt.Function(kernel_of((3, (COLUMNS, 50)), extents(m=(300, 20_000))), H200)
    run_softmax(function, 3, columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ("between projections", "linear", "group norm", "batch norm in training")
)
def test_twins_that_expect_other_sizes(name):
    twin = TWINS[name]
    for sizes in (dict.fromkeys(twin.sizes[0], 1), dict.fromkeys(twin.sizes[0], 4096)):
        options = Options(extents={each: (size,) for each, size in sizes.items()})
        verify(twin, *twin.sizes[:2], options=options)
