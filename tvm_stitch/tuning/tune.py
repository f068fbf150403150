"""Tuning a model: searches every kernel and records what was measured.

In: a Relax module, a target, a record store. Out: a Tuning, and records that compile, pipeline and
explain apply with `database=`. What the store already holds of the same search is not measured
again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

import tvm

from tvm_stitch.errors import InputError
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.options import Options
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import full_target
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.measuring.measure import MICROSECONDS, LocalRunner, Runner, SimtRunner
from tvm_stitch.tuning.measuring.rpc import RpcRunner
from tvm_stitch.tuning.model import Model, examples_of, make_model
from tvm_stitch.tuning.progress import Bar, Progress, State, silent
from tvm_stitch.tuning.records import PACKAGE, Record, handicapped
from tvm_stitch.tuning.search import Settings, Trial, search
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.workload import Layout, Workload
from tvm_stitch.tuning.workloads import Shapes, find_workloads

RUNNERS = ("local", "rpc", "simt")
DIGITS = 5  # of features in records


@dataclass(frozen=True)
class Tuned:
    """What the search of one kernel came to."""

    title: str
    unit: str  # of the costs
    analytic: float | None  # None where nothing could be measured
    best: float | None
    floor: float | None  # microseconds that moving its bytes takes
    trials: int
    failed: int
    why: str  # why nothing could be measured, if so

    @property
    def gain(self) -> float:
        """How much faster the best schedule is than the analytic choice."""
        return self.analytic / self.best if self.analytic and self.best else 1.0


@dataclass(frozen=True)
class Tuning:
    """All kernels of a model; `str()` is a table."""

    kernels: tuple[Tuned, ...]
    symbolic: tuple[str, ...]  # kernels that were left out for want of sizes
    unreadable: tuple[str, ...]  # lines of the store that are no records

    def __str__(self) -> str:
        lines = [f"{'chosen':>12} {'tuned':>12} {'gain':>6} {'trials':>6}  kernel"]
        for kernel in self.kernels:
            costs = [
                "-" if cost is None else f"{cost:.6g} {kernel.unit}"
                for cost in (kernel.analytic, kernel.best)
            ]
            row = f"{costs[0]:>12} {costs[1]:>12} {kernel.gain:6.3f} {kernel.trials:6}"
            lines.append(f"{row}  {kernel.title}{kernel.why and f': {kernel.why}'}")
        if not self.kernels and not self.symbolic:
            lines.append("nothing to measure: no kernel of this model is stitched; see `explain`")
        lines += [f"not tuned, sizes are not known: {title}" for title in self.symbolic]
        return "\n".join([*lines, *(f"skipped: {line}" for line in self.unreadable)])

    def to_json(self) -> dict[str, Any]:
        """All of it, as what json.dump writes."""
        kernels = [{**asdict(kernel), "gain": kernel.gain} for kernel in self.kernels]
        return {
            "kernels": kernels,
            "symbolic": list(self.symbolic),
            "unreadable": list(self.unreadable),
        }


def tune(
    mod: tvm.IRModule,
    target: Any = "cuda",
    database: str | os.PathLike[str] = "records.jsonl",
    trials: int = 64,
    runner: str | Runner = "local",
    seed: int = 0,
    options: Options | None = None,
    shapes: Shapes | None = None,
    tracker: str | None = None,
    key: str = "gpu",
    jobs: int | None = None,
    progress: Progress | bool = False,
) -> Tuning:
    """Search the schedules of a model's kernels and add what was measured to a record store.

    trials: schedules, or tiles of a product on tensor cores, that are measured of every kernel, at
        most.
    runner: "local" times on this machine's GPU, "rpc" on those that the TVM RPC tracker at
        `tracker` ("host:port") knows under `key`, "simt" counts memory accesses on the CPU.
    seed: of the search; the same seed goes on where an earlier search stopped.
    shapes: sizes of the model's symbolic dimensions, such as {"batch": [1, 8], "seq": [128]};
        every combination is tuned.
    jobs: processes that compile at once (default: one for each core).
    progress: True for a line on standard error, or a function that is told after every batch.
    """
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"tune takes a Relax IRModule, not {type(mod).__name__}")
    cuda = full_target(target)
    settings = Settings(trials=trials, seed=seed)
    found = find_workloads(mod, cuda, options, shapes)
    store = Store(database)
    contents = store.read()
    told = progress if callable(progress) else Bar() if progress else silent
    measuring = make_runner(runner, cuda, tracker, key, jobs) if found.workloads else None
    try:
        session = _Session(store, contents.records, measuring, settings, told, options)
        kernels = session.run(found.workloads)
    finally:
        if measuring is not None and measuring is not runner:
            measuring.close()
    unreadable = tuple(f"{store.path}, {problem}" for problem in contents.unreadable)
    return Tuning(kernels, found.symbolic, unreadable)


def make_runner(
    runner: str | Runner,
    target: tvm.target.Target,
    tracker: str | None = None,
    key: str = "gpu",
    jobs: int | None = None,
) -> Runner:
    """A runner by its name; one that exists stays as it is."""
    if not isinstance(runner, str):
        return runner
    if runner not in RUNNERS:
        raise InputError(f"runner {runner!r} is not one of {', '.join(RUNNERS)}")
    if runner == "rpc":
        if tracker is None:
            raise InputError('runner "rpc" needs a tracker, such as tracker="host:9190"')
        return RpcRunner(target, tracker, key, jobs)
    return LocalRunner(target, jobs) if runner == "local" else SimtRunner(target, jobs)


class _Session:
    """One call of tune: kernels one after the other, each model knowing the kernels before."""

    def __init__(
        self,
        store: Store,
        known: Sequence[Record],
        runner: Runner | None,
        settings: Settings,
        progress: Progress,
        options: Options | None,
    ) -> None:
        self.store, self.known, self.runner = store, known, runner
        self.settings, self.progress = settings, progress
        self.schemes = options.ways if options is not None else SCHEMES
        self.measured = 0

    def run(self, workloads: Sequence[Workload]) -> tuple[Tuned, ...]:
        """Tune each."""
        if self.runner is None:
            return ()
        model = self._model(workloads)
        return tuple(
            self._tune(workload, model, number, len(workloads))
            for number, workload in enumerate(workloads, 1)
        )

    def _model(self, workloads: Sequence[Workload]) -> Model:
        """A model that knows earlier searches, but nothing of this one: it must repeat itself."""
        assert self.runner is not None
        own = {workload.key for workload in workloads}
        gpu = self.runner.gpu_name(workloads[0])
        earlier = [
            record
            for record in self.known
            if (record.gpu, record.unit, record.package) == (gpu, self.runner.unit, PACKAGE)
            and not (record.seed == self.settings.seed and record.workload in own)
        ]
        is_timed = self.runner.unit == MICROSECONDS
        capability = workloads[0].device.capability if is_timed else None
        return make_model(examples_of(earlier), capability)

    def _tune(self, workload: Workload, model: Model, number: int, count: int) -> Tuned:
        assert self.runner is not None
        analytic = workload.choose(self.schemes)
        assert not isinstance(analytic, Refused), "a workload has an analytic choice"
        space = workload.space(self.schemes)
        is_timed = self.runner.unit == MICROSECONDS
        floor = workload.floor_us if is_timed else None
        settings = self.settings if is_timed else replace(self.settings, finalists=0)
        replay = _Replay(self.runner, workload, analytic, self._earlier(workload))
        trials: list[Trial] = []
        for batch in search(workload, space, analytic, model, replay, settings, floor):
            fresh = [trial for trial in batch if (trial.schedule, trial.final) in replay.fresh]
            if batch[0].number == 0 and batch[0].outcome.cost is None:
                # Not for the schedules' sake: what measures does not work, or not with this kernel.
                fresh = []
            seed = self.settings.seed
            self.store.append(record_of(self.runner, workload, trial, seed) for trial in fresh)
            self.measured += len(fresh)
            trials += batch
            self.progress(self._state(workload, trials, number, count, floor))
        self.progress(self._state(workload, trials, number, count, floor, done=True))
        return _summary(workload, trials, self.runner.unit, floor)

    def _earlier(self, workload: Workload) -> dict[tuple[Layout, bool], Outcome]:
        """What an interrupted search with this seed has measured."""
        assert self.runner is not None
        wanted = (
            workload.key,
            self.runner.gpu_name(workload),
            self.runner.unit,
            PACKAGE,
            self.settings.seed,
        )
        return {
            (record.schedule, record.final): Outcome(record.cost, record.error)
            for record in self.known
            if (record.workload, record.gpu, record.unit, record.package, record.seed) == wanted
        }

    def _state(
        self,
        workload: Workload,
        trials: Sequence[Trial],
        number: int,
        count: int,
        floor: float | None,
        done: bool = False,
    ) -> State:
        assert self.runner is not None
        tuned = _summary(workload, trials, self.runner.unit, floor)
        return State(
            number, count, workload.title, tuned.trials, self.settings.trials, self.measured,
            tuned.unit, tuned.analytic, tuned.best, floor, done, tuned.why,
        )  # fmt: skip


def record_of(runner: Runner, workload: Workload, trial: Trial, seed: int) -> Record:
    """What is kept of a trial."""
    values = workload.features(trial.schedule)
    return Record(
        workload=workload.key,
        family=workload.family,
        sizes=workload.sizes,
        title=workload.title,
        gpu=runner.gpu_name(workload),
        capability=workload.device.capability,
        package=PACKAGE,
        schedule=trial.schedule,
        cost=trial.outcome.cost,
        unit=runner.unit,
        how=runner.how,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seed=seed,
        trial=trial.number,
        final=trial.final,
        error=trial.outcome.error,
        # JSON has no way to write what is not a number.
        features=tuple(
            sorted((name, round(v, DIGITS)) for name, v in values.items() if math.isfinite(v))
        ),
    )


class _Replay:
    """Measures what no earlier run of the same search has measured."""

    def __init__(
        self,
        runner: Runner,
        workload: Workload,
        analytic: Layout,
        known: dict[tuple[Layout, bool], Outcome],
    ) -> None:
        self.runner, self.workload, self.analytic = runner, workload, analytic
        self.known = known
        self.fresh: set[tuple[Layout, bool]] = set()

    def __call__(
        self, schedules: Sequence[Layout], careful: bool, best: float | None
    ) -> list[Outcome]:
        """The outcomes, in order."""
        new = [schedule for schedule in schedules if (schedule, careful) not in self.known]
        if new:
            measure: Callable[..., list[Outcome]] = self.runner.measure
            outcomes = measure(self.workload, new, self.analytic, careful, best)
            for schedule, outcome in zip(new, outcomes, strict=True):
                self.known[schedule, careful] = outcome
                self.fresh.add((schedule, careful))
        return [self.known[schedule, careful] for schedule in schedules]


def _summary(workload: Workload, trials: Sequence[Trial], unit: str, floor: float | None) -> Tuned:
    """The best of what was measured side by side, or of all trials."""
    finals = [trial for trial in trials if trial.final and trial.outcome.cost is not None]
    first = [trial for trial in trials if not trial.final]
    costs = [(t.number, t.outcome.cost) for t in finals or first if t.outcome.cost is not None]
    analytic = [cost for number, cost in costs if number == 0]
    _, best = min(costs, key=lambda each: handicapped(each[1], each[0]), default=(0, None))
    errors = [trial.outcome.error for trial in first if trial.outcome.error]
    return Tuned(
        title=workload.title,
        unit=unit,
        analytic=analytic[0] if analytic else None,
        best=best,
        floor=floor,
        trials=len(first),
        failed=len(errors),
        why=errors[0] if errors and not costs else "",
    )
