"""Legality of schedules from elsewhere: what choose makes is legal, what would not work is refused,
and what is legal gives right kernels."""

import random
from dataclasses import replace

import pytest
from check import A100, H200, primfuncs
from tuning_runs import DEVICE, KINDS, chosen, elements, softmax_of, workload
from tvm import te, tirx, topi
from zoo import ZOO, layer_norm, log_softmax, norm_gelu_softmax, softmax

from tvm_stitch import simt
from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose
from tvm_stitch.kernel.ir.mapping import SCHEMES, ColumnSums, Flat, Rows, Transposed
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.measuring.measure import SimtRunner
from tvm_stitch.tuning.spaces.space import Space

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


@pytest.mark.spread(5)
@pytest.mark.parametrize("target", (H200, A100), ids=("H200", "A100"))
@pytest.mark.parametrize("name", ZOO)
def test_what_is_chosen_is_legal(name, target):
    device = device_of(target)
    for function in primfuncs(
        ZOO[name]("bfloat16").module, target, before="StitchSchedule"
    ).values():
        programs = read_programs(function)
        if not isinstance(programs, Refused):
            schedule = choose(programs, device)
            assert isinstance(schedule, Refused) or legal(programs, schedule, device) is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_chosen_for_small_kernels_is_legal(kind):
    found = workload(*KINDS[kind]())
    assert legal(found.programs, chosen(found), DEVICE) is None


@pytest.mark.spread(16)
@pytest.mark.parametrize("target", (H200, A100), ids=("H200", "A100"))
@pytest.mark.parametrize("bound", (None, 700, 5000, 40000))
@pytest.mark.parametrize("columns", ((M, 40), (8 * M, 40)), ids=("any", "eighths"))
@pytest.mark.parametrize("model", (softmax, layer_norm, log_softmax, norm_gelu_softmax))
def test_what_is_chosen_for_rows_of_any_length_is_legal(model, columns, bound, target):
    device, bounds = device_of(target), NO_BOUNDS if bound is None else Bounds((("m", bound),))
    case = model("bfloat16", (N, 4) if model is not log_softmax else 6, columns)
    for function in primfuncs(case.module, target, before="StitchSchedule").values():
        programs = read_programs(function)
        assert not isinstance(programs, Refused), programs
        schedule = choose(programs, device, bounds)
        if isinstance(schedule, Refused):
            # Without clusters, rows of 320000 elements have no place to wait.
            assert target is A100 and "bytes of shared memory" in schedule.reason
            continue
        assert legal(programs, schedule, device, bounds) is None
        if schedule.longer is not None:
            alone = legal(programs, replace(schedule, longer=None), device, bounds)
            assert alone is not None and "of which it covers" in alone.reason


def refusal(tensors, device=DEVICE, schemes=SCHEMES, **changes) -> str:
    """Why the analytic choice with some fields changed is not legal."""
    found = workload(*tensors)
    schedule = Schedule(tuple(replace(part, **changes) for part in chosen(found).parts))
    refused = legal(found.programs, schedule, device, schemes=schemes)
    assert refused is not None, schedule
    return refused.reason


ROWS, FLAT = softmax_of(64, 1024), elements()
SUMS, MISALIGNED = KINDS["sums over rows"](), softmax_of(9, 301)
TILED = KINDS["transposed"]()


def squares():
    """The tensors of a sum along the rows that is measured against nothing."""
    x = te.placeholder((64, 1024), "float32", "x")
    return x, topi.sum(topi.multiply(x, x), axis=1)


def both_ways():
    """The tensors of sums along the rows and over them."""
    x = te.placeholder((96, 256), "float32", "x")
    return x, topi.sum(x, axis=0), topi.multiply(x, topi.sum(x, axis=1, keepdims=True))


SQUARES, BOTH_WAYS = squares(), both_ways()


