"""spread(N) leaves N cases of a test fast, the same ones every time."""

from rooms import ROOT

pytest_plugins = ["pytester"]

CASES = """
import pytest

@pytest.mark.spread(4)
@pytest.mark.parametrize("dtype", ["a", "b"])
@pytest.mark.parametrize("rows", range(10))
def test_many(rows, dtype):
    pass

@pytest.mark.spread(4)
@pytest.mark.parametrize("rows", range(3))
def test_few(rows):
    pass

@pytest.mark.parametrize("rows", range(9))
def test_unmarked(rows):
    pass
"""


def collected(pytester, *arguments):
    """The names of the cases that would run."""
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    gpu\n    spread(N)\n")
    pytester.makeconftest((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(test_cases=CASES)
    done = pytester.runpytest("--collect-only", "-q", *arguments)
    return [line.partition("::")[2] for line in done.outlines if "::" in line]


def test_so_many_are_fast_and_the_others_slow(pytester):
    fast = collected(pytester, "-m", "not slow")
    assert len(fast) == 4 + 3 + 1
    assert len({name[-2] for name in fast if "many" in name}) == 2, "of either dtype"
    slow = collected(pytester, "-m", "slow")
    assert len(fast) + len(slow) == len({*fast, *slow}) == 2 * 10 + 3 + 9
    assert collected(pytester, "-m", "not slow") == fast


def test_a_case_that_is_asked_for_by_name_runs(pytester):
    (slow, *_) = collected(pytester, "-m", "slow")
    assert collected(pytester, "-m", "not slow", f"test_cases.py::{slow}") == [slow]
