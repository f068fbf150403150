"""The systems, in the order of the table."""

from __future__ import annotations

from bench.systems import library, pytorch, tvm, xla
from bench.systems.base import Gpu, Prepared, System

__all__ = ["SEARCHING", "Gpu", "Prepared", "System", "all_systems", "why_missing"]

# Systems that try candidates on the GPU while they compile: slow, and not beside other work.
SEARCHING = ("inductor-max", "metaschedule", "stitch-measured")


def all_systems(records: str | None = None, trials: int = 64) -> dict[str, System]:
    """Every system by name; records is a store for tvm_stitch, trials MetaSchedule's budget."""
    found = [
        *pytorch.systems(),
        xla.Xla(),
        *library.systems(),
        *tvm.systems(records, trials),
    ]
    return {system.name: system for system in found}


def why_missing(system: System) -> str | None:
    """Why the system cannot run here, if so; one that is installed but broken says how."""
    try:
        return system.missing()
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return f"it is installed but does not load: {type(error).__name__}: {lines[0][:200]}"
