"""The bench of PyTorch's models, without a GPU and without transformers."""

import sys
import textwrap
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from bench.torch_models import cli, registry, table  # noqa: E402
from bench.torch_models.child import WAYS  # noqa: E402
from bench.torch_models.exact import Exact, errors, gradients_error  # noqa: E402
from bench.torch_models.row import AUTOCAST, DYNAMIC, INFERENCE, TRAINING, Results, Row, judged  # noqa: E402
from bench.torch_models.runner import Job, Run, Settings  # noqa: E402
from bench.torch_models.systems import DYNAMO, EAGER, EXECUTOR, STITCH, System  # noqa: E402
from bench.torch_models.training import STARTS, nudged  # noqa: E402

# In float32 a step of 1e-3 says more of an update than what rounding leaves of a weight.
LSTM = replace(registry.find("lstm"), rate=1e-3)


def tried(model, kind, dtype="float32"):
    messages = []
    way = WAYS[kind](model, dtype, EXECUTOR, True, messages.append)
    way.run([EAGER, STITCH], None, None)
    rows = [Row(**message["row"]) for message in messages if message["event"] == "row"]
    return {row.system: row for row in rows}


@pytest.mark.slow
def test_a_model_is_tried_and_compared_with_float64():
    rows = tried(registry.find("transformer-encoder"), INFERENCE)
    assert rows[STITCH].status == "ok", rows[STITCH].detail
    assert judged(rows[STITCH], rows[EAGER]) == "ok"
    assert rows[STITCH].stitched and not rows[STITCH].failures
    assert rows[STITCH].graphs == 1 and rows[STITCH].breaks == 0
    assert rows[STITCH].first_s > 0 and rows[STITCH].us is None


@pytest.mark.slow
def test_a_break_is_every_backends():
    """The optimizer's step has one."""
    messages = []
    way = WAYS[TRAINING](registry.find("lstm"), "float32", EXECUTOR, True, messages.append)
    way.run([DYNAMO], None, None)
    (row,) = (Row(**message["row"]) for message in messages if message["event"] == "row")
    assert (row.status, row.breaks) == ("ok", 1)


@pytest.mark.slow
def test_training_is_followed_loss_by_loss():
    rows = tried(LSTM, TRAINING)
    assert judged(rows[STITCH], rows[EAGER]) == "ok"
    for row in rows.values():
        assert row.gradients_error < 1e-6 and row.update_error < 1e-5
        assert row.state_error < 1e-6 and len(row.starts) == STARTS
    assert len(rows[STITCH].losses) == 20 and rows[STITCH].losses[-1] < rows[STITCH].losses[0]


@pytest.mark.slow
def test_training_by_autocast_has_parameters_in_float32():
    rows = tried(registry.find("graph-mean"), AUTOCAST, "bfloat16")
    assert judged(rows[STITCH], rows[EAGER]) == "ok" and rows[STITCH].stitched
    for row in rows.values():
        assert 1e-4 < row.gradients_error < 1e-1 and row.update_error < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "kind"),
    [
        ("bert", "float16", INFERENCE),
        ("qwen3-cache", "bfloat16", INFERENCE),
        ("convnext", "float16", INFERENCE),
        ("vit", "float32", DYNAMIC),
    ],
)
def test_models_of_transformers(name, dtype, kind):
    pytest.importorskip("transformers")
    torch._dynamo.reset()
    rows = tried(registry.find(name), kind, dtype)
    ours = rows[STITCH]
    assert judged(ours, rows[EAGER]) == "ok", ours
    assert ours.stitched and not ours.failures
    assert (ours.graphs, ours.breaks, ours.recompiled) == (1, 0, 0)


@pytest.mark.slow
def test_other_sizes_need_no_other_graph():
    rows = tried(registry.find("transformer-encoder"), DYNAMIC)
    assert judged(rows[STITCH], rows[EAGER]) == "ok"
    assert rows[STITCH].recompiled == 0


def test_what_asks_for_float32_gets_float64():
    with Exact():
        x = torch.ones(2, dtype=torch.float16)
        assert x.dtype is x.float().dtype is x.to(torch.bfloat16).dtype is torch.float64


