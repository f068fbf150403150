"""The documentation as a site: it builds without a warning, and its pages fit a browser."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("sphinx", "furo", "myst_parser", "torch", "onnx")
missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the site lies, built with warnings as errors."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(ROOT / "docs"), out]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return out


def test_the_references_are_made_of_the_code(site):
    from tvm_stitch.options import Options

    python = (site / "reference/api.html").read_text(encoding="utf-8")
    for name in Options.__dataclass_fields__:
        assert f'<dt><code class="docutils literal notranslate"><span class="pre">{name}' in python
    commands = (site / "reference/cli.html").read_text(encoding="utf-8")
    assert "--fail-on" in commands and "tvm-stitch cache" in commands
    assert "-h, --help" not in commands


def test_every_public_name_is_in_the_reference(site):
    import tvm_stitch

    text = (site / "reference/api.html").read_text(encoding="utf-8")
    modules = ("onnx", "relay", "simt", "torch", "transform")
    for name in set(tvm_stitch.__all__) - set(modules):
        assert re.search(rf'id="tvm_stitch\.([\w.]+\.)?{name}"', text), name
    for module in modules:
        assert f'id="tvm_stitch.{module}.' in text, module


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
def test_pages_fit_at_two_widths_in_light_and_dark(site):
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for width, scheme in ((1300, "light"), (420, "dark")):
            view = {"width": width, "height": 900}
            tab = browser.new_page(viewport=view, color_scheme=scheme)
            for path in sorted(site.rglob("*.html")):
                tab.goto(path.as_uri())
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
                assert tab.evaluate("[...document.images].every((i) => i.naturalWidth)"), path
        browser.close()
