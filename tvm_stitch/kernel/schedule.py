"""How one Program is laid out on the GPU: plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from tvm_stitch.errors import InputError

# What flows between stages lives, in order of reach, in these places.
SCHEMES = ("local", "warp", "regional")


@dataclass(frozen=True)
class Schedule:
    """The mapping of rows and columns to threads, and where values wait for their readers.

    A block works on `rows` rows at once; `threads` threads share a row, each moves `vector`
    elements at a time and does so `steps` times: columns below `threads * vector * steps` (less
    the peeled ones) are covered. A program without reductions is one long row that `split` blocks
    share. The threads of a row are a power of two, so that they reduce in a butterfly.
    """

    scheme: str  # how the threads of a row exchange values: one of SCHEMES
    threads: int  # threads that share a row
    rows: int  # rows side by side in a block
    vector: int  # elements a thread moves at once
    steps: int  # vectors of its row that a thread handles
    residence: str = "register"  # kept values wait in the "register" or in "shared" memory
    peeled: bool = False  # rows start misaligned: vectors begin at the first aligned element
    split: bool = False  # the row is split over blocks (nothing is reduced along it)

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        return self.threads * self.rows

    @property
    def reach(self) -> int:
        """Columns that the threads of a row cover together."""
        return self.threads * self.vector * self.steps

    @property
    def mapping(self) -> str:
        """One line for people."""
        where = "" if self.residence == "register" else f", row in {self.residence} memory"
        peel = ", peeled" if self.peeled else ""
        if self.split:
            each = self.vector * self.steps
            return f"{self.threads} threads a block, {each} elements a thread ({self.vector} wide)"
        return (
            f"{self.threads} threads a row, {self.rows} rows a block, {self.steps} x {self.vector} "
            f"elements a thread{where}{peel}"
        )

    def to_json(self) -> str:
        """The schedule as a JSON object."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Schedule:
        """Read what to_json wrote; refuse unknown or missing fields and wrong types."""
        try:
            data: Any = json.loads(text)
        except ValueError as error:
            raise InputError(f"schedule is not JSON: {error}") from None
        known = {field.name: field.type for field in fields(Schedule)}
        types = {"str": str, "int": int, "bool": bool}
        if not isinstance(data, dict) or set(data) - set(known):
            raise InputError(f"schedule must be a JSON object with the fields {sorted(known)}")
        for name, value in data.items():
            if type(value) is not types[str(known[name])]:
                raise InputError(f"schedule field {name} must be {known[name]}, not {value!r}")
        try:
            return Schedule(**data)
        except TypeError as error:
            raise InputError(f"schedule is incomplete: {error}") from None
