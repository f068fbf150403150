"""Tuning from end to end: what is searched, recorded, resumed and told."""

import io
import json
import random
import sys
from dataclasses import replace

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
    softmax_model,
    softmax_of,
    workload,
)
from tvm import relax, tirx

import tvm_stitch
from tvm_stitch import simt
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.cost_model.kernel_model import predicted_us
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.tuning import model as models
from tvm_stitch.tuning.apply import RecordWarning
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
from tvm_stitch.tuning.progress import Bar, State, describe
from tvm_stitch.tuning.records import best_first
from tvm_stitch.tuning.search import Settings, search
from tvm_stitch.tuning.spaces.space import Space
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.workloads import find_workloads, parse_shapes

needs_xgboost = pytest.mark.skipif(not models.has_xgboost(), reason="xgboost is not installed")


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch):
    """What the package ships knows an H200, and nothing of the costs that are made up here."""
    monkeypatch.setattr(models, "shipped_model", lambda _capability: None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.jsonl"


def tuned(path, runner=None, trials=24, module=None, **settings):
    runner = runner or MadeUpRunner()
    module = module or softmax_model()
    return tvm_stitch.tune(module, H200, path, trials=trials, runner=runner, **settings)


def undated(path):
    """All lines of a store, without their dates."""
    return [{**json.loads(line), "date": ""} for line in path.read_text().splitlines()]


# Records


def test_every_trial_is_recorded(path):
    result = tuned(path)
    (kernel,) = result.kernels
    records = Store(path).read().records
    searched = [record for record in records if not record.final]
    assert [record.trial for record in searched] == [*range(24)]
    assert len({record.schedule for record in searched}) == 24
    finals = [record for record in records if record.final]
    assert finals[0].trial == 0 and 1 < len(finals) <= 4
    assert kernel.trials == 24
    assert kernel.analytic == made_up_cost(searched[0].schedule)
    assert kernel.best == min(record.cost for record in finals) < kernel.analytic
    assert f"{kernel.gain:.3f}" in str(result)


def test_what_was_found_is_applied(path):
    tuned(path)
    (entry,) = tvm_stitch.explain(softmax_model(), H200, database=path).kernels
    best = min(Store(path).read().records, key=lambda record: record.cost or np.inf)
    assert (entry.origin, entry.mapping) == ("tuned", best.schedule.mapping)


def test_equal_kernels_are_searched_once(path):
    runner = MadeUpRunner()
    tuned(path, runner)
    count = len(runner.measured)
    tuned(path, runner)
    assert len(runner.measured) == count


def test_progress_is_told(path):
    states = []
    tuned(path, progress=states.append)
    assert [state.trials for state in states] == [8, 16, 24, 24, 24]
    assert [state.done for state in states] == [False] * 4 + [True]
    assert states[-1].best == min(state.best for state in states)


def test_a_line_of_progress_says_what_there_is_to_know():
    state = State(2, 3, "rows of 7", 32, 64, 40, "us", 12.0, 10.0, 9.0)
    assert describe(state, 95.0) == (
        "[2/3] #####..... 32/64 1:35 left best 10 us (1.200 x the chosen one's speed) "
        "90 % of the floor's speed rows of 7"
    )
    counted = replace(state, unit="accesses", floor=None, best=None)
    assert describe(counted, None) == "[2/3] #####..... 32/64 nothing measured rows of 7"
    failed = replace(counted, why="there is no GPU")
    assert describe(failed, None).endswith(" nothing measured (there is no GPU) rows of 7")


def test_a_model_of_which_nothing_is_stitched_says_so(path):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.sort(x))
        builder.emit_func_output(out)
    result = tvm_stitch.tune(builder.get(), H200, path, runner="simt")
    assert "nothing to measure: no kernel of this model is stitched" in str(result)


def test_a_terminal_sees_one_line_that_is_rewritten():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = Bar(stream)
    state = State(1, 1, "rows", 8, 16, 8, "us", 2.0, 1.0, None)
    bar(state)
    bar(replace(state, trials=16, done=True))
    first, second = stream.getvalue().split("\r")[1:]
    assert "8/16" in first and "left" in first and not first.endswith("\n")
    assert "16/16" in second and "left" not in second and second.endswith("\n")


