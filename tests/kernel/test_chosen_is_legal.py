"""What holds of every schedule that is chosen, seen on random programs, symbolic ones too."""

from functools import cache

import pytest
import tvm
from check import A100, H200, TOGETHER, primfuncs

from tests.outside.graphs.families import compound, elementwise, movement, reductions
from tests.outside.graphs.generate import Profile, generate
from tests.outside.graphs.graph import module_of
from tvm_stitch.device import Device, device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.stages.stage import Refused
from tvm_stitch.transform import bounds_of_module
from tvm_stitch.tuning.workload import workload_of

# What is stitched: no products, no sorts.
RULES = (*elementwise.RULES, *movement.RULES, *reductions.RULES, *compound.RULES)
KNOWN = Profile((6, 20), 0.0, 0.0, 0.0, None, RULES, 0.0)
SYMBOLIC = Profile((4, 12), 1.0, 0.0, 0.0, None, RULES, 0.0)
SEEDS = range(40)
# Of 500 symbolic graphs, two with rows of up to 1024 columns that start anywhere, too many for the
# registers of half a warp; and one where the blocks of other rows leave its own too few registers.
CROWDED = (219, 309, 322)
MOST_SEARCHED = 3  # parts of a kernel, each of which has a space of its own


@cache
def functions_of(seed: int, symbolic: bool) -> tuple[list[tvm.tirx.PrimFunc], Device, Bounds]:
    """What a random graph's kernels compute, on one device or another."""
    target = H200 if seed % 2 else A100
    module = module_of(generate(seed, SYMBOLIC if symbolic else KNOWN))
    found = primfuncs(module, target, TOGETHER, before="StitchSchedule")
    return list(found.values()), device_of(target), bounds_of_module(module)


def programs_of(seed: int, symbolic: bool):
    """The programs of each function, read anew, and a function that reads them once more."""
    functions, device, bounds = functions_of(seed, symbolic)
    for function in functions:
        programs = read_programs(function)
        if not isinstance(programs, Refused):
            yield function, programs, device, bounds


def check_legal(seed: int, symbolic: bool) -> None:
    for _, programs, device, bounds in programs_of(seed, symbolic):
        schedule = choose(programs, device, bounds)
        if isinstance(schedule, Refused):
            continue
        refused = legal(programs, schedule, device, bounds)
        assert refused is None, (refused, schedule.mapping)


@pytest.mark.spread(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_chosen_is_legal(seed):
    check_legal(seed, symbolic=False)


@pytest.mark.spread(11)
@pytest.mark.parametrize("seed", [*SEEDS, *CROWDED])
def test_what_is_chosen_for_symbolic_programs_is_legal(seed):
    check_legal(seed, symbolic=True)


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("seed", SEEDS[::8])
def test_what_is_chosen_is_among_what_a_tuner_tries(seed):
    for function, programs, device, bounds in programs_of(seed, symbolic=False):
        schedule = choose(programs, device, bounds)
        if isinstance(schedule, Refused) or len(programs) > MOST_SEARCHED:
            continue
        found = workload_of(function, device, bounds)
        assert not isinstance(found, Refused)
        assert found.space().nearest(schedule).schedule == schedule


@pytest.mark.parametrize("symbolic", [False, True], ids=["known", "symbolic"])
@pytest.mark.parametrize("seed", SEEDS[::4])
def test_programs_that_were_asked_about_before_give_what_fresh_ones_give(seed, symbolic):
    for function, programs, device, bounds in programs_of(seed, symbolic):
        for other in map(device_of, (A100, H200)):
            choose(programs, other, NO_BOUNDS)
            choose(programs, other, bounds, tuple(s for s in SCHEMES if s != "regional"))
        fresh = read_programs(function)
        assert choose(programs, device, bounds) == choose(fresh, device, bounds)


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_schedules_go_to_json_and_back(seed):
    for _, programs, device, bounds in programs_of(seed, seed % 8 == 0):
        schedule = choose(programs, device, bounds)
        if not isinstance(schedule, Refused):
            assert Schedule.from_json(schedule.to_json()) == schedule
