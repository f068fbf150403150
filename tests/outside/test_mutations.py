"""What the mutation check breaks (tests/outside): the decisions, and nothing else."""

import ast
from pathlib import Path

import pytest

from tests.outside import mutate
from tests.outside.mutations import mutations
from tests.outside.noticing import TESTS, meant_to_notice

SOURCE = '''
"""A docstring that is True and volatile."""
MOST, _LEAST = 8, 1 << 3


def emit(writer, row: int | None, rows, back):
    if row is None:
        return Refused("no rows, True" if rows else "")
    with writer.when(row < rows):
        writer.add(sync())
    back = not back
    return f"asm volatile({rows - 1})"
'''


def broken() -> dict[str, list[str]]:
    """Of each kind, the line as each mutation leaves it."""
    found: dict[str, list[str]] = {}
    for each in mutations("x.py", SOURCE):
        text = each.apply(SOURCE)
        ast.parse(text)
        assert text != SOURCE
        found.setdefault(each.kind, []).append(text.splitlines()[each.line - 1].strip())
    return found


def test_every_decision_is_broken_once():
    assert broken() == {
        "constant doubled": [
            "MOST, _LEAST = (2 * (8)), 1 << 3",
            "MOST, _LEAST = 8, (2 * (1 << 3))",
        ],
        "comparison flipped": [
            "if (row is not None):",
            "with writer.when((row <= rows)):",
        ],
        "guard dropped": ["if False:"],
        "guard of the kernel dropped": ["with writer.when(None):"],
        "barrier left out": ["pass"],
        "negation dropped": ["back = (back)"],
        "qualifier dropped": ['return f"asm ({rows - 1})"'],
    }


@pytest.mark.slow
def test_decisions_that_went_unnoticed_once_are_among_them():
    known = [
        ("emit.py", "negation dropped", "not is_reversed"),
        ("codegen/placed_loads.py", "qualifier dropped", "volatile"),
        ("rows/choose.py", "constant doubled", "1 << 11"),
    ]
    for file, kind, old in known:
        assert any(m.kind == kind and old in m.old for m in mutate.found(f"kernel/{file}"))


def test_every_file_has_tests_that_are_meant_to_notice():
    root = Path(__file__).parents[2]
    files = [
        file.relative_to(root) for each in mutate.BROKEN for file in (root / each).rglob("*.py")
    ]
    places = {str(file.relative_to("tvm_stitch").with_suffix("")) for file in files}
    assert set(TESTS) <= {place.removeprefix("kernel/") for place in places}
    for file in files:
        assert all((root / test).exists() for test in meant_to_notice(str(file)))


def test_listing_runs_nothing(capsys):
    assert mutate.main(["--list", "--file", "kernel/emit.py", "--sample", "5", "--seed", "3"]) == 0
    first = capsys.readouterr().out
    assert len(first.splitlines()) == 5
    mutate.main(["--list", "--file", "kernel/emit.py", "--sample", "5", "--seed", "3"])
    assert capsys.readouterr().out == first


@pytest.mark.parametrize("test, verdict", [("assert x.y() == 1", "killed"), ("pass", "survived")])
def test_a_copy_is_broken_and_the_tree_is_not(test, verdict, tmp_path, monkeypatch):
    project, folder = tmp_path / "project", tmp_path / "copy"
    (project / "code").mkdir(parents=True)
    folder.mkdir()
    text = "def y():\n    return 1 if True else 2\n"
    (project / "code" / "x.py").write_text(text)
    (project / "code" / "test_x.py").write_text(f"import x\n\ndef test_x():\n    {test}\n")
    monkeypatch.setattr(mutate, "ROOT", project)
    monkeypatch.setattr(mutate, "COPIED", ("code",))
    (flag,) = (m for m in mutations("code/x.py", text) if m.kind == "flag turned")
    found = mutate.Copy(folder, ["code/test_x.py"]).judge(flag, 60)
    assert found.kind == verdict
    assert (project / "code" / "x.py").read_text() == (folder / "code" / "x.py").read_text() == text
