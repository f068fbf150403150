"""Scattered sums on threads: plain data, as all Mappings are."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.kernel.ir.mapping import Mapping


@dataclass(frozen=True)
class Scattered(Mapping):
    """Rows that sum what indices send to them: groups of blocks iterate, each over its piece.

    Idle threads have no element of their row. They list and sort updates as the others do, and add
    up some of a row that many indices name.
    """

    rows: int
    vector: int
    steps: int
    blocks: int
    min_blocks_per_sm: int = 1
    idle: int = 0
    # Whether each block sorts out a chunk of the indices for all others, which wait for it.
    partitioned: bool = False
    split = True
    cyclic = True  # rows that many indices name may be neighbours, as a text's first words are
    kind = "scattered"

    @property
    def scheme(self) -> str:
        """The widest way in which values flow."""
        return "global" if self.partitioned else super().scheme

    def __str__(self) -> str:
        """One line for people."""
        return super().__str__() + (
            ", indices sorted out by all blocks" if self.partitioned else ""
        )
