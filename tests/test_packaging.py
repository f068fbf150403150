"""What is installed: every dependency within a range, whose oldest end CI can ask for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11 and later

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIRED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra),
]
OWN = re.compile(r"tvm-stitch\[\w+\]")
EXACT = re.compile(r"[\w-]+==[\w.]+")
RANGE = re.compile(r"([\w-]+)>=([\d.]+),<[\d.]+")


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
