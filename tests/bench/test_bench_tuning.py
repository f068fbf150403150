"""The bench of tuning: what it keeps, packs and tells, on measurements that are made up."""

import shutil

import pytest
import tvm
from check import H200
from tuning_runs import MadeUpRunner, chosen, made_up_cost, softmax_of, workload

pytest.importorskip("torch")

from bench.tuning import curves, tables
from bench.tuning.__main__ import main
from bench.tuning.folder import CONFIRMED, EXHAUSTIVE, Folder, Kernel
from bench.tuning.run import selected, visible_gpus
from bench.tuning.work import Task, Work
from tvm_stitch.tuning import model as models
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.spaces.space import Space
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.tune import record_of

needs_xgboost = pytest.mark.skipif(not models.has_xgboost(), reason="xgboost is not installed")


def kernel_of(of, case):
    space = Space(of.programs, of.groups, of.device)
    function = tvm.ir.save_json(of.function)
    return Kernel(case, "rows", of.key, of.title, space.size, 1.0, function)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two kernels: one of them searched and confirmed, the other measured as a whole."""
    found = Folder(tmp_path_factory.mktemp("measured"))
    searched, whole = workload(*softmax_of(512, 2048)), workload(*softmax_of(64, 256))
    runner = MadeUpRunner()

    def records(of, costs, seed, final=False):
        trials = [Trial(*each, Outcome(cost), final) for each, cost in costs]
        return [record_of(runner, of, trial, seed) for trial in trials]

    best = Space(searched.programs, searched.groups, searched.device).nearest(chosen(searched))
    pair = [(0, chosen(searched)), (3, best.schedule)]
    found.add_kernels("first", [kernel_of(searched, "first")])
    found.searches("first").append(records(searched, zip(pair, (4.0, 2.0), strict=True), 0))
    twice = records(searched, zip(pair, (4.0, 3.2), strict=True), CONFIRMED, True)
    found.confirmed("first").append(twice)
    found.add_kernels("second", [kernel_of(whole, "second")])
    space = Space(whole.programs, whole.groups, whole.device)
    schedules = dict.fromkeys([chosen(whole), *(point.schedule for point in space)])
    costs = [(each, made_up_cost(each[1])) for each in enumerate(schedules)]
    found.exhausted("second").append(records(whole, costs, EXHAUSTIVE))
    return found


@pytest.fixture
def folder(measured, tmp_path):
    """A copy of what was measured, to be changed at will."""
    shutil.copytree(measured.path, tmp_path, dirs_exist_ok=True)
    return Folder(tmp_path)


@pytest.mark.slow
def test_the_winner_counts_as_it_was_confirmed(folder):
    (row,) = tables.rows(folder)
    assert (row.analytic, row.best, row.gain, row.trials) == (4.0, 3.2, 1.25, 2)
    assert "geometric mean gain 1.250; 0 slower" in tables.markdown([row], [])


@pytest.mark.slow
def test_packing_loses_nothing(folder, tmp_path):
    before = folder.records()
    *packed, best = folder.pack()
    assert [record.trial for record in Store(best).read().records] == [0, 3]
    other = Folder(tmp_path / "other")
    other.path.mkdir()
    for path in packed:
        (other.path / path.name).write_bytes(path.read_bytes())
    assert other.records() == before
    assert other.kernels() == folder.kernels()
    other.unpack()
    assert len(other.searches("first").read().records) == 2
    assert other.searches("second").read().records == ()
    other.unpack()  # adds nothing that is there
    assert len(other.searches("first").read().records) == 2
    other.pack()
    assert [(other.path / path.name).read_bytes() for path in packed] == [
        path.read_bytes() for path in packed
    ]


@pytest.mark.slow
@needs_xgboost
def test_searches_are_replayed_on_what_was_measured(folder):
    found = curves.replayed(folder, H200, seeds=2)
    assert {(curve.search, curve.seed) for curve in found} == {
        (name, seed) for name in curves.SEARCHES for seed in range(2)
    }
    optimum = min(record.cost for record in folder.records().exhausted)
    for curve in found:
        assert curve.whole.optimum == optimum
        assert list(curve.best) == sorted(curve.best, reverse=True)
    whole = found[0].whole
    assert 0 < whole.share < 1 <= whole.choice_off
    medians = [curves.median_trials(found, whole.kernel.key, name) for name in curves.SEARCHES]
    *learnt, drawn = medians
    assert max(learnt) <= drawn
    text = tables.markdown([], found)
    assert f"| {' | '.join(f'{median:g}' for median in medians)} | " in text
    few = sum(median <= drawn / 3 for median in learnt[:1])
    assert f"of 1 kernels: {few} tuning" in text


@pytest.mark.slow
@needs_xgboost
def test_a_model_is_trained_from_a_folder(folder, capsys):
    model = folder.path / "models" / "sm_90.json"
    assert main(["train", str(folder.path), str(model)]) == 0
    assert "measurements of 2 searches" in capsys.readouterr().out
    assert models.Trees.load(model.read_bytes()).booster.feature_names


def test_a_folder_without_records_trains_nothing(tmp_path, capsys):
    assert main(["train", str(tmp_path), str(tmp_path / "model.json")]) == 1
    assert "holds no records" in capsys.readouterr().err


@pytest.mark.slow
def test_tasks_share_a_space_and_go_on(tmp_path):
    """Each share measures its own schedules, once."""
    runner, lines = MadeUpRunner(), []
    work = Work(Folder(tmp_path), H200, runner, 8, float("inf"), True, lines.append)
    for share in (0, 1, 0):
        assert work.do(Task("bias-gelu", share, 2))
    records = Folder(tmp_path).records().exhausted
    (kernel,) = Folder(tmp_path).kernels()
    assert len({record.schedule for record in records}) == len(records) == len(runner.measured)
    assert kernel.space <= len(records) <= kernel.space + 1
    assert [record.trial for record in records if record.trial == 0] == [0]


@pytest.mark.slow
def test_a_winner_is_measured_once_more(tmp_path):
    runner, lines = MadeUpRunner(), []
    work = Work(Folder(tmp_path), H200, runner, 16, float("inf"), True, lines.append)
    assert work.do(Task("softmax-mask"))
    measured = len(runner.measured)
    first, second = Folder(tmp_path).records().confirmed
    assert first.trial == 0 < second.trial and second.cost < first.cost
    assert work.do(Task("softmax-mask"))
    assert len(runner.measured) == measured
    (row,) = tables.rows(Folder(tmp_path))
    assert (row.analytic, row.best) == (first.cost, second.cost)


def test_when_the_time_is_up_a_task_says_so(tmp_path):
    lines = []
    work = Work(Folder(tmp_path), H200, MadeUpRunner(), 8, 0.0, True, lines.append)
    assert not work.do(Task("bias-gelu"))
    assert lines == ["bias-gelu: the time is up"]


def test_cases_are_selected_by_patterns():
    assert selected(["softmax-ma*", "bias-gelu"], "subgraphs") == ["softmax-mask", "bias-gelu"]
    assert selected([], "subgraphs") == []
    assert len(selected(None, "subgraphs")) > 60


def test_processes_see_the_gpus_that_their_parent_may_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert visible_gpus() == ["2", "5"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr("bench.tuning.run.tvm.cuda", lambda n: type("Gpu", (), {"exist": n < 3}))
    assert visible_gpus() == ["0", "1", "2"]
