"""How fast searches find what is fast, replayed on spaces that were measured as a whole.

In: the kernels of a folder and the records of their exhausted spaces. Out: Curves: the best cost
after each trial, by search and seed. Needs no GPU: a search asks the table instead.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import tvm

from bench.tuning.folder import Folder, Kernel
from tvm_stitch.device import device_of
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.model import XGBoostModel, examples_of, train
from tvm_stitch.tuning.products import workload_with
from tvm_stitch.tuning.records import Record
from tvm_stitch.tuning.search import Settings, search
from tvm_stitch.tuning.spaces.space import Point, Space
from tvm_stitch.tuning.workload import Layout, Workload

SEEDS = 5
NEAR = 1.03  # times the best of the space
TRIALS = 256
COVERED = 0.9  # share of a space that must be measured for it to count as exhausted


# The package's search, with a model of the records of all other families of kernels; the same from
# any schedule instead of the analytic choice; from any, and without that model; chance alone.
SEARCHES = ("tuning", "without the choice", "without choice and records", "random")
Table = dict[Layout, "float | None"]


@dataclass(frozen=True, eq=False)
class Whole:
    """A kernel with the costs of all its schedules."""

    kernel: Kernel
    table: Table
    choice: Layout  # the analytic one

    @property
    def optimum(self) -> float:
        """The best cost."""
        return min(cost for cost in self.table.values() if cost is not None)

    @property
    def share(self) -> float:
        """Of the schedules, those near the best."""
        costs = self.table.values()
        return sum(c is not None and c <= NEAR * self.optimum for c in costs) / len(costs)

    @property
    def choice_off(self) -> float:
        """The analytic choice's cost over the best."""
        return (self.table[self.choice] or math.inf) / self.optimum


@dataclass(frozen=True, eq=False)
class Curve:
    """One search on one kernel: the best cost after each trial."""

    whole: Whole
    search: str  # of SEARCHES
    seed: int
    best: tuple[float, ...]

    @property
    def trials_to_near(self) -> int:
        """Trials until the search is near the best of the space; all of them if it never is."""
        within = (n for n, cost in enumerate(self.best, 1) if cost <= NEAR * self.whole.optimum)
        return next(within, TRIALS)


def replayed(folder: Folder, target: tvm.target.Target, seeds: int = SEEDS) -> list[Curve]:
    """All searches on every exhausted kernel."""
    measured = folder.records()
    records = [*measured.searched, *measured.exhausted]
    curves = []
    for whole in exhausted(folder):
        function = tvm.ir.load_json(whole.kernel.function)
        workload = workload_with(whole.choice, function, device_of(target))
        assert not isinstance(workload, Refused)
        own = {record.family for record in records if record.workload == whole.kernel.key}
        others = model_of_others(records, own)
        table = whole.table
        for seed in range(seeds):
            order = list(table)
            random.Random(seed).shuffle(order)
            found = (
                learnt(workload, whole, whole.choice, seed, others),
                learnt(workload, whole, order[0], seed, others),
                learnt(workload, whole, order[0], seed),
                [table[schedule] for schedule in order[:TRIALS]],
            )
            curves += [
                Curve(whole, name, seed, running_best(costs))
                for name, costs in zip(SEARCHES, found, strict=True)
            ]
    return curves


def model_of_others(records: Sequence[Record], families: Collection[str]) -> bytes | None:
    """What the package would ship had it never seen these families of kernels."""
    known = [record for record in records if record.family not in families]
    examples = examples_of(known, most=len(known))
    return train(examples).dump() if examples else None


def exhausted(folder: Folder) -> Iterator[Whole]:
    """Kernels with the costs of all their schedules."""
    tables: dict[str, Table] = {}
    first: dict[str, Layout] = {}
    for record in folder.records().exhausted:
        tables.setdefault(record.workload, {})[record.schedule] = record.cost
        if record.trial == 0:
            first[record.workload] = record.schedule
    for kernel in {kernel.key: kernel for kernel in folder.kernels()}.values():
        table = tables.get(kernel.key, {})
        if kernel.key in first and len(table) >= COVERED * kernel.space:
            yield Whole(kernel, table, first[kernel.key])


def median_trials(curves: Sequence[Curve], key: str, name: str) -> float:
    """Trials to near of one search on one kernel, over the seeds."""
    own = [c.trials_to_near for c in curves if (c.whole.kernel.key, c.search) == (key, name)]
    return statistics.median(own)


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
    whole: Whole,
    first: Layout,
    seed: int,
    shipped: bytes | None = None,
) -> list[float | None]:
    """The costs of a search that asks the table, until it has found the best of it."""
    table, optimum = whole.table, whole.optimum
    settings = Settings(trials=min(TRIALS, len(table)), seed=seed, finalists=0)

    def look_up(schedules: Sequence[Layout], _careful: bool, _best: object) -> list[Outcome]:
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
