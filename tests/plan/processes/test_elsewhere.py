"""Regions that other processes plan: the plans are the same, whatever becomes of a process."""

import os
import signal
from dataclasses import replace
from importlib import import_module

import forked
import numpy as np
import pytest
import tvm_ffi
from check import H200
from tvm import relax
from tvm.relax import op
from zoo import graph

from bench.planning.families import FAMILIES
from tvm_stitch import Options, build, explain
from tvm_stitch.build import pipeline
from tvm_stitch.plan import planner
from tvm_stitch.plan.processes import elsewhere, job
from tvm_stitch.plan.processes.job import Found
from tvm_stitch.processes import forks as forks_room
from tvm_stitch.processes import modules, pickled
from tvm_stitch.processes.forks import Forks

MODULE = FAMILIES["different layers"](120)


@pytest.fixture(scope="module")
def forks():
    with forked.two_jobs() as patched:
        patched.setattr(elsewhere, "LEAST_SAVED", 1)
        patched.setattr(forks_room, "LEAST_OPERATORS", 1)
        found = Forks()
        for room in (elsewhere, build):
            patched.setattr(room, "FORKS", found)
        yield found
        found.end()


@pytest.fixture
def counted(forks, monkeypatch):
    """How many regions were asked for elsewhere, and how many were planned here."""
    forks.begin()
    forked.wait_for(forks)
    counts = {"asked": 0, "here": 0}
    ask, here = Forks.ask, planner.holding_plan

    def asking(self, *given, **named):
        counts["asked"] += 1
        return ask(self, *given, **named)

    def planning(*given):
        counts["here"] += 1
        return here(*given)

    monkeypatch.setattr(Forks, "ask", asking)
    monkeypatch.setattr(planner, "holding_plan", planning)
    return counts


def lowered(module=MODULE):
    return pipeline(H200, Options(cache="off"))(module)


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(pickled.JOBS, "1")
        return lowered()


def assert_is(found, wanted):
    assert tvm_ffi.structural_equal(found, wanted)


def test_what_others_plan_is_what_would_be_planned_here(counted, expected):
    for _ in range(2):
        assert_is(lowered(), expected)
    assert counted["asked"] >= 20 and counted["here"] == 0


def test_nobody_waits_for_those_that_are_not_ready(counted, expected, monkeypatch):
    monkeypatch.setattr(Forks, "is_ready", property(lambda self: False))
    assert_is(lowered(), expected)
    assert counted["asked"] == 0 < counted["here"]


def test_what_is_left_is_asked_for_when_they_are(counted, expected, monkeypatch):
    answers = iter([False, False, True])
    monkeypatch.setattr(Forks, "is_ready", property(lambda self: next(answers)))
    assert_is(lowered(), expected)
    assert counted["here"] == 2 < counted["asked"]


@pytest.mark.parametrize("after", [0, 2])
def test_where_the_server_dies_the_rest_is_planned_here(
    forks, counted, expected, monkeypatch, after
):
    answers = Forks.answers

    def dying(self, numbers):
        for number, answer in enumerate(answers(self, numbers)):
            if number == after:
                os.kill(forked.pid_of(self), signal.SIGKILL)
            yield answer

    monkeypatch.setattr(Forks, "answers", dying)
    assert_is(lowered(), expected)
    assert counted["asked"] >= 10


def test_kernels_that_cost_something_else_here_are_planned_here(counted, expected, monkeypatch):
    restored = Found.restored

    def other(self, judge):
        kernels = tuple(k and (k[0], k[1] + 1.0) for k in self.kernels)
        return restored(replace(self, kernels=kernels), judge)

    monkeypatch.setattr(Found, "restored", other)
    assert_is(lowered(), expected)
    assert counted["here"] == counted["asked"] > 0


def test_regions_that_are_others_there_are_planned_here(counted, expected, monkeypatch):
    sent = job.Source.job

    def wrong(self, *given):
        found = sent(self, *given)
        return replace(found, indices=found.indices[:-1])

    monkeypatch.setattr(job.Source, "job", wrong)
    assert_is(lowered(), expected)
    assert counted["here"] == counted["asked"] > 0


def test_a_solver_that_is_missing_there_is_missed_here(forks, counted, monkeypatch, tmp_path):
    (tmp_path / "highspy.py").write_text("raise ImportError('none here')")
    assert import_module("highspy")  # here there is one
    monkeypatch.syspath_prepend(str(tmp_path))
    forks.end()
    forks.begin()
    forked.wait_for(forks)
    lowered(FAMILIES["alternating reductions"](400))
    forks.end()
    assert 0 < counted["here"] <= counted["asked"]


def test_weights_are_not_sent(counted, monkeypatch):
    monkeypatch.setattr(modules, "MOST_CONSTANTS", 100)
    weight = relax.const(np.ones((64, 128), "float32"))

    def emitted(emit, x, y):
        one = emit(op.nn.softmax(emit(op.add(x, weight))))
        two = emit(op.nn.softmax(emit(op.add(y, weight))))
        return emit(op.matmul(one, emit(op.permute_dims(two)))), two

    lowered(graph("float32", [(64, 128)] * 2, emitted, lambda *_: ()).module)
    assert counted["asked"] == 0 < counted["here"]


def test_what_is_explained_is_planned_here(counted):
    explain(MODULE, H200)
    assert counted["asked"] == 0 < counted["here"]


def test_small_modules_start_no_server(monkeypatch):
    found = Forks()
    monkeypatch.setattr(build, "FORKS", found)
    monkeypatch.setattr(forks_room, "LEAST_OPERATORS", 10_000)
    lowered()
    assert found._process is None
