"""The page of a record store: what told most of a search, and that a browser shows it."""

import json
import shutil

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


def test_a_search_holds_its_trials_in_order(store):
    (found,) = searches(store.read().records)
    tried = [each.trial for each in found.trials if not each.final]
    assert tried == sorted(tried) and tried[0] == 0 and len(tried) == 16
    assert any(each.final for each in found.trials)
    assert all(each.schedule["threads"] for each in found.trials)


def test_the_command_writes_the_page(store, tmp_path, capsys):
    path = tmp_path / "searches.html"
    command = ["tune", "--list", "--database", str(store.path), "--html", str(path)]
    assert cli.main(command) == 0
    capsys.readouterr()
    _, _, data = path.read_text(encoding="utf-8").partition('id="searches">')
    (search,) = json.loads(data.partition("</script>")[0])
    assert search["unit"] == "us" and len(search["trials"]) >= 16


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
def test_a_browser_shows_the_search(store, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "searches.html"
    write_searches(store.read().records, path)
    complaints = []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 600, "height": 900})
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-ready]")
        assert tab.locator("#list tbody tr").count() == 1
        assert tab.locator("#shown svg").first.locator("circle.trial").count() == 16
        assert tab.locator("table.parameters tbody tr").count() > 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= 600
        tab.locator("#search").fill("no such kernel")
        assert tab.locator("#list tbody tr").count() == 0
        browser.close()
    assert complaints == []
