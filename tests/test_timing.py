"""What a wait looks like: stages on a terminal, in the log, and at the end of the report."""

import io
import logging
import re
import subprocess
import sys

import pytest
from check import H200
from zoo import softmax

import tvm_stitch
from tvm_stitch import timing
from tvm_stitch.commands.terminal import Line, stages_shown
from tvm_stitch.plan import planner

MODULE = softmax("float32", 4, 8).module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return [line.strip() for line in self.getvalue().split("\r") if line.strip()]


def test_the_time_left_follows_from_the_pace(monkeypatch):
    clock = iter([0.0, 0.0, 4.0, 10.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    terminal = Terminal()
    with stages_shown(terminal), timing.stage("planning"):
        timing.step("planning", 0, 6)
        timing.step("planning", 4, 6)
    assert terminal.lines() == ["planning", "planning 0/6", "planning 4/6 0:02 left", "planning"]
    assert terminal.getvalue().endswith("\r")


def test_a_stage_within_a_stage_counts_to_it():
    heard = []
    listening = timing.timed(), timing.heard_by(heard.append)
    with listening[0] as seconds, listening[1], timing.stage("one"), timing.stage("two"):
        timing.step("two", 1, 2)
    assert list(seconds) == ["one"] and [state.stage for state in heard] == ["one", "one"]


def test_without_a_terminal_nothing_is_shown():
    stream = io.StringIO()
    with stages_shown(stream), timing.stage("planning"):
        timing.step("planning", 1, 2)
    Line(stream).show("for a moment")
    assert stream.getvalue() == ""
    Line(stream).show("for good", stays=True)
    assert stream.getvalue() == "for good\n"


def test_a_long_line_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    Line(terminal).show("a" * 100)
    assert terminal.getvalue() == "\r" + "a" * 19


def test_compile_tells_its_stages(caplog):
    terminal = Terminal()
    with caplog.at_level(logging.INFO, "tvm_stitch"), stages_shown(terminal):
        tvm_stitch.compile(MODULE, H200)
    told = [re.fullmatch(r"(.*): \d+\.\d\d s", record.getMessage())[1] for record in caplog.records]
    assert told == [
        timing.DECOMPOSING, timing.PLANNING, timing.FUSING, timing.WRITING, timing.SCHEDULING,
        timing.MEMORY, timing.LOWERING, timing.COMPILING,
    ]  # fmt: skip
    assert "planning 0/1" in terminal.lines()


def test_a_stage_that_fails_is_over(monkeypatch):
    def failing(*_arguments, **_named):
        raise RuntimeError("no plan")

    monkeypatch.setattr(planner, "find_regions", failing)
    with timing.timed() as seconds, pytest.raises(RuntimeError, match="no plan"):
        tvm_stitch.compile(MODULE, H200)
    assert list(seconds) == [timing.DECOMPOSING, timing.PLANNING]
    with timing.timed() as seconds, timing.stage("next"):
        pass
    assert list(seconds) == ["next"]


def test_the_report_ends_with_where_the_time_went():
    report = tvm_stitch.explain(MODULE, H200)
    # One stage more on a loaded machine, and the list goes on in another line.
    last = [line for line in str(report).splitlines() if not line.startswith(" ")][-1]
    assert re.match(r"time +\d+\.\d s", last)
    passes = report.to_json()["passes"]
    assert {timing.PLANNING, timing.WRITING} <= {each["stage"] for each in passes}
    assert min(each["seconds"] for each in passes) >= 0
    assert report == tvm_stitch.explain(MODULE, H200)


@pytest.mark.slow
@pytest.mark.parametrize("level, said", [("info", "planning: "), ("", ""), ("much", "no level")])
def test_the_environment_asks_for_the_log(level, said):
    text = "import sys; sys.path[:0] = ['tests', 'tests/helpers']\nfrom test_timing import *\n"
    command = [sys.executable, "-c", f"{text}tvm_stitch.compile(MODULE, H200)"]
    environment = {**timing.os.environ, timing.LOG: level}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said in done.stderr and bool(said) == bool(done.stderr)
