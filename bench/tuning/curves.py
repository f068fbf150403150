"""How fast searches find what is fast, replayed on spaces that were measured as a whole.

In: the kernels of a folder and the records of their exhausted spaces. Out: Curves: the best cost
after each trial, by search and seed. Needs no GPU: a search asks the table instead.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tvm

from bench.tuning.folder import Folder, Kernel
from tvm_stitch.device import device_of
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.tuning.jobs import Outcome
from tvm_stitch.tuning.model import XGBoostModel
from tvm_stitch.tuning.search import Settings, search
from tvm_stitch.tuning.space import Point, Space
from tvm_stitch.tuning.workload import Workload, workload_of

SEEDS = 5
NEAR = 1.03  # times the best of the space
TRIALS = 256
COVERED = 0.9  # share of a space that must be measured for it to count as exhausted


# The package's search; the same from any schedule instead of the analytic choice; chance alone.
SEARCHES = ("tuning", "without a choice", "random")


@dataclass(frozen=True)
class Curve:
    """One search on one kernel: the best cost after each trial."""

    kernel: Kernel
    search: str  # of SEARCHES
    seed: int
    best: tuple[float, ...]
    optimum: float

    @property
    def trials_to_near(self) -> int:
        """Trials until the search is near the best of the space; all of them if it never is."""
        within = (n for n, cost in enumerate(self.best, 1) if cost <= NEAR * self.optimum)
        return next(within, TRIALS)


Table = dict[Schedule, "float | None"]


def replayed(folder: Folder, target: tvm.target.Target, seeds: int = SEEDS) -> list[Curve]:
    """All searches on every exhausted kernel."""
    curves = []
    for kernel, table, first in exhausted(folder):
        workload = workload_of(tvm.ir.load_json(kernel.function), device_of(target))
        assert not isinstance(workload, Refused)
        for seed in range(seeds):
            order = list(table)
            random.Random(seed).shuffle(order)
            costs = {
                "tuning": learnt(workload, table, first, seed),
                "without a choice": learnt(workload, table, order[0], seed),
                "random": [table[schedule] for schedule in order[:TRIALS]],
            }
            optimum = _optimum(table)
            curves += [
                Curve(kernel, name, seed, running_best(costs[name]), optimum) for name in SEARCHES
            ]
    return curves


def exhausted(folder: Folder) -> Iterator[tuple[Kernel, Table, Schedule]]:
    """Kernels with the costs of all their schedules, and the analytic choice."""
    tables: dict[str, Table] = {}
    first: dict[str, Schedule] = {}
    for record in folder.records().exhausted:
        tables.setdefault(record.workload, {})[record.schedule] = record.cost
        if record.trial == 0:
            first[record.workload] = record.schedule
    for kernel in {kernel.key: kernel for kernel in folder.kernels()}.values():
        table = tables.get(kernel.key, {})
        if kernel.key in first and len(table) >= COVERED * kernel.space:
            yield kernel, table, first[kernel.key]


def median_trials(curves: Sequence[Curve], key: str, name: str) -> float:
    """Trials to near of one search on one kernel, over the seeds."""
    own = [c.trials_to_near for c in curves if (c.kernel.key, c.search) == (key, name)]
    return statistics.median(own)


def _optimum(table: Table) -> float:
    return min(cost for cost in table.values() if cost is not None)


def running_best(costs: Sequence[float | None]) -> tuple[float, ...]:
    """The best cost after each trial."""
    known = (math.inf if cost is None else cost for cost in costs)
    return tuple(itertools.accumulate(known, min))


class Recorded(Space):
    """The space as it was when it was measured: what is legal may have changed since."""

    def __init__(self, table: Table) -> None:
        self._schedules = tuple(table)

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many schedules were measured."""
        return len(self._schedules)

    def __iter__(self) -> Iterator[Point]:
        return (Point((), schedule) for schedule in self._schedules)


def learnt(
    workload: Workload,
    table: Table,
    first: Schedule,
    seed: int,
    shipped: bytes | None = None,
) -> list[float | None]:
    """The costs of a search that asks the table, until it has found the best of it."""
    settings = Settings(trials=min(TRIALS, len(table)), seed=seed, finalists=0)
    optimum = _optimum(table)

    def look_up(schedules: Sequence[Schedule], _careful: bool, _best: object) -> list[Outcome]:
        return [_outcome(table.get(schedule)) for schedule in schedules]

    costs: list[float | None] = []
    model = XGBoostModel(shipped=shipped)
    for batch in search(workload, Recorded(table), first, model, look_up, settings):
        costs += [trial.outcome.cost for trial in batch]
        if any(cost is not None and cost <= optimum for cost in costs):
            break
    return costs


def _outcome(cost: float | None) -> Outcome:
    return Outcome(cost, "" if cost is not None else "it failed")