def test_nothing_is_recorded_where_nothing_can_be_measured(path):
    class Broken(MadeUpRunner):
        def measure(self, workload, schedules, reference, careful=False, best=None):
            return [Outcome(None, "no driver") for _ in schedules]

    (kernel,) = tuned(path, Broken()).kernels
    assert (kernel.best, kernel.why) == (None, "no driver")
    assert Store(path).read().records == ()


class Sceptical(MadeUpRunner):
    """Whatever led by luck does not, looked at with more care; these many did."""

    def __init__(self, lucky, breaks_after=None):
        super().__init__(breaks_after)
        self.lucky = lucky

    def measure(self, workload, schedules, reference, careful=False, best=None):
        outcomes = super().measure(workload, schedules, reference, careful, best)
        if not careful:
            return outcomes
        first, *others = outcomes
        assert schedules[0] == reference
        shares = [
            1.02 if place < self.lucky else 0.9 + 0.01 * place for place in range(len(others))
        ]
        return [first, *(Outcome(first.cost * share) for share in shares)]


@pytest.mark.spread(2)
@pytest.mark.parametrize("lucky", (0, 1, 2, 3))
def test_a_winner_that_does_not_hold_gives_way_to_the_next(path, lucky):
    """Down to the analytic choice."""
    (kernel,) = tuned(path, Sceptical(lucky), trials=10).kernels
    records = Store(path).read().records
    finals = [record for record in records if record.final]
    assert len(finals) == 4
    wanted = [*finals[1:], finals[0]][lucky]
    assert best_first(list(records))[0] == wanted
    assert kernel.best == wanted.cost <= kernel.analytic
    (entry,) = tvm_stitch.explain(softmax_model(), H200, database=path).kernels
    assert entry.mapping == wanted.schedule.mapping


@pytest.mark.slow
def test_finals_are_replayed_as_well(path, tmp_path):
    whole = tmp_path / "whole.jsonl"
    tuned(whole, Sceptical(2), trials=10)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, Sceptical(2, breaks_after=12), trials=10)
    tuned(path, Sceptical(2), trials=10)
    assert undated(path) == undated(whole)
    again = Sceptical(0)
    tuned(path, again, trials=10)
    assert again.measured == []


# Going on


@pytest.mark.parametrize(
    "breaks_after",
    [pytest.param(n, marks=pytest.mark.slow if n != 3 else ()) for n in (0, 3, 20, 25)],
)
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(path, tmp_path, breaks_after):
    whole = tmp_path / "whole.jsonl"
    tuned(whole)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, MadeUpRunner(breaks_after))
    second = MadeUpRunner()
    tuned(path, second)
    assert undated(path) == undated(whole)
    assert len(second.measured) == len(undated(whole)) - breaks_after // 8 * 8


@pytest.mark.slow
def test_a_search_of_several_kernels_goes_on_as_well(path, tmp_path):
    module = softmax_model(tirx.Var("n", "int64"))
    shapes, whole = {"n": [4096, 512]}, tmp_path / "whole.jsonl"
    tuned(whole, module=module, shapes=shapes)
    with pytest.raises(KeyboardInterrupt):
        tuned(path, MadeUpRunner(40), module=module, shapes=shapes)
    tuned(path, module=module, shapes=shapes)
    assert undated(path) == undated(whole)


@pytest.mark.slow
def test_more_trials_go_on_from_fewer(path, tmp_path):
    whole = tmp_path / "whole.jsonl"
    tuned(whole, trials=32)
    tuned(path, trials=16)
    tuned(path, trials=32)
    searches = [[line for line in undated(each) if not line["final"]] for each in (path, whole)]
    assert searches[0] == searches[1]


@pytest.mark.slow
def test_another_seed_is_another_search(path, tmp_path):
    other = tmp_path / "other.jsonl"
    tuned(path)
    tuned(other, seed=1)
    lines = [[line["schedule"] for line in undated(each)] for each in (path, other)]
    assert lines[0][0] == lines[1][0]  # the analytic choice
    assert lines[0] != lines[1]


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


# Kernels in rounds


