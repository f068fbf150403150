"""How a kernel is laid out on the GPU: plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tvm_stitch.json_data import checked, count, parsed
from tvm_stitch.kernel.ir.mapping import RENAMED, SCHEMES, Mapping
from tvm_stitch.kernel.ir.read_mapping import mapping_from


@dataclass(frozen=True)
class Schedule:
    """The parts of a kernel, side by side by ranges of blocks of equally many threads.

    Where the length of rows or their number is known at run time only, the host launches a kernel
    by the first of this schedule, its `longer` one, the `longer` one's `longer` one and so on whose
    rows may be so long, and so many: one with `most_rows` is for no more than that.

    Where programs come in rounds, a fixed number of `blocks` iterates over the blocks that the
    mappings ask for, round after round; between two of them is a barrier, so all must be
    resident at once.
    """

    parts: tuple[Mapping, ...]
    longer: Schedule | None = None
    blocks: int = 0  # of a grid that goes through rounds; 0: as many as the parts take
    min_blocks_per_sm: int = 0  # of these, on a multiprocessor
    most_rows: int = 0  # that it is for; 0: any number

    @property
    def block_threads(self) -> int:
        """Threads of every block."""
        return self.parts[0].block_threads

    @property
    def told_blocks(self) -> int:
        """Blocks of a multiprocessor that the compiler is told to leave registers for; 0: any."""
        return self.min_blocks_per_sm or max(part.min_blocks_per_sm for part in self.parts)

    @property
    def scheme(self) -> str:
        """The widest scheme of the kernel."""
        if self.blocks:
            return "global"
        if len(self.parts) > 1:
            return "independent"
        return max((part.scheme for part in self.parts), key=SCHEMES.index)

    @property
    def schemes(self) -> frozenset[str]:
        """All schemes that it needs."""
        own = frozenset({self.scheme, *(part.scheme for part in self.parts)})
        return own if self.longer is None else own | self.longer.schemes

    @property
    def mapping(self) -> str:
        """One line for people; equal parts once."""
        counts: dict[str, int] = {}
        for part in self.parts:
            counts[str(part)] = counts.get(str(part), 0) + 1
        words = [f"{count} of {text}" for text, count in counts.items()]
        own = "; ".join(words) if len(self.parts) > 1 else str(self.parts[0])
        if self.blocks:
            own = (
                f"{self.blocks} blocks in rounds, {self.min_blocks_per_sm} a multiprocessor: {own}"
            )
        most = min((p.capacity for p in self.parts if not p.any_length), default=0)
        if self.longer is None or not (most or self.most_rows):
            return own
        rows = f"up to {self.most_rows} rows" if self.most_rows else "rows"
        limits = f"{rows} of up to {most} elements" if most else rows
        return f"{own}, for {limits}; for {self._others} {self.longer.mapping}"

    @property
    def _others(self) -> str:
        return "others" if self.most_rows else "longer ones"

    def to_json(self) -> str:
        """The schedule as a JSON object."""
        return json.dumps(self._data(), sort_keys=True)

    def _data(self) -> dict[str, Any]:
        parts = [part.data for part in self.parts]
        longer = {} if self.longer is None else {"longer": self.longer._data()}
        rounds = (
            {"blocks": self.blocks, "min_blocks_per_sm": self.min_blocks_per_sm}
            if self.blocks
            else {}
        )
        few = {"most_rows": self.most_rows} if self.most_rows else {}
        return {"parts": parts, **longer, **rounds, **few}

    @staticmethod
    def from_json(text: str) -> Schedule:
        """Read what to_json wrote; refuse unknown or missing fields and wrong types."""
        return _schedule(parsed(text, "schedule"))


def _schedule(data: Any) -> Schedule:
    readers = {
        "parts": _parts,
        "longer": _schedule,
        "blocks": count,
        "min_blocks_per_sm": count,
        "most_rows": count,
    }
    return checked(Schedule, data, "schedule", readers, RENAMED)


def _parts(data: Any) -> tuple[Mapping, ...]:
    if not isinstance(data, list) or not data:
        raise ValueError("it must be a list of at least one mapping")
    return tuple(map(mapping_from, data))
