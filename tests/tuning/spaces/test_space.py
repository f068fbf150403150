"""The space of schedules: all of it legal, each once, and near points found by mutation."""

import math
import random
from dataclasses import fields, replace

import pytest
from check import H200, TOGETHER, primfuncs
from products import attention, lstm_cell
from tuning_runs import DEVICE, KINDS, chosen, running_sums, softmax_of, softmax_over_rows, workload
from tvm import te, topi

from tvm_stitch import simt
from tvm_stitch.kernel.build import kernel_of
from tvm_stitch.kernel.choose import NO_BOUNDS, problem_of
from tvm_stitch.kernel.ir.mapping import SCHEMES, WARP
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.legal import legal
from tvm_stitch.tuning.features import NAMES
from tvm_stitch.tuning.measuring.handler import Handler
from tvm_stitch.tuning.measuring.jobs import Task
from tvm_stitch.tuning.products import workload_with
from tvm_stitch.tuning.spaces.space import Space, fitted
from tvm_stitch.tuning.workload import workload_of

# What the other fields of a mapping say too: alignment, the length of a row, who has room.
FOLLOWING = {
    *("peeled", "idle", "steps", "blocks", "prefetch_next_row", "persistent_rows"),
    *("tile", "cluster", "chunked", "beside"),
}


def space_of(found, **settings) -> Space:
    return Space(found.programs, found.groups, DEVICE, NO_BOUNDS, **settings)


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_is_there_once_and_legal(kind):
    found = workload(*KINDS[kind]())
    space = space_of(found)
    schedules = [point.schedule for point in space]
    assert len(set(schedules)) == len(schedules) == space.size > 30
    rng = random.Random(1)
    for schedule in rng.sample(schedules, 30):
        assert legal(found.programs, schedule, DEVICE) is None
        assert found.features(schedule).keys() <= set(NAMES)


@pytest.mark.slow
@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_analytic_choice_is_one_of_them(kind):
    found = workload(*KINDS[kind]())
    space = space_of(found)
    assert chosen(found) in {point.schedule for point in space}
    assert space.nearest(chosen(found)).schedule == chosen(found)


def test_chunks_of_rows_that_are_scanned_are_searched():
    found = workload(*running_sums())
    space, own = space_of(found), chosen(found)
    assert own.parts[0].chunked and space.size > 1
    assert own in {point.schedule for point in space} and space.nearest(own).schedule == own


@pytest.mark.parametrize(
    "case", (lstm_cell("float32", 64, 16, 16), attention("float32", 2, 2, 32, 16))
)
def test_the_choice_for_products_is_one_of_them(case):
    (function,) = primfuncs(case.module, H200, TOGETHER, before="StitchSchedule").values()
    found = workload_of(function, DEVICE)
    assert chosen(found) in {point.schedule for point in space_of(found)}


def test_a_depth_that_threads_share_is_a_feature():
    case = lstm_cell("float32", 3, 128, 128)
    (function,) = primfuncs(case.module, H200, TOGETHER, before="StitchSchedule").values()
    found = workload_of(function, DEVICE)
    (mapping,) = chosen(found).parts
    said = found.features(chosen(found))
    assert mapping.depth_split > 1 and said["depth_split"] == math.log2(1 + mapping.depth_split)


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "side by side" and "rounds" not in k])
def test_whatever_is_proposed_and_legal_is_one_of_them(kind):
    """Choosing and searching know the same mappings: chosen is the first that is legal."""
    found = workload(*KINDS[kind]())
    (program,) = found.programs
    own, problem = kind_of(program), problem_of(program, DEVICE, schemes=SCHEMES)
    legal_ones = [m for m in own.candidates(problem) if own.refusal(problem, m) is None]
    assert own.choose(problem) == legal_ones[0]
    assert set(legal_ones) <= {point.schedule.parts[0] for point in space_of(found)}


@pytest.mark.slow
def test_the_table_spans_what_matters():
    mappings = [point.schedule.parts[0] for point in space_of(workload(*softmax_of(512, 4096)))]
    for name in ("threads", "rows", "vector", "steps", "cluster", "residence", "scheme"):
        assert len({getattr(mapping, name) for mapping in mappings}) > 1, name


@pytest.mark.parametrize("kind", ("rows", "elements", "sums over rows"))
def test_whatever_a_mapping_says_is_searched_or_follows(kind):
    """A field that is new to a mapping must find its place: in a table, or among what follows."""
    (program,) = workload(*KINDS[kind]()).programs
    search = kind_of(program).search
    known = {*search.axes(program), *search.extras, *search.flags, *FOLLOWING}
    if kind == "sums over rows":
        known.add("residence")  # rows of any length wait nowhere, and are not searched
    if kind == "elements":
        known.add("lines")  # searched where lines share reads: test_register_tile
    for mapping in kind_of(program).mappings:
        assert {field.name for field in fields(mapping)} <= known


@pytest.mark.slow
def test_schedules_are_found_again_by_their_values():
    for kind in ("rows", "elements", "sums over rows"):
        found = workload(*KINDS[kind]())
        (program,) = found.programs
        problem = problem_of(program, DEVICE)
        for point in random.Random(2).sample(list(space_of(found)), 40):
            (mapping,) = point.schedule.parts
            assert fitted(kind_of(program).search.values_of(program, mapping), problem) == mapping


@pytest.mark.slow
def test_steps_at_once_are_those_of_a_row_outside_of_registers():
    mappings = [p.schedule.parts[0] for p in space_of(workload(*softmax_of(512, 4096)))]
    assert {m.residence for m in mappings if m.unroll} == {"shared", "nowhere"}
    assert {m.unroll for m in mappings} == {0, 2, 8}


