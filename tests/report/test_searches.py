"""The page of a record store: what told most of a search, and that a browser shows it."""

import json
from dataclasses import replace

import pytest
from tuning_runs import MadeUpRunner, softmax_model

from tvm_stitch import tune
from tvm_stitch.commands import cli
from tvm_stitch.report.searches import Measurement, parameters, searches, write_searches
from tvm_stitch.tuning.store import Store


def measurement(cost, **fields):
    return Measurement(1, cost, "" if cost else "failed", False, None, fields)


def test_a_field_that_decides_explains_all():
    trials = [
        measurement(cost, threads=threads, vector=vector, rows="1")
        for cost, threads, vector in (
            (2, "32", "1"),
            (2, "32", "4"),
            (8, "64", "1"),
            (8, "64", "4"),
        )
    ]
    first, second = parameters([*trials, measurement(None, threads="999")])
    assert (first.name, second.name) == ("threads", "vector")
    assert first.share == pytest.approx(1) and second.share == pytest.approx(0)
    assert first.best == pytest.approx({"32": 2, "64": 8})


def test_few_or_equal_trials_tell_nothing():
    assert parameters([measurement(2, threads="32"), measurement(8, threads="64")]) == ()
    assert parameters([measurement(2, threads=str(n)) for n in range(8)]) == ()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    tune(softmax_model(), "sm_90", path, trials=16, runner=MadeUpRunner())
    return Store(path)


@pytest.mark.slow
def test_a_search_holds_its_trials_in_order(store):
    (found,) = searches(store.read().records)
    tried = [each.trial for each in found.trials if not each.final]
    assert tried == sorted(tried) and tried[0] == 0 and len(tried) == 16
    assert any(each.final for each in found.trials)
    assert all(each.schedule["threads"] for each in found.trials)


@pytest.mark.slow
def test_the_command_writes_the_page(store, tmp_path, capsys):
    path = tmp_path / "searches.html"
    command = ["tune", "--list", "--database", str(store.path), "--html", str(path)]
    assert cli.main(command) == 0
    capsys.readouterr()
    _, _, data = path.read_text(encoding="utf-8").partition('id="searches">')
    (search,) = json.loads(data.partition("</script>")[0])
    assert search["unit"] == "us" and len(search["trials"]) >= 16


@pytest.mark.slow
def test_a_browser_shows_the_search(store, tmp_path, opened_file):
    path = tmp_path / "searches.html"
    write_searches(store.read().records, path)
    tab = opened_file(path, 600)
    assert tab.locator("#list tbody tr").count() == 1
    assert tab.locator("#shown svg").first.locator("circle.trial").count() == 16
    assert tab.locator("table.parameters tbody tr").count() > 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 600
    tab.locator("#search").fill("no such kernel")
    assert tab.locator("#list tbody tr").count() == 0


def test_costs_are_shown_without_the_dust_of_sums(store, tmp_path, opened_file):
    records = [replace(each, unit="bytes", cost=4607.999999999998) for each in store.read().records]
    path = tmp_path / "searches.html"
    write_searches(records, path)
    text = opened_file(path).locator("#list").inner_text()
    assert "4608 bytes" in text
