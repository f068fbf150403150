"""The report of a run as Markdown: counts by verdict and kind, and every case that is not right.

In: Outcomes. Out: a text. Must know neither TVM nor ONNX.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tests.outside.onnx.outcome import Outcome, Verdict

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
NAMED = 3  # examples of a group of cases
LONGEST = 160  # characters of a case's own reason


def render(outcomes: Sequence[Outcome], head: str) -> str:
    """The whole report; `head` says when and with which versions it was made."""
    ordered = sorted(outcomes, key=lambda each: each.name)
    sections = [
        "# ONNX's backend suite",
        head,
        _counts(ordered),
        "## Not right",
        "Cases that TVM imports and builds, and tvm_stitch does not get right.",
        _cases(each for each in ordered if not each.verdict.right) or "None.",
        "## Right, and not as good as it should be",
        _notes(ordered),
        "## Why TVM's importer refuses",
        _groups(ordered, Verdict.IMPORTER),
        "## What TVM's own default build fails on",
        "Without tvm_stitch: for the CPU, or for CUDA where tvm_stitch.compile fails as well.",
        _groups(ordered, Verdict.TVM_FAILS),
        "## Where TVM's own default build is not what ONNX expects",
        "The stitched module agrees with a float64 evaluation of what the importer made.",
        _cases(each for each in ordered if each.verdict is Verdict.TVM_WRONG) or "None.",
        "## Why nothing is stitched",
        _groups(ordered, Verdict.NOT_STITCHED),
    ]
    return "\n\n".join(sections) + "\n"


def summary(outcomes: Iterable[Outcome]) -> str:
    """The counts in one line."""
    count = Counter(each.verdict for each in outcomes)
    return ", ".join(f"{count[verdict]} {verdict.value}" for verdict in Verdict if count[verdict])


def _counts(outcomes: Sequence[Outcome]) -> str:
    by_kind = Counter((each.verdict, each.kind) for each in outcomes)
    rows = [["", *KINDS, "all"], ["---", *["---:"] * (len(KINDS) + 1)]]
    for verdict in Verdict:
        numbers = [by_kind[verdict, kind] for kind in KINDS]
        rows.append([verdict.value, *map(str, numbers), str(sum(numbers))])
    totals = [sum(each.kind == kind for each in outcomes) for kind in KINDS]
    rows.append(["all", *map(str, totals), str(sum(totals))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cases(outcomes: Iterable[Outcome]) -> str:
    return "\n".join(
        f"- `{each.name}` ({each.verdict.value}): {_plain(each.reason[:LONGEST])}"
        for each in outcomes
    )


def _groups(outcomes: Iterable[Outcome], verdict: Verdict) -> str:
    """The reasons of a verdict, each with its cases."""
    return _grouped((each.reason, each.name) for each in outcomes if each.verdict is verdict)


def _notes(outcomes: Iterable[Outcome]) -> str:
    return _grouped((note, each.name) for each in outcomes for note in each.notes)


def _grouped(reasons: Iterable[tuple[str, str]]) -> str:
    """Reasons and cases, the most frequent first, without the numbers that differ."""
    groups: dict[str, list[str]] = defaultdict(list)
    for reason, name in reasons:
        groups[_general(reason)].append(name)
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return "\n".join(_group(reason, names) for reason, names in largest) or "None."


def _group(reason: str, names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"- {len(names)}: {_plain(reason)} ({shown}{more})"


def _general(reason: str) -> str:
    """A reason without the numbers in it."""
    return re.sub(r"-?\d+(\.\d+)?", "#", reason)


def _plain(reason: str) -> str:
    """A reason that Markdown leaves as it is."""
    return re.sub(r"([`*_<>|\[\]])", r"\\\1", reason)
