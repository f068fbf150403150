"""How a kernel is laid out on the GPU: plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping, mapping_from, renamed


@dataclass(frozen=True)
class Schedule:
    """The parts of a kernel, side by side by ranges of blocks of equally many threads.

    Where the length of rows is known at run time only, the host launches a kernel by the first of
    this schedule, its `longer` one, the `longer` one's `longer` one and so on whose rows may be so
    long.

    Where programs come in rounds, a fixed number of `blocks` takes turns at the blocks that the
    mappings ask for, round after round; between two of them all blocks meet, so all must be
    resident at once.
    """

    parts: tuple[Mapping, ...]
    longer: Schedule | None = None
    blocks: int = 0  # of a grid that goes through rounds; 0: as many as the parts take
    min_blocks_per_sm: int = 0  # of these, on a multiprocessor

    @property
    def block_threads(self) -> int:
        """Threads of every block."""
        return self.parts[0].block_threads

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
        return own if self.longer is None else f"{own}; for longer rows {self.longer.mapping}"

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
        return {"parts": parts, **longer, **rounds}

    @staticmethod
    def from_json(text: str) -> Schedule:
        """Read what to_json wrote; refuse unknown or missing fields and wrong types."""
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise InputError(f"schedule is not JSON: {error}") from None
        return _schedule(data)


def _schedule(data: Any) -> Schedule:
    known = {"parts", "longer", "blocks", "min_blocks_per_sm"}
    data = renamed(data)
    if not isinstance(data, dict) or "parts" not in data or set(data) - known:
        raise InputError("schedule must be a JSON object with the field parts")
    if not isinstance(data["parts"], list) or not data["parts"]:
        raise InputError("schedule field parts must be a list of at least one mapping")
    longer = _schedule(data["longer"]) if "longer" in data else None
    counts = [data.get(name, 0) for name in ("blocks", "min_blocks_per_sm")]
    if any(type(count) is not int or count < 0 for count in counts):
        raise InputError(
            f"schedule fields blocks and min_blocks_per_sm must be counts, not {counts}"
        )
    return Schedule(tuple(map(mapping_from, data["parts"])), longer, *counts)
