"""How tuning searches a space, and the models that rank what is not measured yet."""

import random
import sys

import numpy as np
import pytest
from check import H200
from tuning_runs import (
    DEVICE,
    MadeUpRunner,
    chosen,
    column_sums,
    made_up_cost,
    side_by_side,
    softmax_of,
    tuned,
    undated,
    workload,
)

from tvm_stitch import simt
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.tuning import model as models
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.measuring.measure import SimtRunner
from tvm_stitch.tuning.model import (
    AnalyticModel,
    XGBoostModel,
    examples_of,
    make_model,
    shipped_model,
    train,
)
from tvm_stitch.tuning.search import Settings, search
from tvm_stitch.tuning.spaces.space import Space
from tvm_stitch.tuning.store import Store

pytestmark = pytest.mark.usefixtures("nothing_shipped")
needs_xgboost = pytest.mark.skipif(not models.has_xgboost(), reason="xgboost is not installed")

# Searching


def run_search(of, model, trials=48, seed=0, cost=made_up_cost, floor=None, start=None):
    """All trials of a search by a formula."""

    def measure(schedules, _careful, _best):
        return [Outcome(cost(schedule)) for schedule in schedules]

    space = Space(of.programs, of.groups, DEVICE)
    settings = Settings(trials=trials, seed=seed, finalists=0)
    batches = search(of, space, start or chosen(of), model, measure, settings, floor)
    return [trial for batch in batches for trial in batch]


@needs_xgboost
@pytest.mark.slow
@pytest.mark.parametrize(
    "tensors, trials, within",
    # Sums over the rows have 4,000 schedules, the analytic one far from what is best here.
    [(softmax_of, 48, 1.03), (column_sums, 96, 1.08), (side_by_side, 48, 1.03)],
)
def test_the_model_finds_what_is_best(tensors, trials, within):
    of = workload(*tensors())
    best = min(made_up_cost(p.schedule) for p in Space(of.programs, of.groups, DEVICE))
    found = min(trial.outcome.cost for trial in run_search(of, XGBoostModel(), trials))
    assert found <= within * best


@needs_xgboost
@pytest.mark.slow
def test_the_model_needs_fewer_trials_than_chance():
    of = workload(*softmax_of(512, 2048))
    schedules = [p.schedule for p in Space(of.programs, of.groups, DEVICE)]
    best = min(map(made_up_cost, schedules))

    def trials_to_near(order):
        costs = list(map(made_up_cost, order))
        near = (n for n, cost in enumerate(costs, 1) if cost <= 1.03 * best)
        return next(near, len(costs) + 1)

    learnt = [
        trials_to_near([t.schedule for t in run_search(of, XGBoostModel(), 96, seed)])
        for seed in range(3)
    ]
    drawn = []
    for seed in range(20):
        random.Random(seed).shuffle(schedules)
        drawn.append(trials_to_near(schedules))
    assert np.median(learnt) <= np.median(drawn) / 3


@pytest.mark.slow
def test_large_spaces_are_searched_by_mutation(monkeypatch):
    monkeypatch.setattr("tvm_stitch.tuning.search.RANKED_WHOLE", 10)
    of = workload(*softmax_of(512, 2048))
    trials = run_search(of, AnalyticModel(), 80)
    # It may stop early, where several batches bring nothing better.
    assert len({trial.schedule for trial in trials}) == len(trials) >= 24
    assert min(t.outcome.cost for t in trials) < trials[0].outcome.cost


@pytest.mark.slow
def test_a_search_stops_at_the_floor():
    of = workload(*softmax_of())
    trials = run_search(of, AnalyticModel(), floor=made_up_cost(chosen(of)))
    assert len(trials) == 8


@pytest.mark.slow
def test_a_search_stops_where_nothing_improves():
    trials = run_search(workload(*softmax_of()), AnalyticModel(), 200, cost=lambda _: 5.0)
    assert len(trials) < 120


def test_a_small_space_is_searched_as_a_whole():
    of = workload(*softmax_of(3, 5))
    space = Space(of.programs, of.groups, DEVICE)
    trials = run_search(of, AnalyticModel(), 500, cost=lambda s: 1e3 - hash(s) % 997)
    assert len(trials) <= space.size + 1


