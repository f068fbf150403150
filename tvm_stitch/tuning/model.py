"""What is likely to be fast: schedules in order of a score, learnt from measurements.

The analytic cost model ranks the schedules of one workload; where XGBoost is installed, its trees
correct that by their features. They learn from what was measured in this search, and start from
earlier records on the same GPU and from what the package ships for its architecture.
"""

from __future__ import annotations

import importlib.resources
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tvm_stitch.tuning.features import NAMES, in_order
from tvm_stitch.tuning.records import Record
from tvm_stitch.tuning.workload import Layout, Workload

if TYPE_CHECKING:
    from importlib.abc import Traversable

PARAMETERS = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 8,
    "eta": 0.08,
    "max_depth": 6,
    "min_child_weight": 0.1,
    "tree_method": "exact",
    # One thread: sums of floats in one order, so that a search can be repeated.
    "nthread": 1,
    "seed": 0,
}
ROUNDS = 60
# Score that half the predicted time is worth. Trees that start from nothing rank some kernels worse
# than the analytic model does: the sum of 64 x 30000 took them 26 trials to be within 3 % of the
# best, and 2 with this; layer norm backward of 8192 x 1024 took 22, and 12 with this, 10 with 10.
PRIOR = 4.0
FEWEST = 6  # measurements before a model of one's own is worth asking
MOST = 2000  # earlier measurements that a search learns from
SHIPPED = "models"
MISSING = (
    "xgboost is not installed: schedules are ranked by the analytic model alone; "
    "install it with `pip install 'tvm-stitch[tune]'`"
)


@dataclass(frozen=True, eq=False)
class Example:
    """Schedules of one workload, as rows of features, with their costs; infinite if they failed."""

    rows: np.ndarray
    costs: np.ndarray


class Model(Protocol):
    """Says which schedules to try."""

    def learn(self, workload: Workload, schedules: Sequence[Layout], costs: np.ndarray) -> None:
        """Take all measurements of a workload so far."""

    def scores(self, workload: Workload, schedules: Sequence[Layout]) -> np.ndarray:
        """Higher is better."""


class AnalyticModel:
    """The package's own cost model; learns nothing."""

    def learn(self, workload: Workload, schedules: Sequence[Layout], costs: np.ndarray) -> None:
        """Nothing."""

    def scores(self, workload: Workload, schedules: Sequence[Layout]) -> np.ndarray:
        """The predicted time, negated."""
        times = [workload.predicted_us(schedule) for schedule in schedules]
        return -np.array([np.inf if time is None else time for time in times])


@dataclass
class XGBoostModel:
    """Ranks schedules within a workload."""

    examples: list[Example] = field(default_factory=list)  # of other searches
    shipped: bytes | None = None  # a model of the same architecture
    _own: dict[str, Example] = field(default_factory=dict)
    _rows: dict[tuple[str, Layout], list[float]] = field(default_factory=dict)
    _trees: Trees | None = None

    def learn(self, workload: Workload, schedules: Sequence[Layout], costs: np.ndarray) -> None:
        """Train on these measurements and all that was known before."""
        self._own[workload.key] = Example(self._features(workload, schedules), costs)
        self._train()

    def scores(self, workload: Workload, schedules: Sequence[Layout]) -> np.ndarray:
        """What the trees say; the analytic model before there are any."""
        if self._trees is None:
            self._train()
        if self._trees is None:
            return AnalyticModel().scores(workload, schedules)
        return self._trees.scores(self._features(workload, schedules))

    def _features(self, workload: Workload, schedules: Sequence[Layout]) -> np.ndarray:
        for schedule in schedules:
            if (workload.key, schedule) not in self._rows:
                self._rows[workload.key, schedule] = in_order(workload.features(schedule))
        return np.array([self._rows[workload.key, schedule] for schedule in schedules])

    def _train(self) -> None:
        known = [*self.examples, *self._own.values()]
        base = None if self.shipped is None else Trees.load(self.shipped)
        enough = sum(len(each.costs) for each in known) >= FEWEST
        self._trees = train(known, base) if enough else base


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees on top of others, or of the analytic model.

    They know the features by name: some that are new since a model was trained are nothing to it,
    those that it misses are unknown.
    """

    booster: Any
    base: Trees | None = None

    @staticmethod
    def load(text: bytes) -> Trees:
        """What `dump` gave."""
        import xgboost

        booster = xgboost.Booster(PARAMETERS)
        booster.load_model(bytearray(text))
        return Trees(booster)

    def dump(self) -> bytes:
        """As JSON; a model that is shipped has no base."""
        assert self.base is None
        return bytes(self.booster.save_raw("json"))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Higher is better; of rows of all NAMES."""
        known = {name: number for number, name in enumerate(NAMES)}
        columns = [
            rows[:, known[name]] if name in known else np.full(len(rows), np.nan)
            for name in self.booster.feature_names
        ]
        matrix = _matrix(np.stack(columns, axis=1), self.booster.feature_names)
        matrix.set_base_margin(_start(rows, self.base))
        scores: np.ndarray = self.booster.predict(matrix, output_margin=True)
        return scores


