"""A run without a GPU, with a stand-in worker.

The stand-in worker speaks the worker's protocol and, by the case's name, crashes, hangs or loses
its context, as real ones do.
"""

import json
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from bench import session  # noqa: E402
from bench.case import Array, Case, Workload  # noqa: E402
from bench.cli import parser  # noqa: E402
from bench.results import Results, Row  # noqa: E402
from bench.runner import Job, Run, Settings  # noqa: E402
from bench.systems import pytorch  # noqa: E402

# ---- the runner ------------------------------------------------------------------------------

STAND_IN = textwrap.dedent(
    """
    import json, os, sys, time
    from pathlib import Path
    here = Path(sys.argv[0]).parent
    def first_time(what):  # whether nobody has asked before, in another process either
        try:
            (here / what).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
    def send(**message):
        print(json.dumps(message), flush=True)
    def row(system, status="ok", **more):
        send(event="row", row=dict(case=command["case"], system=system, status=status, **more))
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "begin":
            if (here / "slow-start").exists() and first_time("started"):
                time.sleep(60)
            missing = {"absent": "not installed"} if "absent" in command["systems"] else {}
            send(event="ready", machine=dict(gpu="Test GPU", copy_gbs=1000.0), missing=missing)
            continue
        name, systems = command["case"], command["systems"]
        if name == "busy":
            send(event="waiting")
            time.sleep(4)
            send(event="held")
        for system in systems:
            send(event="phase", system=system, phase="compiling")
            if name == "crash" and system == "bad":
                print("illegal memory access", file=sys.stderr, flush=True)
                os.kill(os.getpid(), 9)
            if name == "hang" and system == "bad":
                time.sleep(60)
            if name == "slow-beside-others" and system == "bad" and first_time("tried"):
                time.sleep(60)
            if name == "poison" and system == "bad":
                send(event="lost", detail="CUDA error 700")
                sys.exit(3)
        send(event="phase", system=",".join(systems), phase="measuring")
        if name == "crash-in-turns" and "bad" in systems:
            os.kill(os.getpid(), 11)
        send(event="case", name=name, info=dict(
            title=name, group="test", suite="", bytes=1000, flops=1.0, copy_us=2.0))
        for system in systems:
            row(system, us=3.0, kernels=1)
        send(event="done", retire=name == "retire")
        if name == "retire":
            sys.exit(0)
    """
)


def double(rows):
    return Workload(lambda x: x * 2, lambda x: x * 2, (Array((rows, 4)),))


def named(name):
    return Case(name, name, "test", double, {"rows": 8}, {"rows": 2})


def run_all(tmp_path, names, systems=("bad", "good"), jobs=1, time_limit=20.0, start_limit=60.0):
    worker = tmp_path / "worker.py"
    worker.write_text(STAND_IN)
    settings = Settings(
        systems=systems,
        output=tmp_path / "out.json",
        jobs=jobs,
        time_limit_s=time_limit,
        start_limit_s=start_limit,
        worker=(sys.executable, str(worker)),
    )
    results = Results()
    run = Run(settings, results, lambda text: None)
    ended = []
    todo = [Job(named(name), list(systems)) for name in names]
    run(todo, lambda case: ended.append(case.name), lambda: None)
    assert sorted(ended) == sorted(names)
    assert Results.load(tmp_path / "out.json") == results
    return results


def test_rows_arrive_and_are_stored(tmp_path):
    results = run_all(tmp_path, ["a", "b"], ("good", "absent"))
    assert results.machine["gpu"] == "Test GPU"
    assert results.missing == {"absent": "not installed"}
    assert {(r.case, r.system) for r in results.rows} == {("a", "good"), ("b", "good")}
    assert results.cases["a"].suite == "subgraphs"


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("crash", "SIGKILL; last output: illegal memory access"),
        ("poison", "CUDA error 700"),
        ("crash-in-turns", "SIGSEGV"),
    ],
)
def test_a_worker_that_dies_costs_one_row(tmp_path, case, why):
    results = run_all(tmp_path, [case, "after"])
    bad = results.row(case, "bad")
    assert bad.status == "failed"
    assert why in bad.detail
    assert results.us(case, "good") == 3.0
    assert results.us("after", "bad") == 3.0


@pytest.mark.slow
def test_a_hanging_system_is_cut_off(tmp_path):
    results = run_all(tmp_path, ["hang", "after"], time_limit=2.0)
    assert "compiling took more than 2 s" in results.row("hang", "bad").detail
    assert results.us("hang", "good") == 3.0
    assert results.us("after", "good") == 3.0


