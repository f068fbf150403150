"""Workloads whose whole space is measured besides those of the suite: its functions, other shapes.

Spaces of row kernels have thousands of schedules; these have 170 to 350. By the cost model, one or
two in a hundred are within 3 % of the best, and the analytic choice is not one of those.
"""

from __future__ import annotations

from bench.case import Case
from bench.cases import backward, suite


def cases() -> list[Case]:
    """Backward passes of norms: rows that end where vectors do and rows that do not."""

    def case(define, label, rows, columns, dtype):
        name = f"{label.lower().replace(' ', '-')}-{rows}x{columns}-{dtype}"
        sizes = {"rows": rows, "columns": columns, "dtype": dtype}
        small = {"rows": 12, "columns": 40, "dtype": dtype}
        return Case(name, f"{label}, {rows}×{columns} {dtype}", "spaces", define, sizes, small)

    layer, rms = backward.layer_norm_backward, backward.rms_norm_backward
    return [
        case(layer, "layer norm backward", 33000, 123, "float32"),
        case(rms, "RMS norm backward", 33000, 123, "bfloat16"),
        case(rms, "RMS norm backward", 4096, 768, "float32"),
        case(rms, "RMS norm backward", 8192, 1024, "float32"),
        case(layer, "layer norm backward", 4096, 768, "bfloat16"),
        case(layer, "layer norm backward", 8192, 1024, "bfloat16"),
    ]


def known(suite_name: str) -> list[Case]:
    """The cases of a suite, then those above."""
    return [*suite(suite_name), *cases()]


def find(name: str) -> Case:
    """The case of that name in any suite, or of those above."""
    return next(case for case in known("all") if case.name == name)
