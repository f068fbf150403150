"""Calibration: the graphs, the schedules tried, a run that loses only what crashes, the fit, and
how close the model comes to the kernels measured on an H200."""

import json
import sys
import textwrap
from dataclasses import fields, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bench.calibration import __main__ as program  # noqa: E402
from bench.calibration import check, groups  # noqa: E402
from bench.calibration.fit import (  # noqa: E402
    fit,
    median_error,
    own,
    predictions,
    spearman,
    stitched,
)
from bench.calibration.measure import Measuring, Settings  # noqa: E402
from bench.calibration.samples import Sample, Samples  # noqa: E402
from bench.calibration.variants import variants  # noqa: E402
from bench.calibration.work import recounted, work_of  # noqa: E402
from tvm_stitch.device import preset  # noqa: E402
from tvm_stitch.target import cuda_target  # noqa: E402

H200 = preset("H200")
TARGET = cuda_target("sm_90")


def test_there_are_two_hundred_groups_of_different_names():
    assert len(set(groups.names())) == groups.COUNT == 200


@pytest.mark.parametrize("name", [f"{family.__name__}-1" for family, _ in groups.FAMILIES])
def test_a_group_is_always_the_same(name):
    first, second = groups.generate(name), groups.generate(name)
    assert first.script() == second.script()


def test_variants_differ_in_their_schedule_alone():
    found = [v for v in variants(groups.generate("norm-1"), TARGET, 3) if v.schedule is not None]
    assert len(found) == 4 and [v.chosen for v in found] == [True, False, False, False]
    assert len({v.schedule.to_json() for v in found}) == 4
    assert len({v.function for v in found}) == 1


def test_tvms_own_kernels_are_variants_too():
    found = [v for v in variants(groups.generate("softmax-1"), TARGET, 0) if v.schedule is None]
    assert found and all(v.stages and not v.chosen for v in found)


def sample(name="reduction-1", us=5.0):
    """The chosen kernel of a group as if it had been measured."""
    (chosen,) = (v for v in variants(groups.generate(name), TARGET, 0) if v.chosen)
    schedule = json.loads(chosen.schedule.to_json())
    return Sample(name, chosen.function, schedule, True, work_of(chosen), us, us, us)


def test_samples_go_through_a_file(tmp_path):
    before = Samples({"gpu": "Test"}, [sample()], [{"graph": "a", "kernel": "1", "reason": "b"}])
    before.save(tmp_path / "s.json")
    after = Samples.load(tmp_path / "s.json")
    assert (after.machine, after.failures) == (before.machine, before.failures)
    assert predictions(stitched(after.kernels), H200) == predictions(stitched([sample()]), H200)


def test_work_is_counted_again():
    measured = sample()
    (again,) = recounted(Samples({}, [replace(measured, work=None)], [])).kernels
    assert again.us == measured.us
    assert predictions(stitched([again]), H200) == predictions(stitched([measured]), H200)


# A run


STAND_IN = textwrap.dedent(
    """
    import json, os, sys, time
    def send(**message):
        print(json.dumps(message), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "begin":
            send(event="ready", machine={"gpu": "Test"})
            continue
        for kernel in range(3):
            if kernel in command["skip"]:
                continue
            send(event="phase", phase="running", kernel=kernel)
            if command["graph"] == "crash" and kernel == 1:
                os.kill(os.getpid(), 11)
            if command["graph"] == "fail" and kernel == 1:
                send(event="failure", kernel=1, reason="too many resources")
                continue
            if command["graph"] == "slow":
                time.sleep(60)
            send(event="sample", sample=dict(
                graph=command["graph"], function=str(kernel), schedule=None, chosen=False,
                work=None, us=1.0))
        send(event="done")
    """
)


def run(tmp_path, graphs, seconds=60.0):
    (tmp_path / "worker.py").write_text(STAND_IN)
    command = (sys.executable, str(tmp_path / "worker.py"))
    samples = Samples()
    settings = Settings(tmp_path / "out.json", 2, seconds, command=command)
    Measuring(settings, samples, lambda line: None)(graphs)
    stored = Samples.load(tmp_path / "out.json")
    assert len(stored.kernels) == len(samples.kernels)
    return samples


def test_a_run_measures_every_kernel(tmp_path):
    samples = run(tmp_path, ["a", "b", "c"])
    assert samples.machine == {"gpu": "Test"} and samples.failures == []
    assert {(k.graph, k.function) for k in samples.kernels} == {
        (g, f) for g in "abc" for f in "012"
    }