def test_a_worker_that_retires_is_replaced(tmp_path):
    results = run_all(tmp_path, ["retire", "after"])
    assert all(row.status == "ok" for row in results.rows)


def test_several_workers_share_the_cases(tmp_path):
    results = run_all(tmp_path, ["a", "crash", "b", "c"], jobs=2)
    assert results.us("c", "bad") == 3.0
    assert results.row("crash", "bad").status == "failed"


@pytest.mark.slow
def test_waiting_for_the_gpu_costs_no_row(tmp_path):
    assert run_all(tmp_path, ["busy"], time_limit=2.0).us("busy", "bad") == 3.0


@pytest.mark.slow
def test_what_took_too_long_beside_others_is_tried_alone(tmp_path):
    results = run_all(tmp_path, ["slow-beside-others", "a", "b"], jobs=2, time_limit=3.0)
    assert all(row.status == "ok" for row in results.rows)
    assert len(results.rows) == 6


@pytest.mark.slow
def test_what_takes_too_long_alone_as_well_is_cut_off(tmp_path):
    results = run_all(tmp_path, ["hang", "after"], jobs=2, time_limit=2.0)
    assert "compiling took more than 2 s" in results.row("hang", "bad").detail
    assert results.us("hang", "good") == 3.0


@pytest.mark.slow
def test_a_worker_that_starts_slowly_costs_no_row(tmp_path):
    (tmp_path / "slow-start").touch()
    results = run_all(tmp_path, ["a", "b"], start_limit=5.0)
    assert [row.status for row in results.rows] == ["ok"] * 4


def test_a_worker_that_cannot_start_ends_the_run_with_its_reason(tmp_path):
    worker = (sys.executable, "-c", "raise SystemExit('no driver')")
    settings = Settings(("good",), tmp_path / "out.json", worker=worker)
    run = Run(settings, Results(), lambda text: None)
    run([Job(named("a"), ["good"])], lambda case: None, lambda: None)
    assert "no driver" in run.failure


def test_settings_for_reductions_are_pytorchs():
    [system] = (s for s in pytorch.systems() if s.name == "inductor-reductions")
    options = system._options()
    assert "combo_kernels" in options  # the others came later
    assert options.items() <= dict.fromkeys(pytorch.REDUCTIONS, True).items()
    compiled = torch.compile(lambda x: x.relu(), backend="inductor", options=options)
    assert compiled is not None  # a setting that PyTorch does not know is an error here


def test_listing_without_pytorch_says_what_is_missing():
    script = "import sys; sys.modules['torch'] = None; from bench.cli import main; "
    done = subprocess.run(
        [sys.executable, "-c", script + "sys.exit(main(['--list']))"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("bench: torch is not installed: pip install")
    assert "Traceback" not in done.stderr


# ---- resuming --------------------------------------------------------------------------------


def test_resume_leaves_out_what_has_a_row(tmp_path):
    done = Results(machine={"copy_gbs": 1.0})
    done.add(Row("a", "good", "ok", us=1.0))
    done.add(Row("b", "good", "failed", "why"))
    done.save(tmp_path / "out.json")
    results = session.begin(tmp_path / "out.json", resume=True, arguments=["--resume"])
    todo = session.left_to_do([named("a"), named("b"), named("c")], ["good", "bad"], results)
    assert [(j.case.name, j.systems) for j in todo] == [
        ("a", ["bad"]), ("b", ["bad"]), ("c", ["good", "bad"]),
    ]  # fmt: skip
    assert "copy_gbs" not in results.machine
    fresh = session.begin(tmp_path / "out.json", resume=False, arguments=[])
    assert fresh.rows == []


def test_an_interrupted_run_keeps_its_rows_and_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    output = tmp_path / "out.json"

    def interrupted(self, todo, on_case, on_start):
        self._add(Row("a", "good", "ok", us=1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "__call__", interrupted)
    options = parser().parse_args(["--output", str(output)])
    code = session.measure([named("a"), named("b")], ["good"], Results(), options, jobs=1)
    assert code == 130
    assert "--resume" in capsys.readouterr().out
    assert Results.load(output).us("a", "good") == 1.0


@pytest.mark.slow
def test_the_worker_starts_and_says_why_it_cannot_measure_here():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    begin = {"do": "begin", "lock": None, "records": None, "trials": 1, "calibrate": True,
             "systems": [], "together": False}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker"], input=json.dumps(begin) + "\n",
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout == ""
