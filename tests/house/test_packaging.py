"""What is installed: every dependency within a range, whose oldest end CI can ask for."""

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11 and later

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra),
]
OWN = re.compile(r"tvm-stitch\[\w+\]")
EXACT = re.compile(r"[\w-]+==[\w.]+")
RANGE = re.compile(r"([\w-]+)>=([\d.]+),<[\d.]+(?:; sys_platform == 'linux')?")


@pytest.mark.parametrize("requirement", REQUIRED)
def test_every_dependency_has_both_ends(requirement):
    assert any(form.fullmatch(requirement) for form in (OWN, EXACT, RANGE))


def test_ci_asks_for_the_oldest_of_every_range():
    script = [sys.executable, str(ROOT / ".ci" / "oldest.py")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    ranges = [found for each in REQUIRED if (found := RANGE.fullmatch(each))]
    assert set(printed.split()) == {
        f"{name}=={oldest}" for name, oldest in map(re.Match.groups, ranges)
    }


PACKAGE = ROOT / "tvm_stitch"
VENDORED = PACKAGE / "report" / "page" / "vendor"


def data_files() -> set[str]:
    """What lies in the package and is neither Python nor a page to read, by its path within it."""
    read = (".py", ".md")
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in read)
    return {str(path.relative_to(PACKAGE)) for path in files if "__pycache__" not in path.parts}


def test_every_data_file_is_declared():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["tvm_stitch"]
    declared = {
        str(path.relative_to(PACKAGE))
        for pattern in patterns
        for path in PACKAGE.glob(pattern)
        if path.is_file() and path.suffix != ".md"
    }
    assert data_files() == declared


def test_vendored_libraries_are_those_that_their_list_says():
    listed = (VENDORED / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|.*`(\w+\.LICENSE)`\) \| `(\w+)` \|$", listed, re.MULTILINE)
    assert {name for name, _, _ in rows} == {path.name for path in VENDORED.glob("*.js")}
    for name, licence, digest in rows:
        assert (VENDORED / licence).is_file()
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest()[:16] == digest


@pytest.mark.slow
def test_the_wheel_holds_what_the_package_reads(tmp_path):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed, and the network is not asked for it")
    source = tmp_path / "source"  # setuptools leaves its own files where it builds
    shutil.copytree(PACKAGE, source / "tvm_stitch", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("tvm_stitch-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    held = {name.removeprefix("tvm_stitch/") for name in names if name.startswith("tvm_stitch/")}
    assert data_files() <= held
    assert {"commands/cli.py", "__main__.py"} <= held
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]
    assert wheel.stat().st_size < 3_000_000


def test_the_changelog_has_the_version():
    version = PROJECT["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(version)}\b", changes, re.MULTILINE)