@pytest.mark.parametrize("how, why", [("crash", "SIGSEGV"), ("fail", "too many resources")])
def test_a_kernel_that_fails_costs_itself(tmp_path, how, why):
    samples = run(tmp_path, ["a", how])
    assert [k.function for k in samples.kernels if k.graph == how] == ["0", "2"]
    (failure,) = samples.failures
    assert (failure["graph"], failure["kernel"]) == (how, "1") and why in failure["reason"]
    assert len([k for k in samples.kernels if k.graph == "a"]) == 3


@pytest.mark.slow
def test_a_run_ends_when_its_time_is_over(tmp_path):
    samples = run(tmp_path, ["a", "slow"], seconds=3.0)
    assert {k.graph for k in samples.kernels} == {"a"}


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["calibration", "measure"])
    monkeypatch.setattr(program.environment, "missing_for_measuring", lambda: "no GPU: none found")
    assert program.main() == 2
    assert "no GPU" in capsys.readouterr().err


# The fit


def test_the_fit_finds_the_constants_behind_the_times():
    kernels = [
        kernel
        for name in ("reduction-1", "norm-1", "elementwise-8", "softmax-4", "elementwise-2")
        for kernel in stitched([sample(name)])
    ]
    true = replace(H200, timing=replace(H200.timing, launch_us=4.0))
    times = predictions(kernels, true)
    # Many samples, beside which the pull towards the start counts for little.
    kernels = 50 * [replace(k, us=float(us)) for k, us in zip(kernels, times, strict=True)]
    fitted = fit(kernels, H200, ["launch_us"])
    assert fitted.timing.launch_us == pytest.approx(4.0, rel=0.01)


def test_spearman_looks_at_ranks_alone():
    values = np.array([1.0, 5.0, 2.0, 9.0])
    assert spearman(values, values**3) == pytest.approx(1.0)
    assert spearman(values, -values) == pytest.approx(-1.0)
    assert median_error(1.1 * values, values) == pytest.approx(0.1)


# How good the constants are, on what was measured

MEASURED = program.HERE / "h200.json"


@pytest.fixture(scope="module")
def measured():
    return Samples.load(MEASURED).kernels


def test_the_measured_kernels_are_the_suite_and_two_hundred_groups(measured):
    graphs = {kernel.graph for kernel in measured}
    assert set(groups.names()) <= graphs
    assert len([graph for graph in graphs if graph.startswith("case:")]) >= 70
    assert all(kernel.us is not None for kernel in measured)


@pytest.mark.parametrize(
    "kind", ["all", "chosen", "other schedules", "generated", "cases of the bench"]
)
def test_predictions_are_close_to_measurements(measured, kind):
    found = check.by_kind(stitched(measured), H200)[kind]
    assert found.spearman >= 0.9 and found.median_error <= 0.15
    assert found.bias == pytest.approx(1.0, abs=0.1)


def test_predictions_of_tvms_own_kernels_are_close_too(measured):
    found = check.by_kind(own(measured), H200)["all"]
    assert found.spearman >= 0.9 and found.median_error <= 0.15


def test_choosing_by_the_model_loses_little(measured):
    """Of the schedules that were measured, the one it likes best is nearly always the best."""
    found = check.regret(stitched(measured), H200)
    assert len(found) > 200 and np.mean(found) < 0.05


@pytest.mark.slow
def test_the_constants_hold_for_kernels_that_they_were_not_fitted_to(measured):
    """Fitted to the generated groups from a start that is off, they predict the bench's cases."""
    kernels = stitched(measured)
    cases = [k for k in kernels if k.sample.graph.startswith("case:")]
    generated = [k for k in kernels if not k.sample.graph.startswith("case:")]
    names = [field.name for field in fields(H200.timing)]
    off = {
        name: getattr(H200.timing, name) * (1.4 if number % 2 else 1 / 1.4)
        for number, name in enumerate(names)
    }
    start = replace(H200, timing=replace(H200.timing, **off))
    found = check.by_kind(cases, fit(generated, start, names))["all"]
    assert found.spearman >= 0.9 and found.median_error <= 0.15


@pytest.mark.slow
def test_a_check_prints_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["calibration", "check", "--plot", str(tmp_path / "plot.png"), "--worst", "3"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert program.main() == 0
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "Spearman" in printed and "TVM's default kernels" in printed


def test_a_file_that_is_none_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "old.json").write_text('{"version": 0}')
    monkeypatch.setattr(
        sys, "argv", ["calibration", "check", "--samples", str(tmp_path / "old.json")]
    )
    assert program.main() == 2
    assert "version" in capsys.readouterr().err
