"""`tvm-stitch cache`: what is kept on disk, and removing it.

In: parsed arguments. Out: text on standard output, an exit code.
"""

from __future__ import annotations

import argparse

from tvm_stitch.cache.store import FOLDER, OFF, SIZE, store_of
from tvm_stitch.plan.plan import shown_bytes

DESCRIPTION = f"""\
Lowered modules, compiled kernels and the CPU executor's objects are kept for the next build.
{FOLDER} names the folder (default: ~/.cache/tvm-stitch), or says {OFF};
{SIZE} is how many bytes it may have: beyond, what was used longest ago goes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("what", choices=("info", "clear"), help="show what is kept, or remove it")


def run(options: argparse.Namespace) -> int:
    """Do what was asked; the exit code."""
    store = store_of()
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
