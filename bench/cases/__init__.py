"""The suites: which cases there are, in the order they are measured."""

from __future__ import annotations

from bench.case import Case
from bench.cases import (
    across,
    across_backward,
    backward,
    blocks,
    cells,
    irregular,
    multi_tensor,
    optimizer,
    peers,
    plans,
    pooling,
    products,
    rows,
    transposes,
    whole,
)


def _subgraphs() -> list[Case]:
    parts = (
        peers, irregular, backward, blocks, cells, products, transposes, optimizer, whole, plans,
        across, across_backward, pooling, multi_tensor, rows,
    )  # fmt: skip
    return [case for part in parts for case in part.cases()]


def _models() -> list[Case]:
    from bench import models

    return models.cases()


# What matters most comes first: an interrupted run has measured that.
SUITES = {"subgraphs": _subgraphs, "models": _models}


def suite(name: str) -> list[Case]:
    """The cases of a suite, or of all suites for "all"."""
    if name == "all":
        return [case for each in SUITES.values() for case in each()]
    return SUITES[name]()


def find(name: str) -> Case:
    """The case of that name in any suite."""
    return next(case for case in suite("all") if case.name == name)
