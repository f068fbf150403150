"""`tvm-stitch cache`: what is kept on disk, and removing it.

In: parsed arguments. Out: text on standard output, an exit code.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from tvm_stitch.cache.store import FOLDER, OFF, SIZE, Store, store_of
from tvm_stitch.plan.plan import shown_bytes

DESCRIPTION = f"""\
Shows or clears the cache of lowered modules, compiled kernels and the CPU executor's objects.
{FOLDER} names its folder (default: ~/.cache/tvm-stitch), or disables it: {OFF}.
{SIZE} limits its size in bytes: the least recently used entries go first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("what", choices=("info", "clear"), help="show what is kept, or remove it")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")


def run(options: argparse.Namespace) -> int:
    """Do what was asked; the exit code."""
    store = store_of()
    if options.json:
        found = None if store is None else _as_json(store)
        if store is not None and options.what == "clear":
            store.clear()
        print(json.dumps(found, indent=2))
        return 0
    if store is None:
        print(f"nothing is kept: {FOLDER} is {OFF}")
        return 0
    contents = store.contents()
    total = sum(each.bytes for each in contents)
    if options.what == "clear":
        store.clear()
        print(f"{store.folder}: {shown_bytes(total)} removed")
        return 0
    print(f"{store.folder}: {shown_bytes(total)} of at most {shown_bytes(store.most_bytes)}")
    for each in contents:
        print(f"  {each.kind:9} {each.files:6} files  {shown_bytes(each.bytes)}")
    return 0


def _as_json(store: Store) -> dict[str, Any]:
    """What is kept; what was, where it is removed afterwards."""
    return {
        "folder": str(store.folder),
        "most_bytes": store.most_bytes,
        "contents": [asdict(each) for each in store.contents()],
    }
