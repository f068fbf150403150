"""How fast searches find what is fast, replayed on spaces that were measured as a whole.

In: the kernels of a folder and the records of their exhausted spaces. Out: Curves: the best cost
after each trial, by search and seed. Needs no GPU: a search asks the table instead.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from bench.tuning.folder import Folder, Kernel
from tvm_stitch.device import device_of
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.tuning.jobs import Outcome
from tvm_stitch.tuning.model import XGBoostModel
from tvm_stitch.tuning.search import Settings, search
from tvm_stitch.tuning.space import Space
from tvm_stitch.tuning.workload import Workload, workload_of

SEEDS = 5
NEAR = 1.03  # times the best of the space
TRIALS = 256
COVERED = 0.9  # share of a space that must be measured for it to count as exhausted


@dataclass(frozen=True)
class Curve:
    """One search on one kernel: the best cost after each trial."""

    kernel: Kernel
    search: str  # "xgboost" or "random"
    seed: int
    best: tuple[float, ...]
    optimum: float

    @property
    def trials_to_near(self) -> int:
        """Trials until the search is near the best of the space; all of them if it never is."""
        within = (n for n, cost in enumerate(self.best, 1) if cost <= NEAR * self.optimum)
        return next(within, TRIALS)


def replayed(folder: Folder, target: tvm.target.Target, seeds: int = SEEDS) -> list[Curve]:
    """Both searches on every exhausted kernel."""
    tables: dict[str, dict[Schedule, float | None]] = {}
    first: dict[str, Schedule] = {}
    for record in folder.records().exhausted:
        tables.setdefault(record.workload, {})[record.schedule] = record.cost
        if record.trial == 0:
            first[record.workload] = record.schedule
    curves = []
    for kernel in {kernel.key: kernel for kernel in folder.kernels()}.values():
        table = tables.get(kernel.key, {})
        if kernel.key not in first or len(table) < COVERED * kernel.space:
            continue
        workload = workload_of(tvm.ir.load_json(kernel.function), device_of(target))
        assert not isinstance(workload, Refused)
        for seed in range(seeds):
            curves.append(_learning(kernel, workload, table, first[kernel.key], seed))
            curves.append(_random(kernel, table, first[kernel.key], seed))
    return curves


def median_trials(curves: Sequence[Curve], key: str, name: str) -> float:
    """Trials to near of one search on one kernel, over the seeds."""
    own = [c.trials_to_near for c in curves if (c.kernel.key, c.search) == (key, name)]
    return statistics.median(own)


def _optimum(table: dict[Schedule, float | None]) -> float:
    return min(cost for cost in table.values() if cost is not None)


def _curve(
    kernel: Kernel,
    name: str,
    seed: int,
    costs: Sequence[float | None],
    optimum: float,
) -> Curve:
    best: list[float] = []
    for cost in costs:
        now = float("inf") if cost is None else cost
        best.append(min(now, best[-1]) if best else now)
    return Curve(kernel, name, seed, tuple(best), optimum)


def _learning(
    kernel: Kernel,
    workload: Workload,
    table: dict[Schedule, float | None],
    first: Schedule,
    seed: int,
) -> Curve:
    space = Space(workload.programs, workload.groups, workload.device, workload.bounds)
    settings = Settings(trials=min(TRIALS, len(table)), seed=seed, finalists=0)
    optimum = _optimum(table)

    def look_up(schedules: Sequence[Schedule], _careful: bool, _best: object) -> list[Outcome]:
        return [_outcome(table.get(schedule)) for schedule in schedules]

    costs: list[float | None] = []
    for batch in search(workload, space, first, XGBoostModel(), look_up, settings):
        costs += [trial.outcome.cost for trial in batch]
        if any(cost is not None and cost <= optimum for cost in costs):
            break
    return _curve(kernel, "xgboost", seed, costs, optimum)


def _random(
    kernel: Kernel, table: dict[Schedule, float | None], first: Schedule, seed: int
) -> Curve:
    """The analytic choice, as in the other search, then any order."""
    others = [schedule for schedule in table if schedule != first]
    random.Random(seed).shuffle(others)
    costs = [table[schedule] for schedule in [first, *others][:TRIALS]]
    return _curve(kernel, "random", seed, costs, _optimum(table))


def _outcome(cost: float | None) -> Outcome:
    return Outcome(cost, "" if cost is not None else "it failed")
