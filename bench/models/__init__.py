"""Whole models with random weights: inference and, where they are trained like that, one step."""

from __future__ import annotations

from bench.case import Case
from bench.models import diffusion, recurrent, transformers


def cases() -> list[Case]:
    """Every model's cases."""
    return [*transformers.cases(), *recurrent.cases(), *diffusion.cases()]
