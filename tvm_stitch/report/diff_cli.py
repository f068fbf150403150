"""`tvm-stitch diff`: what changed between two reports or profiles."""

from __future__ import annotations

import argparse
import json

from tvm_stitch.commands.terminal import coloured
from tvm_stitch.report.diff import TOLERANCE, compare, load

DESCRIPTION = (
    "Compares two reports or profiles: kernels that appeared, disappeared or became slower."
)
EXAMPLES = """\
examples:
  tvm-stitch explain model.onnx --json > new.json
  tvm-stitch diff old.json new.json
  tvm-stitch diff old.json new.json --fail-on slower    in your own CI: exit code 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("old", metavar="OLD", help="what explain --json or profile --json wrote")
    parser.add_argument("new", metavar="NEW", help="the same, written later")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.add_argument(
        "--fail-on",
        choices=("slower", "any"),
        help="exit with 1 if a kernel or the total became slower; or if anything differs",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=100 * TOLERANCE,
        metavar="PERCENT",
        help="changes of a time up to this are ignored (default: %(default)g)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the difference; returns the exit code."""
    tolerance = options.tolerance / 100
    found = compare(load(options.old), load(options.new), tolerance)
    print(json.dumps(found.to_json(), indent=2) if options.json else coloured(str(found)))
    before, after = found.us
    is_slower = bool(found.slower) or after > before * (1 + tolerance)
    fails = {"slower": is_slower, "any": not found.is_nothing}
    return int(fails.get(options.fail_on, False))
