"""Which tests are meant to notice that a file of kernel/ is broken, the quickest first."""

from __future__ import annotations

from pathlib import Path

ROWS = ("choose_table", "choose", "golden", "emit", "sizes")
PRODUCTS = ("products", "golden")
TENSOR = ("tensor", "tensor_groups", "golden")
ROUNDS = ("rounds", "persistent_rows")

# By the name of the file; what is not here belongs to PRODUCTS, TENSOR or ROWS.
TESTS: dict[str, tuple[str, ...]] = {
    "access": ("along", "turning", *ROWS),
    "along": ("along", "emit"),
    "arrive": ("wide", "golden", "legal"),
    "band": (*ROUNDS, "nvcc"),
    "build": ("emit", "fallback", "products"),
    "centred": ("wide", "persistent_rows", "golden"),
    "check": ("check", "emit"),
    "choose": ("choose_table", "choose", "side_by_side", "symbolic", "legal"),
    "choose_grid": ("choose_table", "grid", "choose", "legal"),
    "choose_product": (*PRODUCTS, "legal"),
    "choose_rounds": ("choose_table", *ROUNDS, "choose", "legal"),
    "choose_rows": ("choose_table", "choose", "flight", "wide", "legal"),
    "choose_tensor": TENSOR,
    "chunks": ("choose_table", "sizes", "emit", "grid"),
    "classify": ("classify", "fallback"),
    "cluster": ("wide", "golden", "simt_hazards"),
    "columns": ("grid", "rounds"),
    "cost": ("cost", "planner"),
    "crossing": ROUNDS,
    "default": ("cost", "planner"),
    "demand": ("emit", "program", "rounds"),
    "emit": ("golden", "side_by_side", "in_step", "symbolic", "emit", *ROUNDS),
    "flight": ("choose_table", "flight", "golden", "choose"),
    "frame": ("golden", "emit", "sizes", "pieces"),
    "grid": ("grid", "golden"),
    "in_step": ("in_step", "golden"),
    "launch": ("golden", "emit", "symbolic"),
    "legal": ("choose_table", "legal", "space", "choose"),
    "load_now": PRODUCTS,
    "memory": ("choose_table", "choose", "emit", "wide"),
    "moments": ("wide", "persistent_rows", "emit"),
    "online": ("choose_table", "wide", "choose", "golden"),
    "part": ("golden", "emit", "sizes"),
    "passes": ("emit", "products", "program"),
    "position": ("golden", "emit", "sizes", "turning"),
    "profile": ("profile", "cost"),
    "profile_product": ("profile", "cost"),
    "program": ("program", "emit"),
    "programs": ("program", "emit", "rounds"),
    "reduce": ("golden", "emit", "wide"),
    "room": ("choose_table", "choose", "legal", "wide"),
    "rounds": (*ROUNDS, "program"),
    "schedule": ("schedule", "legal", "choose"),
    "space": ("program", "pieces", "emit"),
    "split": ("program", "products", "emit"),
    "stage": ("stage", "emit", "program"),
    "stay": ("choose_table", "persistent_rows", "rounds"),
    "persistent_rows": ("persistent_rows", "rounds"),
    "step": ("golden", "emit"),
    "tile": ("tile", "golden"),
    "tiling": ("tile", "golden"),
    "waiting": ("choose_table", "persistent_rows", "rounds"),
    "reverse_blocks": ("turning",),
    "widen": ("widen", "golden"),
    "writer": ("golden", "emit", "sizes"),
}


def meant_to_notice(file: str) -> tuple[str, ...]:
    """The test files for a file, as arguments of pytest."""
    stem = Path(file).stem
    family = PRODUCTS if stem.startswith("product") else TENSOR if "tensor" in stem else ROWS
    names = TESTS.get(stem, family)
    return tuple(f"tests/test_{name}.py" for name in names)
