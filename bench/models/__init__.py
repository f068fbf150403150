"""Whole models with random weights."""

from __future__ import annotations

from bench.case import Case


def cases() -> list[Case]:
    """Every model's cases."""
    return []
