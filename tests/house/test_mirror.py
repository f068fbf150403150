"""Tests lie in folders like those of what they test (CONTRIBUTING.md)."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rooms import ROOT

PACKAGE, TESTS = ROOT / "tvm_stitch", ROOT / "tests"
# Folders of tests that test no folder of the package.
BESIDE = ("bench", "docs", "end_to_end", "helpers", "house", "outside")
FILES = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
FOLDERS = {path.parent for path in FILES}


def rooms_of(folder: Path) -> list[str]:
    """The packages in a folder of the package."""
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def test_every_folder_is_one_of_the_package():
    mirrored = {folder for folder in FOLDERS if not str(folder).startswith(BESIDE)}
    assert len(mirrored) > 30
    assert sorted(folder for folder in mirrored if not (PACKAGE / folder).is_dir()) == []


def test_what_lies_in_no_folder_tests_a_module_that_lies_in_none():
    names = [path.stem.removeprefix("test_") for path in FILES if path.parent == Path()]
    assert [name for name in names if not (PACKAGE / f"{name}.py").exists()] == []


def test_every_room_has_tests():
    tested = {Path(*folder.parts[:1]) for folder in FOLDERS}
    assert [room for room in rooms_of(PACKAGE) if Path(room) not in tested] == []
    for inside in (Path("kernel"), Path("graph"), Path("frontend")):
        folders = rooms_of(PACKAGE / inside)
        assert [room for room in folders if inside / room not in FOLDERS] == []


def test_every_file_has_tests():
    """One that was emptied by mistake would pass."""
    assert [path for path in FILES if "def test_" not in (TESTS / path).read_text()] == []


def test_no_two_files_share_a_name():
    """Folders of tests are no packages: to pytest, a file's name is its module's."""
    assert [name for name, n in Counter(path.name for path in FILES).items() if n > 1] == []


def test_no_file_of_tests_imports_another():
    """What two of them need lies in tests/helpers: a test can then be moved, split or run alone."""
    names = {path.stem for path in FILES}
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                imported = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                imported = [part for alias in node.names for part in alias.name.split(".")]
            else:
                continue
            found += [(str(path.relative_to(TESTS)), name) for name in imported if name in names]
    assert found == []


def test_no_folder_of_tests_hides_that_a_library_is_missing():
    """Pytest imports from folders with tests in them; there, `torch/` would be an empty package."""
    folders = [TESTS / folder for folder in FOLDERS]
    searched = [folder for folder in folders if not (folder / "__init__.py").exists()]
    names = {path.name for folder in searched for path in folder.iterdir()}
    assert not names & {"onnx", "torch"}


def test_files_are_collected_where_there_is_no_pytorch():
    """Their tests are skipped then: before anything is imported that needs it."""
    without = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    flags = ["--collect-only", "--quiet", "--override-ini=addopts="]
    paths = [path for path in (TESTS / each for each in FILES) if "torch" in path.read_text()]
    found = subprocess.run(
        [sys.executable, "-c", without, *flags, *map(str, paths)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-2000:]


def test_no_folder_holds_more_than_one_can_take_in():
    folder, count = Counter(path.parent for path in FILES).most_common(1)[0]
    assert count <= 20, (folder, count)
