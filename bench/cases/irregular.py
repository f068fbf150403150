"""Shapes that a fixed thread mapping serves badly: very many short rows, few very long ones."""

from __future__ import annotations

from bench.case import Array, Case, Workload
from bench.cases.rows import softmax


def row_sum(rows: int, columns: int) -> Workload:
    """Sum of every row."""

    def function(x):
        return x.sum(-1)

    return Workload(function, function, (Array((rows, columns)),), rowwise=(0,))


def row_moments(rows: int, columns: int) -> Workload:
    """Mean and variance of every row: two reductions, the second over what the first gave."""

    def function(x):
        mean = x.mean(-1)
        centred = x - mean[:, None]
        return mean, (centred * centred).mean(-1)

    # Means are near zero by chance; a shift keeps their relative error meaningful.
    return Workload(function, function, (Array((rows, columns), shift=1.0),), rowwise=(0,))


def cases() -> list[Case]:
    """Row reductions of the shapes published for irregular mappings, and a softmax of few rows."""
    small = {"rows": 11, "columns": 37}

    def case(define, label, rows, columns):
        name = f"{label.replace(' ', '-')}-{rows}x{columns}"
        title = f"{label}, {rows}×{columns} fp32"
        return Case(name, title, "irregular", define, {"rows": rows, "columns": columns}, small)

    return [
        *(
            case(row_sum, "row sum", *shape)
            for shape in [(750000, 32), (64, 30000), (11000, 123), (11000, 12345)]
        ),
        case(row_moments, "row moments", 750000, 32),
        case(row_moments, "row moments", 64, 30000),
        case(row_moments, "row moments", 11000, 123),
        Case(
            "softmax-64x30000",
            "softmax, 64×30000 fp32",
            "irregular",
            softmax,
            {"rows": 64, "columns": 30000, "dtype": "float32"},
            {**small, "dtype": "float32"},
        ),
    ]
