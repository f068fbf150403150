"""The search of one kernel: which schedules to measure next, and when to stop.

In: a Workload, its Space, a Model and what measures. Out: Trials, batch by batch. The same seed and
the same costs give the same trials: that is how an interrupted search goes on.

A batch holds the schedules that the model ranks highest and a share drawn at random. Where the
space is too large to rank as a whole, candidates evolve from the best measured ones.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_stitch.errors import InputError
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.model import Model
from tvm_stitch.tuning.spaces.space import Point, Space
from tvm_stitch.tuning.workload import Layout, Workload

# (schedules, whether to take more care, the best cost so far) -> an outcome for each
Measure = Callable[[Sequence[Layout], bool, "float | None"], list[Outcome]]

RANKED_WHOLE = 8192  # spaces up to this size are ranked as a whole
GENERATIONS = 4
POPULATION = 256
ELITES = 16
NEAR_FLOOR = 1.02  # times the floor: nothing is left to gain
IMPROVEMENT = 0.995  # times the best before: less is no improvement
PATIENCE = 0.5  # of all trials, without an improvement


@dataclass(frozen=True)
class Settings:
    """How long and how widely to search."""

    trials: int = 64
    batch: int = 8
    explore: float = 0.2  # share of a batch that is drawn at random
    finalists: int = 4  # measured again at the end, side by side with the analytic choice
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"trials must be at least 1, not {self.trials}")
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, not {self.batch}")


@dataclass(frozen=True)
class Trial:
    """One measured schedule; number 0 is the analytic choice."""

    number: int
    schedule: Layout
    outcome: Outcome
    final: bool = False


def search(
    workload: Workload,
    space: Space,
    analytic: Layout,
    model: Model,
    measure: Measure,
    settings: Settings,
    floor: float | None = None,
) -> Iterator[list[Trial]]:
    """Trials in batches, the analytic choice first, those measured again last."""
    seen = _Seen(analytic)
    rng = random.Random(f"{settings.seed} {workload.key}")
    while (count := min(settings.batch, settings.trials - len(seen.trials))) > 0:
        wanted = [analytic] if not seen.trials else []
        points = _proposals(workload, space, model, seen, settings, rng, count - len(wanted))
        seen.points.update({point.schedule: point for point in points})
        wanted += [point.schedule for point in points]
        if not wanted:
            break
        outcomes = measure(wanted, False, seen.best)
        yield seen.add(wanted, outcomes)
        if seen.hopeless or _is_done(seen, settings, floor):
            break
        model.learn(workload, *seen.measured())
    finalists = seen.finalists(settings.finalists)
    if len(finalists) > 1:
        outcomes = measure([trial.schedule for trial in finalists], True, None)
        yield [
            Trial(trial.number, trial.schedule, outcome, final=True)
            for trial, outcome in zip(finalists, outcomes, strict=True)
        ]


class _Seen:
    """What has been measured."""

    def __init__(self, analytic: Layout) -> None:
        self.analytic = analytic
        self.trials: list[Trial] = []
        self.points: dict[Layout, Point] = {}
        self.improved = 0  # the trial of the last improvement
        self.best: float | None = None

    def add(self, schedules: Sequence[Layout], outcomes: Sequence[Outcome]) -> list[Trial]:
        """The new trials."""
        new = []
        for schedule, outcome in zip(schedules, outcomes, strict=True):
            new.append(Trial(len(self.trials), schedule, outcome))
            self.trials.append(new[-1])
            cost = outcome.cost
            if cost is not None and (self.best is None or cost < self.best * IMPROVEMENT):
                self.improved = new[-1].number
            if cost is not None:
                self.best = cost if self.best is None else min(self.best, cost)
        return new

    def measured(self) -> tuple[list[Layout], np.ndarray]:
        """All schedules with their costs, infinite for those that failed."""
        costs = [math.inf if t.outcome.cost is None else t.outcome.cost for t in self.trials]
        return [trial.schedule for trial in self.trials], np.array(costs)

    @property
    def hopeless(self) -> bool:
        """Whether nothing could be measured at all."""
        return self.best is None

    def ranked(self) -> list[Trial]:
        """Those that were measured, best first."""
        measured = [trial for trial in self.trials if trial.outcome.cost is not None]
        return sorted(measured, key=lambda trial: (trial.outcome.cost, trial.number))

    def finalists(self, count: int) -> list[Trial]:
        """The best ones, and the analytic choice."""
        first = [trial for trial in self.ranked() if trial.number == 0]
        others = [trial for trial in self.ranked() if trial.number != 0]
        return [*first, *others[: max(0, count - 1)]] if count else []


def _is_done(seen: _Seen, settings: Settings, floor: float | None) -> bool:
    if floor is not None and seen.best is not None and seen.best <= floor * NEAR_FLOOR:
        return True
    return len(seen.trials) - seen.improved > max(2 * settings.batch, settings.trials * PATIENCE)


def _proposals(
    workload: Workload,
    space: Space,
    model: Model,
    seen: _Seen,
    settings: Settings,
    rng: random.Random,
    count: int,
) -> list[Point]:
    """Points to measure next: the highest ranked, and some of any rank."""
    if space.size == 0 or count < 1:
        return []
    taken = {trial.schedule for trial in seen.trials} | {seen.analytic}
    if space.size <= RANKED_WHOLE:
        pool = _unlike(iter(space), taken)
    else:
        pool = _evolved(workload, space, model, seen, taken, rng)
    # Trees give many schedules the same score: among those, any order is as good.
    rng.shuffle(pool)
    ranked = _ranked(workload, model, pool)
    explored = min(len(ranked), round(count * settings.explore))
    chosen = ranked[: count - explored]
    rest = ranked[count - explored :]
    return [*chosen, *rng.sample(rest, min(explored, len(rest)))]


def _evolved(
    workload: Workload,
    space: Space,
    model: Model,
    seen: _Seen,
    taken: set[Layout],
    rng: random.Random,
) -> list[Point]:
    """Unmeasured points, from the best measured ones and random ones by mutation."""
    elites = [
        seen.points.get(trial.schedule) or space.nearest(trial.schedule)
        for trial in seen.ranked()[:ELITES]
    ]
    population = [*elites, *(space.sample(rng) for _ in range(POPULATION - len(elites)))]
    found = _unlike(iter(population), taken)
    for _ in range(GENERATIONS):
        children = (space.mutate(rng.choice(population), rng) for _ in range(POPULATION))
        found = _unlike(itertools.chain(found, children), taken)
        population = [*elites, *_ranked(workload, model, found)[: POPULATION // 2]]
    return found


def _ranked(workload: Workload, model: Model, points: list[Point]) -> list[Point]:
    """The most promising first."""
    if not points:
        return []
    scores = model.scores(workload, [point.schedule for point in points])
    return [points[n] for n in np.argsort(-scores, kind="stable")]


def _unlike(points: Iterator[Point], taken: set[Layout]) -> list[Point]:
    """Each schedule once, and none that was measured."""
    found = {point.schedule: point for point in points}
    return [point for schedule, point in found.items() if schedule not in taken]