def _start(rows: np.ndarray, base: Trees | None) -> np.ndarray:
    """What trees add to."""
    if base is not None:
        return base.scores(rows)
    predicted = rows[:, NAMES.index("predicted_us")]
    # What the analytic model cannot tell is taken to be as slow as the slowest.
    slowest = np.max(predicted, initial=0.0, where=np.isfinite(predicted))
    return -PRIOR * np.where(np.isfinite(predicted), predicted, slowest)


def _matrix(rows: np.ndarray, names: Sequence[str], **given: Any) -> Any:
    import xgboost

    return xgboost.DMatrix(rows, feature_names=list(names), nthread=1, **given)


def train(examples: Sequence[Example], base: Trees | None = None) -> Trees:
    """Trees that rank within each example; `base` are trees to start from."""
    import xgboost

    rows = np.concatenate([each.rows for each in examples])
    # Relative to the best of the workload: 1 is the best, failed ones are 0.
    labels = np.concatenate([np.nan_to_num(each.costs.min() / each.costs) for each in examples])
    groups = np.repeat(np.arange(len(examples)), [len(each.costs) for each in examples])
    matrix = _matrix(rows, NAMES, label=labels, qid=groups)
    matrix.set_base_margin(_start(rows, base))
    return Trees(xgboost.train(PARAMETERS, matrix, ROUNDS), base)


def examples_of(records: Iterable[Record], most: int = MOST) -> list[Example]:
    """What the last so many records teach, an example for every search."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    for record in [r for r in records if r.features and not r.final][-most:]:
        groups.setdefault((record.workload, record.seed, record.gpu, record.unit), []).append(
            record
        )
    found = []
    for group in groups.values():
        rows = [in_order(dict(record.features)) for record in group]
        costs = [np.inf if record.cost is None else record.cost for record in group]
        if len(group) > 1 and np.isfinite(costs).any():
            found.append(Example(np.array(rows, "float64"), np.array(costs, "float64")))
    return found


def make_model(examples: Sequence[Example], capability: int | None) -> Model:
    """The best model there is here: XGBoost, or the analytic one with a warning.

    capability: of the GPU whose times are measured; None where something else is, of which no
        shipped model knows.
    """
    if not has_xgboost():
        warnings.warn(MISSING, UserWarning, stacklevel=2)
        return AnalyticModel()
    return XGBoostModel(list(examples), None if capability is None else shipped_model(capability))


def has_xgboost() -> bool:
    """Whether xgboost can be imported."""
    try:
        import xgboost  # noqa: F401
    except ImportError:
        return False
    return True


@cache
def shipped_model(capability: int) -> bytes | None:
    """The model that comes with the package for GPUs of a compute capability, if any.

    It ranks the schedules of a kernel by numbers that mean the same everywhere, so where there is
    none of this architecture, the nearest older one is a start, then the nearest newer one.
    """
    folder = importlib.resources.files("tvm_stitch.tuning") / SHIPPED
    found = _architectures(folder)
    older = [each for each in found if each <= capability]
    chosen = max(older) if older else min(found, default=None)
    return None if chosen is None else (folder / f"sm_{chosen}.json").read_bytes()


def _architectures(folder: Traversable) -> list[int]:
    """The compute capabilities of the models in a folder."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [int(match[1]) for name in names if (match := re.fullmatch(r"sm_(\d+)\.json", name))]
