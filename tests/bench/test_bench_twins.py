"""Symbolic twins are counted and run without a GPU."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from tvm import tirx

from bench import symbolic
from bench.cases import find, suite
from bench.twins import count, run
from bench.twins.__main__ import main
from bench.twins.table import markdown, summary

N, M = (tirx.Var(name, "int64") for name in "nm")


@pytest.mark.slow
def test_a_twin_is_counted_beside_its_static_workload():
    found = list(count.rows([find("lstm-cell")], ("static", "batch", "length")))
    assert [row["kind"] for row in found] == ["static", "batch"]
    assert {row["launches"] for row in found} == {1} and found[1]["tvm"] > 1
    assert not found[0]["symbols"] and list(found[1]["symbols"].values()) == [64]
    assert not any(row["open"] for row in found)


# All of them take a quarter of an hour: `python -m bench.twins count FILE`.
SOME = [case.name for case in suite("subgraphs")[::4]]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_reports_of_twins_say_which_kernel_every_operator_has_or_why_not(name):
    """In as many launches as with sizes known, or fewer than TVM's."""
    static, *twins = count.rows([find(name)], (count.STATIC, *symbolic.KINDS))
    for twin in twins:
        assert not twin.get("failed") and not twin["open"], twin
        assert twin["launches"] <= max(static["launches"], (twin["tvm"] or 0) - 1), twin


def test_cases_that_cannot_be_imported_say_why(monkeypatch):
    def refuses(*_arguments):
        raise ValueError("no counterpart")

    monkeypatch.setattr(count, "to_relax_by_shape", refuses)
    (row,) = count.rows([find("lstm-cell")], ("batch",))
    assert row["failed"] == "ValueError: no counterpart"


def test_what_a_report_leaves_open_is_named():
    kernel = SimpleNamespace(
        name="k", ops=("exp",), why="", scheme="local", mapping="?", bytes_min=0, floor_us=0.0,
        stitched=True, predicted_us=0.0, bytes_planned=1, formula="n*4", sizes="",
    )  # fmt: skip
    fallback = SimpleNamespace(op="sort", reason="")

    class Report(SimpleNamespace):
        def __str__(self) -> str:
            return "least ? B"

    report = Report(kernels=[kernel], fallbacks=[fallback])
    assert len(list(count.left_open(report))) == 7


ROWS = [
    {"case": "a", "kind": "static", "launches": 1, "tvm": 3},
    {"case": "a", "kind": "batch", "launches": 1, "tvm": 3, "open": []},
    {"case": "b", "kind": "static", "launches": 1, "tvm": 1},
    {"case": "b", "kind": "both", "launches": 2, "tvm": 1, "open": ["k: bytes"]},
    {"case": "c", "kind": "static", "launches": 1, "tvm": None},
    {"case": "c", "kind": "length", "failed": "ValueError"},
]


def test_the_table_has_what_launches_otherwise():
    lines = markdown(ROWS, whole=False)[2:]
    assert lines == ["| b | 1 |  |  | 2 | 1 |", "| c | 1 |  | failed |  | refused |"]
    assert len(markdown(ROWS)) == 5
    assert summary(ROWS).startswith(
        "3 twins of 3 cases: 1 launch no more than with sizes known, 1 "
    )


def test_sizes_lie_around_every_limit():
    found = list(run.unlike(run.sizes_around(("n", "m"), [(N * 4, 103), (N * M, 9)])))
    assert found[0] == {"n": 1, "m": 1} and {"n": 3, "m": 7} in found
    assert all({"n": n, "m": 1} in found for n in (24, 25, 26, 8, 9, 10))
    assert all({"n": 1, "m": m} in found for m in (8, 9, 10))


def test_limits_are_those_that_a_host_asks_for():
    shorter = SimpleNamespace(capacity=100, any_length=False)
    longer = SimpleNamespace(capacity=0, any_length=True)
    space = SimpleNamespace(columns=N, rows=M)
    rest = SimpleNamespace(parts=(longer,), most_rows=0, longer=None)
    schedule = SimpleNamespace(parts=(shorter,), most_rows=7, longer=rest)
    found = list(run.limits_of((SimpleNamespace(space=space),), schedule))
    assert [most for _, most in found] == [100, 7]
    assert found[0][0].same_as(N) and found[1][0].same_as(M)


def test_the_program_counts_and_tabulates(tmp_path, capsys):
    file = tmp_path / "twins.jsonl"
    assert main(["count", str(file), "--cases", "lstm-cell", "--kinds", "batch"]) == 0
    assert len(file.read_text().splitlines()) == 2
    assert main(["table", str(file)]) == 0
    assert "| lstm-cell | 1 | 1 |" in capsys.readouterr().out


@pytest.mark.slow
def test_the_program_runs_a_twin_at_every_size(tmp_path):
    file = tmp_path / "twins.jsonl"
    assert main(["run", str(file), "--cases", "layer-norm", "--kinds", "batch"]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) >= 4 and all(row["ok"] for row in rows)