def test_errors_see_what_is_missing_or_no_number():
    one = torch.ones(3, dtype=torch.float64)
    assert errors([one], [one.float()]) == (0.0, 0.0)
    for wrong in ([], [one[:2]], [one * float("nan")]):
        assert min(errors([one], wrong)) == gradients_error([one], wrong) == 1e300


@pytest.mark.parametrize("place", [0, 1])
def test_no_number_in_one_result_of_several_is_an_error(place):
    one = torch.ones(3, dtype=torch.float64)
    found = [one, one.clone()]
    found[place] = one * float("nan")
    assert min(errors([one, one], found)) == gradients_error([one, one], found) == 1e300


def test_gradients_that_cancel_to_nothing_are_not_compared():
    one = torch.ones(3, dtype=torch.float64)
    assert gradients_error([one, 1e-17 * one], [1.25 * one, one]) == 0.25


def test_a_verdict_allows_what_eager_has_and_half_more():
    eager = Row("m", "float16", INFERENCE, EAGER, "ok", rms_error=1e-3)
    ours = [Row("m", "float16", INFERENCE, STITCH, "ok", rms_error=e) for e in (1.4e-3, 1.6e-3)]
    assert [judged(row, eager) for row in ours] == ["ok", "wrong"]
    assert judged(Row("m", "float16", INFERENCE, STITCH), eager) == "failed"


@pytest.mark.parametrize("field", ["rms_error", "gradients_error", "update_error"])
@pytest.mark.parametrize(
    ("error", "verdict"), [(1.4e-3, "ok"), (1e300, "wrong"), (1.6e-3, "wrong")]
)
def test_training_is_judged_by_gradients_updates_and_losses(field, error, verdict):
    errors = dict.fromkeys(("error", "rms_error", "gradients_error", "update_error"), 1e-3)
    eager = Row("m", "bfloat16", TRAINING, EAGER, "ok", **errors)
    ours = Row("m", "bfloat16", TRAINING, STITCH, "ok", **{**errors, field: error})
    assert judged(ours, eager) == verdict
    said = table.document(Results(rows=[eager, ours]))
    assert ("gradients" in said and "update" in said) == (verdict == "wrong")


