"""A real browser for pages: Chromium, without a screen and without a network."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture
def opened_file(browser) -> Callable[[Path, int], object]:
    """Opens a page; what it complains of fails the test."""
    complaints = []

    def open_page(path, width=1400):
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda asked: asked.url.startswith("http") and complaints.append(asked))
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield open_page
    assert complaints == []
