"""A part of ONNX's backend suite, stitched; all of it: `python -m tests.outside.onnx --help`."""

import json
import os
import signal
import time
from dataclasses import asdict
from multiprocessing.connection import Connection

import pytest

from tests.outside.onnx.outcome import Outcome, Stage, Verdict
from tests.outside.onnx.processes import kinds, outcomes
from tests.outside.onnx.report import render
from tests.outside.onnx.sample import in_sample, part
from tvm_stitch import simt

pytest.importorskip("onnx")

PARTS = 20  # of a tenth of the suite
TRIED = range(0, PARTS, 3)
LIMIT = 300.0  # seconds for a case, on a machine that does other things as well


@pytest.fixture(scope="session")
def suite() -> dict[str, str]:
    return kinds()


@pytest.mark.skipif(simt.available() is not None, reason="no C++ compiler")
@pytest.mark.parametrize("number", TRIED)
@pytest.mark.slow
def test_a_part_of_the_suite(suite: dict[str, str], number: int) -> None:
    chosen = {
        name: kind
        for name, kind in suite.items()
        if in_sample(name) and part(name, PARTS) == number
    }
    found = list(outcomes(chosen, jobs=1, limit=LIMIT))
    assert [each for each in found if not each.verdict.right] == []
    assert any(each.verdict is Verdict.VERIFIED for each in found)


@pytest.mark.slow
def test_the_sample_is_about_a_tenth_of_every_kind(suite: dict[str, str]) -> None:
    for kind in set(suite.values()):
        cases = [name for name, of in suite.items() if of == kind]
        sampled = [name for name in cases if in_sample(name)]
        assert 0.02 <= len(sampled) / len(cases) <= 0.25, kind


@pytest.mark.slow
def test_what_ends_a_process_costs_one_case() -> None:
    names = ("crashes", "hangs", "leaves", "never starts", "returns")
    found = outcomes(dict.fromkeys(names, "node"), jobs=2, limit=3.0, body=_misbehave)
    assert {each.name: (each.verdict, each.reason) for each in found} == {
        "crashes": (Verdict.CRASH, "verify: the process ended with SIGFPE"),
        "hangs": (Verdict.TVM_FAILS, "TVM's own build: not done after 3 s"),
        "leaves": (Verdict.IMPORTER, "importing: the process ended with exit code 3"),
        "never starts": (Verdict.CRASH, "starting: the process ended with exit code 1"),
        "returns": (Verdict.VERIFIED, ""),
    }


def _misbehave(sender: Connection, name: str) -> None:
    """The body of a process that ends as its case's name says."""
    if name == "crashes":
        sender.send(Stage.VERIFY)
        os.kill(os.getpid(), signal.SIGFPE)
    if name == "hangs":
        sender.send(Stage.TVM)
        time.sleep(60)
    if name == "never starts":
        raise ImportError(name)
    if name == "leaves":
        sender.send(Stage.IMPORT)
        os._exit(3)
    sender.send(Outcome(name, "node", Verdict.VERIFIED))


def test_the_report_counts_every_case_and_names_those_not_right() -> None:
    found = [
        Outcome("test_a", "node", Verdict.VERIFIED, kernels=1),
        Outcome("test_b", "node", Verdict.CRASH, "compile: sum_2 fails"),
        Outcome("test_c", "simple", Verdict.IMPORTER, "axis 3 of 4"),
        Outcome("test_d", "simple", Verdict.IMPORTER, "axis 1 of 2"),
    ]
    text = render(found, "made by hand")
    assert "| stitched and verified | 1 | 0 | 0 | 0 | 1 |" in text
    assert "| all | 2 | 2 | 0 | 0 | 4 |" in text
    assert "- `test_b` (crash): compile: sum\\_2 fails" in text
    assert "- 2: axis # of # (`test_c`, `test_d`)" in text


def test_an_outcome_survives_the_log() -> None:
    outcome = Outcome("test_a", "node", Verdict.CRASH, "compile: fails", 2, ("a note",), 1.5)
    assert Outcome.from_json(json.dumps(asdict(outcome))) == outcome
