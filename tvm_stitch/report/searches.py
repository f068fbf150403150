"""What a record store holds of each search: its course, what told most, prediction and time.

In: Records. Out: Searches, plain data for the page. Must not know how anything was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tvm_stitch.json_data import listed
from tvm_stitch.report.html import searches_page
from tvm_stitch.tuning.records import UNITS, Record

MOST_PARAMETERS = 8
FEWEST_TRIALS = 4  # that say something of a parameter


@dataclass(frozen=True)
class Measurement:
    """One schedule that was tried."""

    trial: int  # 0 is the analytic choice
    cost: float | None  # None where it failed
    error: str
    final: bool  # measured again beside the other best ones
    predicted_us: float | None
    schedule: Mapping[str, str]  # its fields


@dataclass(frozen=True)
class Parameter:
    """A field of the schedules, and what came of its values."""

    name: str
    share: float  # of the variance of the costs' logarithms, that its values explain
    best: Mapping[str, float]  # the least cost with each value


@dataclass(frozen=True)
class Search:
    """The search of one kernel on one GPU, be it in several goes."""

    title: str
    gpu: str
    unit: str
    trials: tuple[Measurement, ...]  # in the order of the store
    parameters: tuple[Parameter, ...]  # what told most first


def searches(records: Iterable[Record]) -> tuple[Search, ...]:
    """The searches of a store, each kernel's by itself."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        key = (record.gpu, record.unit, record.package, record.workload)
        found.setdefault(key, []).append(record)
    return tuple(_search(each) for _, each in sorted(found.items()))


def write_searches(records: Iterable[Record], path: str | Path) -> None:
    """Write them as one HTML page to look at, which needs no other file and no network."""
    data = [listed(asdict(each)) for each in searches(records)]
    Path(path).write_text(searches_page(data), encoding="utf-8")


def _search(records: Sequence[Record]) -> Search:
    trials = tuple(map(_measurement, records))
    first = records[0]
    searched = [each for each in trials if not each.final]
    return Search(first.title, first.gpu, first.unit, trials, parameters(searched or trials))


def _measurement(record: Record) -> Measurement:
    logarithm = dict(record.features).get("predicted_us")
    predicted = None if logarithm is None or record.unit != UNITS[0] else 2.0**logarithm
    fields = _flat(json.loads(record.schedule.to_json()))
    return Measurement(
        record.trial, record.cost, record.error, record.final, predicted, dict(fields)
    )


def _flat(value: Any, name: str = "") -> Iterable[tuple[str, str]]:
    """The fields of a schedule by their names; those of its second part have a number."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{name} {key}".strip())
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            yield from _flat(each, f"{number + 1}" if number else "")
    else:
        yield name, str(value)


def parameters(trials: Sequence[Measurement]) -> tuple[Parameter, ...]:
    """The fields whose values differ, by how much of the costs they explain, each by itself."""
    costs = [(each, math.log(each.cost)) for each in trials if each.cost]
    if len(costs) < FEWEST_TRIALS:
        return ()
    mean = fmean(cost for _, cost in costs)
    spread = sum((cost - mean) ** 2 for _, cost in costs)
    found = []
    for name in dict.fromkeys(name for each, _ in costs for name in each.schedule):
        groups: dict[str, list[float]] = {}
        for each, cost in costs:
            groups.setdefault(each.schedule.get(name, "–"), []).append(cost)
        if len(groups) > 1 and spread > 0:
            between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups.values())
            best = {value: math.exp(min(group)) for value, group in groups.items()}
            found.append(Parameter(name, between / spread, best))
    return tuple(sorted(found, key=lambda each: -each.share)[:MOST_PARAMETERS])
