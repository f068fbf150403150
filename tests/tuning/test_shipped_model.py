"""The model that the package ships, on the records of an H200 that it was trained on."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tvm
from check import H200

pytest.importorskip("xgboost")

from bench.tuning import curves
from bench.tuning.folder import Folder
from tvm_stitch.device import device_of
from tvm_stitch.tuning.model import Trees, examples_of, shipped_model
from tvm_stitch.tuning.records import MAX_LINE
from tvm_stitch.tuning.workload import workload_of

RESULTS = Folder(Path(__file__).parents[2] / "bench" / "results" / "h200" / "tuning")
HELD_OUT = 3
SEEDS = 5


@cache
def measured():
    return RESULTS.records()


@cache
def whole_spaces():
    return list(curves.exhausted(RESULTS))


def near(costs, optimum) -> int:
    """Trials until a search is near the best."""
    found = curves.running_best(costs)
    return next((n for n, cost in enumerate(found, 1) if cost <= curves.NEAR * optimum), len(found))


@pytest.mark.slow
def test_it_is_small_and_ranks():
    """Every search of the records, by the features that they keep."""
    shipped = shipped_model(90)
    assert shipped is not None and len(shipped) < MAX_LINE
    trees = Trees.load(shipped)
    agreements = []
    for example in examples_of(measured().searched, most=10**6):
        known = np.isfinite(example.costs)
        if known.sum() > 8:
            scores = trees.scores(example.rows[known])
            ranks = [np.argsort(np.argsort(each)) for each in (scores, -example.costs[known])]
            agreements.append(np.corrcoef(*ranks)[0, 1])
    assert len(agreements) > 40 and np.median(agreements) > 0.5


@pytest.mark.slow
def test_what_it_learns_holds_for_kernels_that_it_has_not_seen():
    """Without the records of some whole spaces, a search of these needs far fewer trials than
    chance does."""
    spaces = whole_spaces()[:HELD_OUT]
    keys = {whole.kernel.key for whole in spaces}
    records = (*measured().searched, *measured().exhausted)
    warm = curves.model_of_others(records, {r.family for r in records if r.workload in keys})
    learnt, drawn = [], []
    for whole in spaces:
        of = workload_of(tvm.ir.load_json(whole.kernel.function), device_of(H200))
        for seed in range(SEEDS):
            order = list(whole.table)
            np.random.default_rng(seed).shuffle(order)
            learnt.append(near(curves.learnt(of, whole, order[0], seed, warm), whole.optimum))
            drawn.append(near([whole.table[schedule] for schedule in order], whole.optimum))
    assert np.mean(learnt) <= np.mean(drawn) / 3
