"""The CUDA of every case as text, for comparing what two commits generate; needs no GPU.

`python -m bench.generated write FOLDER [CASE …]` writes the kernels of each sub-graph, or of those
named, into a file. `python -m bench.generated compare OLD NEW` says which files differ in more than
names: token by token the same, but for identifiers, which must match one to one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import tvm

from bench.cases import find, suite
from bench.planning.child import model
from tvm_stitch import StitchError, explain

TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.+-]*|\S")


def generated(name: str) -> str:
    """The kernels of a case, in the order in which the report has them."""
    report = explain(model(name), TARGET)
    code = report.code()
    return "\n\n".join(code[each.name].cuda for each in report.kernels if each.name in code)


def same_but_for_names(old: str, new: str) -> bool:
    """Whether two sources are the same token by token, with identifiers matched one to one."""
    olds, news = _TOKEN.findall(old), _TOKEN.findall(new)
    if len(olds) != len(news):
        return False
    to: dict[str, str] = {}
    back: dict[str, str] = {}
    for one, other in zip(olds, news, strict=True):
        if not (one.isidentifier() and other.isidentifier()):
            if one != other:
                return False
        elif to.setdefault(one, other) != other or back.setdefault(other, one) != one:
            return False
    return True


def different(old: Path, new: Path) -> list[str]:
    """Of two folders, the cases whose kernels are not the same, or that one of them lacks."""
    names = sorted({path.stem for folder in (old, new) for path in folder.glob("*.cu")})
    return [name for name in names if not _same(old / f"{name}.cu", new / f"{name}.cu")]


def _same(old: Path, new: Path) -> bool:
    both = old.is_file() and new.is_file()
    return both and same_but_for_names(old.read_text("utf-8"), new.read_text("utf-8"))


def write(folder: Path, names: Iterable[str]) -> list[str]:
    """A file for each case; the cases that have none, with the reason."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        try:
            (folder / f"{name}.cu").write_text(generated(name) + "\n", encoding="utf-8")
        except (StitchError, tvm.error.TVMError) as error:
            failed.append(f"{name}: {str(error).splitlines()[-1]}")
    return failed


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where cases differ or have no text."""
    parser = argparse.ArgumentParser("bench.generated", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="a file of CUDA for each case")
    writing.add_argument("folder", type=Path)
    writing.add_argument("cases", nargs="*", metavar="CASE", help="default: all sub-graphs")
    comparing = commands.add_parser("compare", help="which files differ in more than names")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args(argv)
    if options.command == "compare":
        found = different(options.old, options.new)
        if not found:
            print("all are the same")
    else:
        names = [find(name).name for name in options.cases]
        found = write(options.folder, names or [case.name for case in suite("subgraphs")])
    for line in found:
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