@pytest.mark.parametrize(
    ("tensors", "changes", "why"),
    (
        (ROWS, {"threads": 96}, "threads of 96, which is no power of two"),
        (ROWS, {"threads": 0}, "threads of 0"),
        (ROWS, {"unroll": -1}, "-1 steps at once"),
        (ROWS, {"unroll": 2}, "of a row that waits in registers"),
        (ROWS, {"unroll": 200, "residence": "nowhere", "recompute": True}, "bytes that a thread"),
        (ROWS, {"rows": -4}, "rows of -4"),
        (ROWS, {"rows": 3}, "rows of 3"),
        (ROWS, {"threads": 2048}, "blocks of 2048 threads"),
        (ROWS, {"threads": 1, "steps": 256}, "blocks of 1 threads"),
        (ROWS, {"steps": 0}, "0 steps"),
        (ROWS, {"vector": 32}, "vectors of 32 elements"),
        (ROWS, {"residence": "disk"}, "values that wait in disk"),
        (ROWS, {"vector": 1}, "rows of 1024 columns, of which it covers 256"),
        (BOTH_WAYS, {"split": True}, "cannot be split over blocks"),
        (ROWS, {"cluster": 3}, "cluster of 3"),
        (ROWS, {"cluster": 32}, "a cluster of 32 blocks"),
        (ROWS, {"cluster": 2, "rows": 2}, "blocks of a cluster share one row"),
        (ROWS, {"steps": 256}, "elements per thread"),
        (ROWS, {"steps": 1 << 19, "residence": "shared"}, "bytes of shared memory"),
        (
            ROWS,
            {"threads": 32, "steps": 8, "residence": "shared"},
            "rows of a warp or less wait in registers",
        ),
        (ROWS, {"blocks": -1}, "-1 blocks in a grid-stride loop"),
        (ROWS, {"prefetch_next_row": True}, "there are no iterations"),
        (
            ROWS,
            {"blocks": 10, "min_blocks_per_sm": 1, "batch": 2},
            "rows of a batch are those of a warp",
        ),
        (ROWS, {"batch": 3}, "batch of 3"),
        (ROWS, {"idle": 256}, "256 idle threads of 256"),
        (ROWS, {"idle": 1}, "of which it covers 1020"),
        (ROWS, {"min_blocks_per_sm": 64}, "64 blocks of 256 threads a multiprocessor"),
        (MISALIGNED, {"peeled": False, "vector": 4}, "do not start at multiples of 4"),
        (ROWS, {"asynchronous": True}, "asynchronous copies of what does not wait in shared"),
        (SQUARES, {"online": True}, "where no sum is measured"),
        (TILED, {"tile": 24}, "tiles of 24 elements a line"),
        (TILED, {"vector": 4}, "lines of 70 elements in vectors of 4"),
        (TILED, {"steps": 128}, "bytes of shared memory for tiles"),
        (SUMS, {"min_blocks_per_sm": 9}, "9 blocks of a multiprocessor"),
        (SUMS, {"blocks": 1 << 20}, "not all are resident at once"),
        (
            SUMS,
            {"blocks": 0, "min_blocks_per_sm": 0, "prefetch_next_row": False},
            "need blocks that iterate over the rows",
        ),
    ),
)  # fmt: skip
def test_what_would_not_work_is_refused(tensors, changes, why):
    assert why in refusal(tensors, **changes)


@pytest.mark.parametrize(
    ("tensors", "mapping", "why"),
    (
        (ROWS, Flat(256, 4, 1), "a flat mapping of a rows part"),
        (ROWS, ColumnSums(256, 1, 4, 1, blocks=1, min_blocks_per_sm=1), "of a rows part"),
        (FLAT, Rows(256, 1, 4, 5), "a rows mapping of a flat or register tile or transposed part"),
        (FLAT, Transposed(256, 4, 1, tile=32), "nothing is read transposed"),
        (SUMS, Rows(256, 1, 4, 1), "a rows mapping of a column sums part"),
    ),
)
def test_a_mapping_is_of_its_program_s_kind(tensors, mapping, why):
    refused = legal(workload(*tensors).programs, Schedule((mapping,)), DEVICE)
    assert refused is not None and why in refused.reason


