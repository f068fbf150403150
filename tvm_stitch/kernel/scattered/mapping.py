"""Scattered sums on threads: plain data, as all Mappings are."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.kernel.ir.mapping import Mapping


@dataclass(frozen=True)
class Scattered(Mapping):
    """Rows that sum what indices send to them: groups of blocks iterate, each over its piece."""

    rows: int
    vector: int
    steps: int
    blocks: int
    min_blocks_per_sm: int = 1
    split = True
    kind = "scattered"