@pytest.mark.slow
def test_samples_follow_the_seed():
    space = space_of(workload(*softmax_of()))
    draws = [[space.sample(random.Random(seed)).schedule for _ in range(3)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.spread(2)
@pytest.mark.parametrize("kind", KINDS)
def test_mutations_are_near(kind):
    found = workload(*KINDS[kind]())
    space, rng = space_of(found), random.Random(3)
    schedules = {point.schedule for point in space}
    point, distances = space.sample(rng), []
    for _ in range(40):
        mutated = space.mutate(point, rng)
        assert mutated.schedule in schedules
        pairs = zip(point.choices, mutated.choices, strict=True)
        distances.append(
            sum(a != b for old, new in pairs for a, b in zip(old.values, new.values, strict=True))
        )
        point = mutated
    assert sorted(distances)[20] <= 2


@pytest.mark.slow
def test_schemes_that_are_switched_off_are_left_out():
    found = workload(*softmax_of(64, 1024))
    schemes = {p.schedule.scheme for p in space_of(found, schemes=("local", "warp", "regional"))}
    assert schemes <= {"local", "warp", "regional"}
    assert "cluster" in {point.schedule.scheme for point in space_of(found)}


def test_parts_of_one_kind_share_their_choice():
    found = workload(*KINDS["side by side"]())
    assert found.groups == ((0, 1),)
    for point in space_of(found):
        first, second = point.schedule.parts
        assert (first.threads, first.vector, first.steps) == (
            second.threads,
            second.vector,
            second.steps,
        )


def test_parts_in_rounds_share_blocks_that_are_all_resident():
    found = workload(*KINDS["rounds"]())
    space = space_of(found)
    assert {point.schedule.min_blocks_per_sm for point in space} >= {1, 2, 4}
    for point in space:
        schedule = point.schedule
        assert schedule.blocks == schedule.min_blocks_per_sm * DEVICE.multiprocessors
        assert {part.block_threads for part in schedule.parts} == {schedule.block_threads}
    segments = {point.schedule.parts[0] for point in space}
    for name in ("threads", "rows", "batch"):
        assert len({getattr(segment, name) for segment in segments}) > 2, name


def test_rows_that_are_reduced_in_rounds_stay_whole():
    """Pieces of a softmax, each by its own maximum and sum, look right behind its column sums."""
    found = workload(*KINDS["rounds of rows that are reduced"]())
    first = found.programs[0]
    assert first.row_reductions and len(found.programs) == 3
    parts = {point.schedule.parts[0] for point in space_of(found)}
    assert all(part.reach >= 512 for part in parts)
    assert len({part.block_threads for part in parts}) > 2 < len({p.steps for p in parts})
    schedule = chosen(found)
    own = replace(schedule.parts[0], threads=schedule.parts[0].threads // 2)
    refused = legal(found.programs, replace(schedule, parts=(own, *schedule.parts[1:])), DEVICE)
    assert refused is not None and "cannot be split over blocks" in refused.reason


@pytest.mark.skipif(simt.available() is not None, reason="no C++ compiler")
def test_kernels_in_rounds_compute_the_same_by_any_schedule(grid_barriers):
    small = replace(DEVICE, multiprocessors=2)
    found = workload(*softmax_over_rows(517, 33), device=small)
    space = [point.schedule for point in Space(found.programs, found.groups, small)]
    few = [each for each in space if (each.block_threads, each.min_blocks_per_sm) == (128, 2)]
    by_persistence = {any(part.persistent_rows for part in each.parts): each for each in few}
    first, other = by_persistence[False], by_persistence[True]
    handler = Handler()
    handler.answer(Task(found, H200, first).message)
    answer = handler.answer({"do": "count", "schedule": other.to_json()})
    assert answer.get("cost", 0) > 0, answer


def test_panels_that_are_chosen_before_rounds_are_tuned_as_panels():
    y, dy = (te.placeholder((4096, 4096), "float32", name) for name in ("y", "dy"))
    product = topi.multiply(y, dy)
    total = topi.sum(product, axis=0, keepdims=True)
    gradient = topi.subtract(product, topi.multiply(y, total))
    function = te.create_prim_func([y, dy, gradient])
    layout = kernel_of(function, DEVICE).layout
    assert layout.scheme == "cluster" and len(workload_of(function, DEVICE).programs) == 3
    found = workload_with(layout, function, DEVICE)
    assert found.refusal(layout) is None and len(found.programs) == 1


@pytest.mark.slow
def test_other_devices_have_other_spaces():
    from check import A100

    from tvm_stitch.device import device_of

    found = workload(*softmax_of(64, 1024))
    on = {
        name: {p.schedule for p in Space(found.programs, found.groups, device_of(target))}
        for name, target in (("H200", H200), ("A100", A100))
    }
    assert {s.scheme for s in on["H200"]} - {s.scheme for s in on["A100"]} == {"cluster"}


def test_what_holds_of_rows_in_registers_is_not_asked_of_products():
    """Only rows that are shuffled in a warp come in batches; a product's wait in shared memory."""
    (function,) = primfuncs(
        lstm_cell("float32", 64, 16, 16).module, H200, TOGETHER, before="StitchSchedule"
    ).values()
    found = workload_of(function, DEVICE)
    mappings = [point.schedule.parts[0] for point in space_of(found)]
    wide = [mapping for mapping in mappings if mapping.threads > WARP]
    assert any(m.batch > 1 for m in wide) and any(m.prefetch_weights for m in wide)
