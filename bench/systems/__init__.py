"""The systems, in the order of the table."""

from __future__ import annotations

from bench.systems import library, pytorch, tvm, xla
from bench.systems.base import Gpu, Prepared, System

__all__ = ["Gpu", "Prepared", "System", "all_systems"]


def all_systems(records: str | None = None, trials: int = 64) -> dict[str, System]:
    """Every system by name; records is a store for tvm_stitch, trials MetaSchedule's budget."""
    found = [
        *pytorch.systems(),
        xla.Xla(),
        *library.systems(),
        *tvm.systems(records, trials),
    ]
    return {system.name: system for system in found}
