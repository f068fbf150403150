"""What a program of its own found on a GPU, as JSON and as Markdown in a folder.

In: what it found, a dict of plain values. Out: two files of one name. `python -m bench` itself uses
bench.results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import environment


def begin(program: str, arguments: list[str]) -> dict[str, Any]:
    """When, how and on which machine: what every record starts with."""
    about = environment.about_run(arguments, program=program)
    return {"version": 1, **about, "machine": environment.machine()}


def heading(title: str, record: dict[str, Any], text: str) -> list[str]:
    """The first lines of a record in Markdown."""
    about = f"{record['machine']['gpu']}, {record['date']}, `{record['command']}`"
    return [f"# {title}", "", f"{about}: {text}", ""]


def save(record: dict[str, Any], lines: list[str], folder: Path, name: str) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
