"""The documentation as a site: it builds without a warning, and its pages fit a browser."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_stitch import simt

ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "furo", "myst_parser", "sphinx_gallery", "torch", "onnx")
missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.slow,
]


# What the documentation is made of, besides the package.
SOURCES = ("docs", "tutorials", "bench", "tvm_stitch", "ARCHITECTURE.md")


def built(folder: Path, *settings: str) -> Path:
    """Where the site lies, built with warnings as errors, from sources of its own."""
    left_out = shutil.ignore_patterns("__pycache__", "tutorials", "bench")  # pages of another build
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=left_out)
    for name in SOURCES[1:]:
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", *settings]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, folder / "docs", folder / "site"],
        capture_output=True, text=True, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, but for what the tutorials print."""
    return built(tmp_path_factory.mktemp("site"), "-D", "plot_gallery=0")


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory):
    """The site with tutorials that have run."""
    pytest.importorskip("transformers")
    return built(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
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


def test_the_results_of_the_bench_are_pages_and_links_lead_to_them(site):
    for page in (ROOT / "bench/results").rglob("*.md"):
        name = page.relative_to(ROOT).with_suffix(".html")
        text = (site / name).read_text(encoding="utf-8")
        assert "<h1>" in text
    bench = (site / "bench.html").read_text(encoding="utf-8")
    assert 'href="bench/results/h200/models.html"' in bench
    for plot in ("planning.png", "tuning.png", "searches.png", "calibration.png"):
        assert f"/{plot}" in bench
    page = (site / "concepts/performance.html").read_text(encoding="utf-8")
    assert 'href="../bench/results/README.html"' in page


def test_every_tutorial_is_a_page(site):
    index = (site / "tutorials/index.html").read_text(encoding="utf-8")
    for script in (ROOT / "tutorials").glob("*.py"):
        assert f'href="{script.stem}.html"' in index
        text = (site / f"tutorials/{script.stem}.html").read_text(encoding="utf-8")
        assert "<h2>" in text and "highlight-Python" in text


@pytest.mark.slow
@pytest.mark.skipif(simt.available() is not None, reason="needs g++")
def test_tutorials_show_what_they_print(whole_site):
    shown = {
        "1_quickstart": "after",
        "2_in_your_pipeline": "different stitched kernels",
        "3_tuning": "the same once more: True",
        "4_reading_a_plan": "the pinned plan is followed: True",
        "5_how_stitching_works": "in two orders: as NumPy says",
        "6_a_hugging_face_model": "tuned: as eager says",
        "7_a_training_loop": "stitched: True",
        "8_from_onnx_to_a_library": "1 of 1 kernel stitched",
        "relay_build": "the output is NumPy",
    }
    assert shown.keys() == {script.stem for script in (ROOT / "tutorials").glob("*.py")}
    for name, words in shown.items():
        text = (whole_site / f"tutorials/{name}.html").read_text(encoding="utf-8")
        printed = "".join(re.findall(r'class="sphx-glr-script-out.*?</div>', text, re.S))
        assert words in re.sub(r"<.*?>", "", printed), name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
def test_pages_fit_at_two_widths_in_light_and_dark(whole_site):
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for width, scheme in ((1300, "light"), (420, "dark")):
            view = {"width": width, "height": 900}
            tab = browser.new_page(viewport=view, color_scheme=scheme)
            for path in sorted(whole_site.rglob("*.html")):
                tab.goto(path.as_uri())
                assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
                assert tab.evaluate("[...document.images].every((i) => i.naturalWidth)"), path
        browser.close()