def test_losses_may_be_as_far_off_as_eagers_from_another_start():
    eager = Row("m", "bfloat16", TRAINING, EAGER, "ok", rms_error=1e-2, starts=[4e-3, 1e-2, 4e-2])
    ours = [Row("m", "bfloat16", TRAINING, STITCH, "ok", rms_error=e) for e in (3e-2, 5e-2)]
    assert [judged(row, eager) for row in ours] == ["ok", "wrong"]
    assert "3.00 of 1.0e-02 (4.0e-03 to 4.0e-02)" in table.document(Results(rows=[eager, ours[0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_another_start_differs_in_last_bits(dtype):
    given = torch.nn.Parameter(torch.tensor([1.0, -3.0, 0.0, 1e-3] * 50).to(dtype))
    (found,), (same,), (other,) = (nudged([given], seed) for seed in (1, 1, 2))
    assert torch.equal(found, same) and not torch.equal(found, other)
    assert not found[2::4].any() and 60 < (found != given).sum() < 140
    ulp = torch.finfo(dtype).eps * given.detach().double().abs()
    assert ((found.double() - given.double()).abs() <= ulp).all()


class Faulty(System):
    """Eager, but that AdamW loses a bit of its means from the second step on."""

    def compile(self, function):
        if getattr(function, "__name__", "") != "step":
            return function
        calls = []

        def step():
            calls.append(function())
            for state in function.__self__.state.values() if len(calls) > 1 else ():
                state["exp_avg"].mul_(0.99)

        return step


def test_a_fault_of_later_steps_alone_is_seen():
    way = WAYS[TRAINING](LSTM, "float32", EXECUTOR, True, lambda message: None)
    way.prepare()
    eager, faulty = (Row("lstm", "float32", TRAINING, name, "ok") for name in (EAGER, STITCH))
    way.one(System(EAGER, EXECUTOR), eager)
    way.one(Faulty(EAGER, EXECUTOR), faulty)
    assert faulty.gradients_error < 1e-6 and faulty.update_error < 1e-5
    assert faulty.state_error == pytest.approx(0.01, rel=0.1) and eager.state_error < 1e-6
    assert judged(faulty, eager) == "wrong"


CHILD = textwrap.dedent("""
    import json, sys, time
    command = json.loads(sys.stdin.readline())
    def say(**message):
        print(json.dumps(message), flush=True)
    for system in command["systems"]:
        say(event="phase", system=system, phase="calling")
        if command["model"] == "crashes" and system == "inductor":
            sys.exit("out of luck")
        if command["model"] == "hangs" and system == "stitch":
            time.sleep(60)
        row = dict(model=command["model"], dtype="float32", kind="inference", system=system)
        say(event="row", row=dict(row, status="ok", rms_error=1e-7, error=1e-7, first_s=2.0))
    say(event="done")
""")


def run(tmp_path, *names, **settings):
    results, lines = Results(), []
    path = tmp_path / "run.json"
    worker = (sys.executable, "-c", CHILD)
    run = Run(Settings(EXECUTOR, True, path, worker=worker, **settings), results, lines.append)
    run([Job(name, "float32", INFERENCE, ["eager", "inductor", "stitch"]) for name in names])
    return Results.load(path), lines


def test_a_crash_costs_one_system_of_one_model(tmp_path):
    results, lines = run(tmp_path, "fine", "crashes", second_process=True, jobs=2)
    found = {(row.model, row.system): row for row in results.rows}
    assert [row.status for row in results.rows].count("failed") == 1
    assert "out of luck" in found["crashes", "inductor"].detail
    assert found["crashes", "stitch"].status == "ok"
    assert found["fine", "stitch"].second_s == 2.0
    assert len(lines) == 2
    assert "2 ok, 0 wrong, 0 failed" in table.document(results)


def test_more_graph_breaks_than_pytorchs_own_are_said():
    ours, dynamo = (
        Row("m", "float32", INFERENCE, system, "ok", breaks=breaks)
        for system, breaks in ((STITCH, 2), (DYNAMO, 1))
    )
    text = table.document(Results(rows=[ours, dynamo]))
    assert "| 2 (1) |" in text and "2 graph breaks, torch.compile has 1" in text


def test_what_is_pytorchs_is_named():
    row = Row("m", "float16", INFERENCE, STITCH, "ok", left={"sort: it sorts": 2})
    assert "- m float16 inference: 2 sort: it sorts" in table.document(Results(rows=[row]))


@pytest.mark.slow
def test_a_hang_costs_its_time(tmp_path):
    results, _ = run(tmp_path, "hangs", time_limit_s=3.0)
    assert results.row(("hangs", "float32", INFERENCE), "stitch").detail == (
        "calling took more than 3 s"
    )
    assert results.row(("hangs", "float32", INFERENCE), "inductor").status == "ok"


@pytest.mark.slow
def test_the_end_of_the_time_is_no_failure(tmp_path):
    results, lines = run(tmp_path, "fine", "hangs", "crashes", seconds=4.0)
    assert {row.model for row in results.rows} == {"fine", "hangs"}
    assert results.row(("hangs", "float32", INFERENCE), "stitch") is None
    assert len(lines) == 1


def test_what_tells_most_comes_first(tmp_path):
    options = cli.parser().parse_args([])
    jobs = [(job.model, job.dtype, job.kind) for job in cli._jobs(options, Results())]
    names = [name for name, _, _ in jobs]
    if "bert" in names:
        assert jobs[0] == ("bert", "float16", INFERENCE)
        assert jobs.index(("bert", "bfloat16", TRAINING)) < jobs.index(
            ("bert", "float32", INFERENCE)
        )
    assert jobs[-1][2] == DYNAMIC
    assert {dtype for _, dtype, kind in jobs if kind == AUTOCAST} == {"float16", "bfloat16"}


def test_the_list_needs_no_package(capsys):
    assert cli.main(["--list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) >= 30
    assert any(line.startswith("bert: inference, training, dynamic") for line in said)


def test_unknown_names_are_said_to_be():
    with pytest.raises(SystemExit, match="known are"):
        cli.main(["--device", EXECUTOR, "--models", "nothing"])