@pytest.mark.slow
def test_a_real_search_leaves_a_bad_start_behind():
    if (missing := simt.available()) is not None:
        pytest.skip(missing)
    of = workload(*softmax_of(16, 512))
    bad = Schedule((Rows(512, 1, 1, 1),))
    space, runner = Space(of.programs, of.groups, DEVICE), SimtRunner(H200, jobs=2)
    try:
        batches = search(
            of, space, bad, make_model([], 90),
            lambda schedules, careful, best: runner.measure(of, schedules, bad, careful, best),
            Settings(trials=12, finalists=0),
        )  # fmt: skip
        trials = [trial for batch in batches for trial in batch]
    finally:
        runner.close()
    assert all(not trial.outcome.error for trial in trials)
    costs = [trial.outcome.cost for trial in trials]
    assert min(costs) < 0.8 * costs[0]


# Models


@pytest.mark.slow
def test_without_xgboost_the_analytic_model_ranks(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.warns(UserWarning, match=r"xgboost is not installed.*tvm-stitch\[tune\]"):
        (kernel,) = tuned(path).kernels
    assert kernel.trials == 24 and kernel.gain >= 1


def rank_agreement(model, of):
    """Of a model's scores with the made-up cost, over the whole space."""
    schedules = [point.schedule for point in Space(of.programs, of.groups, DEVICE)]
    scores = model.scores(of, schedules)
    costs = np.array([made_up_cost(schedule) for schedule in schedules])
    ranks = [np.argsort(np.argsort(values)) for values in (scores, -costs)]
    return np.corrcoef(*ranks)[0, 1]


@pytest.mark.slow
@needs_xgboost
def test_earlier_records_teach_the_next_search(path):
    for seed in range(3):
        tuned(path, trials=48, seed=seed)
    model = make_model(examples_of(Store(path).read().records), 90)
    of = workload(*softmax_of(2000, 512))
    assert rank_agreement(model, of) > max(0.4, rank_agreement(AnalyticModel(), of))


@pytest.mark.slow
@needs_xgboost
def test_a_shipped_model_ranks_before_anything_is_measured(path):
    tuned(path, trials=64)
    shipped = train(examples_of(Store(path).read().records)).dump()
    of = workload(*softmax_of(2000, 512))
    # One search's records: how near they bring the ranks to 1 differs from seed to seed.
    start = rank_agreement(XGBoostModel(shipped=shipped), of)
    assert start > max(0.4, rank_agreement(AnalyticModel(), of))
    # It is a start, which one's own measurements add to.
    model = XGBoostModel(shipped=shipped)
    schedules = [p.schedule for p in Space(of.programs, of.groups, DEVICE)][:40]
    model.learn(of, schedules, np.array([made_up_cost(schedule) for schedule in schedules]))
    assert rank_agreement(model, of) > max(0.5, start)


@pytest.mark.parametrize(
    ("capability", "name"), ((90, "90"), (100, "90"), (89, "80"), (75, "80"), (120, "120"))
)
def test_the_nearest_architecture_lends_its_model(tmp_path, monkeypatch, capability, name):
    (tmp_path / "models").mkdir()
    for each in ("80", "90", "120"):
        (tmp_path / "models" / f"sm_{each}.json").write_text(each)
    (tmp_path / "models" / "README.md").write_text("how they came about")
    monkeypatch.setattr(models.importlib.resources, "files", lambda _: tmp_path)
    assert shipped_model.__wrapped__(capability) == name.encode()


def test_without_shipped_models_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(models.importlib.resources, "files", lambda _: tmp_path)
    assert shipped_model.__wrapped__(90) is None


@pytest.mark.slow
@needs_xgboost
def test_what_the_package_ships_knows_times_alone(path, monkeypatch):
    class Counting(MadeUpRunner):
        unit = "accesses"

    asked = []
    monkeypatch.setattr(models, "shipped_model", asked.append)
    tuned(path, Counting(), trials=2)
    assert asked == []
    tuned(path, trials=2)
    assert asked == [90]


@needs_xgboost
@pytest.mark.slow
def test_records_of_other_gpus_teach_nothing(path, tmp_path):
    """A search beside records of another GPU is the same as one without."""
    alone = tmp_path / "alone.jsonl"
    tuned(path, MadeUpRunner(gpu="another"), seed=5)
    before = len(undated(path))
    tuned(path)
    tuned(alone)
    assert undated(path)[before:] == undated(alone)