def test_clusters_need_a_device_that_has_them():
    changes = {"cluster": 2, "residence": "shared"}
    assert "clusters, which A100 does not have" in refusal(ROWS, device_of(A100), **changes)


def test_schemes_that_are_switched_off():
    assert "regional scheme is switched off" in refusal(ROWS, schemes=("local", "warp"))


def test_parts_must_fit_each_other():
    found = workload(*KINDS["side by side"]())
    first, second = chosen(found).parts
    assert (
        "1 mappings for a kernel of 2" in legal(found.programs, Schedule((first,)), DEVICE).reason
    )
    unequal = Schedule((first, replace(second, threads=first.threads * 2)))
    assert "different sizes" in legal(found.programs, unequal, DEVICE).reason


@pytest.fixture(scope="module")
def counting():
    if (missing := simt.available()) is not None:
        pytest.skip(missing)
    runner = SimtRunner(H200, jobs=2)
    yield runner
    runner.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_legal_schedules_are_right(kind, counting):
    """No hazard, and the outputs of the analytic choice, for any schedules of the space."""
    found = workload(*KINDS[kind]())
    space = Space(found.programs, found.groups, DEVICE)
    rng = random.Random(7)
    schedules = [space.sample(rng).schedule for _ in range(6)]
    outcomes = counting.measure(found, schedules, chosen(found))
    assert [outcome.error for outcome in outcomes] == [""] * 6


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), ((7, 1027), (1, 1000)))
def test_steps_at_once_are_right(rows, columns, counting):
    """Of rows in shared memory and of rows that are read again, aligned and not."""
    found = workload(*softmax_of(rows, columns))
    space = Space(found.programs, found.groups, DEVICE)
    unrolled = [p.schedule for p in space if p.schedule.parts[0].unroll]
    schedules = random.Random(5).sample(unrolled, 4)
    outcomes = counting.measure(found, schedules, chosen(found))
    assert [outcome.error for outcome in outcomes] == [""] * 4


def symbolic(rng: random.Random):
    """The tensors of something reduced along rows, sizes of which are known at run time."""
    columns = te.var("m", "int64") * rng.choice((1, 2, 8)) + rng.choice((0, 0, 0, 1, 3))
    rows = rng.choice((te.var("n", "int64"), rng.choice((1, 7, 40, 5000))))
    if rng.random() < 0.2:
        columns = rng.randrange(1, 70000)
    x = te.placeholder((rows, columns), rng.choice(("float32", "float16", "bfloat16")), "x")
    wide = topi.cast(x, "float32")
    total = topi.sum(wide, axis=1, keepdims=True)
    way = rng.randrange(4)
    if way == 0:
        return x, total
    if way == 1:
        return x, topi.multiply(wide, topi.rsqrt(total))
    exps = topi.exp(topi.subtract(wide, topi.max(wide, axis=1, keepdims=True)))
    normal = topi.divide(exps, topi.sum(exps, axis=1, keepdims=True))
    return (x, topi.cast(normal, x.dtype)) if way == 2 else (x, topi.sum(topi.log(normal), axis=1))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_chosen_for_symbolic_sizes_is_legal_and_the_same_again(seed):
    rng = random.Random(seed)
    function, bound = te.create_prim_func(list(symbolic(rng))), rng.choice((None, 33, 700, 40000))
    bounds = NO_BOUNDS if bound is None else Bounds((("m", bound),))
    device = device_of(rng.choice((H200, A100)))
    programs, again = read_programs(function), read_programs(function)
    assert not isinstance(programs, Refused), programs
    schedule = choose(programs, device, bounds)
    assert schedule == choose(again, device, bounds)
    if not isinstance(schedule, Refused):
        assert legal(programs, schedule, device, bounds) is None