def over_rows_model(rows=8192, columns=256):
    """A softmax over the first axis: sums over the rows, and what needs them."""
    x = relax.Var("x", relax.TensorType((rows, columns), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.softmax(x, 0))
        builder.emit_func_output(out)
    return builder.get()


def test_kernels_in_rounds_are_tuned_and_applied(path, grid_barriers):
    class Runner(MadeUpRunner):
        """As predicted, but that the chosen one is slow."""

        def measure(self, workload, schedules, reference, careful=False, best=None):
            times = [predicted_us(workload.programs, s, workload.device) for s in schedules]
            slow = [1 + (schedule == reference) for schedule in schedules]
            return [Outcome(time * each) for time, each in zip(times, slow, strict=True)]

    module, other = over_rows_model(), over_rows_model(12000)
    (kernel,) = tuned(path, Runner(), module=module).kernels
    assert kernel.best < kernel.analytic
    (entry,) = tvm_stitch.explain(module, H200, database=path).kernels
    assert (entry.origin, entry.scheme) == ("tuned", "global")
    best = best_first(list(Store(path).read().records))[0].schedule
    assert entry.mapping == best.mapping and best.blocks == 132 * best.min_blocks_per_sm
    # The blocks of another shape, with the rows that it has.
    (entry,) = tvm_stitch.explain(other, H200, database=path).kernels
    assert entry.origin.startswith("tuned for ")
    assert f"{best.blocks} blocks in rounds" in entry.mapping


def test_a_record_of_more_blocks_than_there_is_room_for_is_not_applied(path, grid_barriers):
    tuned(path, module=over_rows_model(), trials=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["schedule"] |= {"min_blocks_per_sm": 64, "blocks": 64 * 132}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(RecordWarning, match="which has room for"):
        (entry,) = tvm_stitch.explain(over_rows_model(), H200, database=path).kernels
    assert entry.origin == "chosen"


# Shapes


@pytest.mark.slow
def test_symbolic_dimensions_are_tuned_for_given_sizes(path):
    module = softmax_model(tirx.Var("n", "int64"), tirx.Var("m", "int64"))
    result = tuned(path, trials=8, module=module, shapes={"n": [64, 4096], "m": [256]})
    assert [kernel.title.split(" float32")[0] for kernel in result.kernels] == [
        "64 x 256",
        "4096 x 256",
    ]


def test_kernels_are_named_by_their_operators():
    (workload,) = find_workloads(softmax_model(), H200).workloads
    assert workload.title.endswith(": max, subtract, exp, sum, divide")


def test_without_sizes_symbolic_kernels_are_left_out(path):
    result = tuned(path, module=softmax_model(tirx.Var("n", "int64")))
    assert result.kernels == () and len(result.symbolic) == 1
    assert "sizes are not known: n x 256" in str(result)


@pytest.mark.parametrize(
    ("text", "shapes"),
    (
        ("n=1,8,32;m=128,512", {"n": [1, 8, 32], "m": [128, 512]}),
        (" n = 4 ; ", {"n": [4]}),
    ),
)
def test_shapes_are_read(text, shapes):
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ("n", "n=", "n=a", "n=1;n=2", "n=1,,2", "=3"))
def test_shapes_that_cannot_be_read(text):
    with pytest.raises(InputError, match="is not of the form"):
        parse_shapes(text)


# Wrong use


@pytest.mark.parametrize(
    ("settings", "why"),
    (
        ({"trials": 0}, "trials must be at least 1"),
        ({"runner": "cloud"}, "runner 'cloud' is not one of local, rpc, simt"),
        ({"runner": "rpc"}, "needs a tracker"),
        ({"runner": "rpc", "tracker": "nowhere"}, "not of the form host:port"),
        ({"runner": "rpc", "tracker": "127.0.0.1:1"}, "no TVM RPC tracker at 127.0.0.1:1"),
        ({"runner": "simt", "jobs": 0}, "jobs must be at least 1"),
        ({"module": 3}, "takes a Relax IRModule, not int"),
        ({"shapes": {"n": [1]}}, "no symbolic dimension 'n'; it has none"),
        ({"shapes": {"n": [0]}, "module": softmax_model(tirx.Var("n", "int64"))}, "positive"),
    ),
)
def test_wrong_use(path, settings, why):
    with pytest.raises(InputError, match=why):
        tuned(path, **settings)


def test_a_local_search_needs_a_gpu(path, monkeypatch):
    import tvm

    if tvm.cuda(0).exist:
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r'no GPU here.*runner="simt"'):
        tuned(path, runner="local")


def test_a_batch_holds_something():
    with pytest.raises(InputError, match="batch must be at least 1"):
        Settings(batch=0)
