"""Tiles of products on tensor cores are searched, recorded and applied as schedules are."""

import json
import random
from dataclasses import replace

import pytest
from check import H200
from tensor_products import linear
from tvm import tirx

import tvm_stitch
from tvm_stitch import InputError, simt
from tvm_stitch.build import stitch_passes
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import full_target
from tvm_stitch.tuning.apply import RecordWarning, origin_of
from tvm_stitch.tuning.measuring.handler import Handler
from tvm_stitch.tuning.measuring.jobs import Task
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.products import ProductWorkload
from tvm_stitch.tuning.records import best_first, read_record
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.tune import record_of
from tvm_stitch.tuning.workloads import find_workloads

GPU = full_target(H200)
SMALL, LARGE = (40, 128, 72), (512, 256, 512)
BETTER = Tiles(64, 64, 32, 32, 32, 4, group=1)


class Runner:
    """Measures by a formula: little is left to gain beyond the tiles that are better."""

    unit, how = "us", "made up"

    def gpu_name(self, workload):
        return workload.device.name

    def measure(self, workload, schedules, reference, careful=False, best=None):
        def cost(tiles):
            return 10 + abs(tiles.rows - 64) + abs(tiles.columns - 64) + tiles.depth / 64

        return [Outcome(cost(tiles)) for tiles in schedules]

    def close(self):
        """Nothing to end."""


def workload_of(*shape, target=GPU, dtype="float16") -> ProductWorkload:
    (found,) = find_workloads(linear(dtype, *shape).module, target).workloads
    assert isinstance(found, ProductWorkload)
    return found


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records.jsonl")


def kernel(store, *shape):
    module = linear("float16", *shape).module
    with GPU:
        for each in stitch_passes(GPU, database=store.path, default_schedules=False):
            module = each(module)
    (found,) = (f for f in module.functions.values() if isinstance(f, tirx.PrimFunc))
    return found


def tiles_of(function) -> Tiles:
    return Tiles.from_json(str(function.attrs[TILES_ATTRIBUTE]))


def test_a_product_is_named_by_what_it_computes():
    first, again, deeper = workload_of(*LARGE), workload_of(*LARGE), workload_of(512, 128, 512)
    assert first.key == again.key and first.key != deeper.key
    assert first.family == deeper.family != workload_of(*LARGE, dtype="bfloat16").family
    assert first.sizes == (512, 512, 256, 1) and "512 x 256 x 512 float16" in first.title


@pytest.mark.slow
@pytest.mark.parametrize("target", [GPU, H200], ids=["warpgroups", "without"])
def test_the_space_holds_legal_tiles_and_what_is_chosen(target):
    found = workload_of(*LARGE, target=target)
    tiles = [point.schedule for point in found.space()]
    assert found.choose() in tiles and len(set(tiles)) == len(tiles) == found.space().size
    assert {each.warpgroups for each in tiles} == {False, target is GPU}
    assert all(found.refusal(each) is None for each in tiles[::97])
    rng = random.Random(0)
    point = found.space().nearest(found.choose())
    assert point.schedule == found.choose() != found.space().mutate(point, rng).schedule


def test_what_no_tiles_may_be():
    found = workload_of(*LARGE)
    assert isinstance(found.choose([s for s in SCHEMES if s != "regional"]), Refused)
    crowded = replace(BETTER, min_blocks_per_sm=32)
    assert "32 blocks of 128 threads" in found.refusal(crowded).reason
    grouped = Tiles(64, 288, 64, 16, 288, 3, warpgroups=True)
    assert "group of four warps" in found.refusal(grouped).reason


@pytest.mark.slow
def test_depths_that_clusters_share_are_searched_where_tiles_are_few():
    found, apart = workload_of(64, 768, 128), [s for s in SCHEMES if s != "cluster"]
    divided = [point.schedule for point in found.space()]
    assert {tiles.splits for tiles in divided} == {1, 2, 4, 8}
    assert all(found.refusal(tiles) is None for tiles in divided[::97])
    assert {point.schedule.splits for point in found.space(apart)} == {1}
    tiles = replace(BETTER, splits=4)
    assert found.refusal(tiles) is None
    assert found.refusal(tiles, apart).reason == "the cluster scheme is switched off"
    assert found.features(tiles)["cluster"] > 0 and "cluster" not in found.features(BETTER)
    many = workload_of(4096, 768, 4096).space()
    assert all(point.schedule.splits == 1 for point in many)


def test_features_of_tiles_are_numbers():
    found = workload_of(*LARGE)
    values = found.features(BETTER)
    assert values["smem_stages"] > 0 and values["predicted_us"] == values["predicted_us"]


@pytest.mark.skipif(simt.available() is not None, reason="no C++ compiler")
def test_tiles_of_the_space_compute_what_the_chosen_ones_do():
    found = workload_of(*SMALL)
    worker = Handler()
    assert not worker.answer(Task(found, GPU, found.choose()).message)
    legal, rng = [point.schedule for point in found.space()], random.Random(1)
    for grouped in (False, True):
        tiles = rng.choice([tiles for tiles in legal if tiles.warpgroups == grouped])
        answer = worker.answer({"do": "count", "schedule": tiles.to_json()})
        assert answer.get("cost", 0) > 0, (tiles, answer)


@pytest.mark.slow
def test_what_tuning_finds_is_compiled(store):
    tuning = tvm_stitch.tune(
        linear("float16", *LARGE).module, H200, store.path, trials=48, runner=Runner()
    )
    (tuned,) = tuning.kernels
    assert tuned.trials > 8 and tuned.gain > 1.2
    best = best_first(store.read().records)[0]
    assert tiles_of(kernel(store, *LARGE)) == best.schedule and best.cost == tuned.best
    report = tvm_stitch.explain(linear("float16", *LARGE).module, GPU, database=store.path)
    assert [each.origin for each in report.kernels] == ["tuned"]


def test_a_record_goes_to_json_and_back(store):
    found = workload_of(*LARGE)
    record = record_of(Runner(), found, Trial(1, BETTER, Outcome(1.0)), 0)
    assert read_record(record.to_line().encode()) == record
    broken = json.loads(record.to_line())
    broken["schedule"]["depth"] = "deep"
    with pytest.raises(InputError, match="tiles field depth"):
        read_record(json.dumps(broken).encode())


def test_records_are_fitted_to_products_of_another_depth(store):
    tall = workload_of(512, 512, 512)
    store.append(
        [
            record_of(Runner(), tall, Trial(0, tall.choose(), Outcome(2.0)), 0),
            record_of(Runner(), tall, Trial(1, workload_of(*LARGE).choose(), Outcome(1.0)), 0),
        ]
    )
    assert origin_of(kernel(store, *LARGE)) == "tuned for 512 x 512"


def test_tiles_that_are_not_legal_are_passed_over(store):
    found = workload_of(*LARGE)
    wrong = replace(BETTER, stages=1)
    store.append([record_of(Runner(), found, Trial(1, wrong, Outcome(1.0)), 0)])
    with pytest.warns(RecordWarning, match="1 stages"):
        function = kernel(store, *LARGE)
    assert tiles_of(function) == found.choose() and origin_of(function) == "chosen"


def test_schedules_of_programs_are_none_of_a_product():
    found = workload_of(*LARGE)
    schedule = tvm_stitch.kernel.ir.schedule.Schedule(())
    assert "a schedule of programs" in found.refusal(schedule).reason
    assert found.refitted(schedule) is None
