"""How a kernel is laid out on the GPU: plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from tvm_stitch.errors import InputError

WARP = 32  # threads that exchange registers
MAX_BLOCK_THREADS = 1024
# How values flow between stages, from the narrowest reach to the widest.
SCHEMES = ("local", "warp", "regional", "cluster", "global", "independent")
# Fields as schedules and records name them that were written before they had their names of today.
RENAMED = {
    "resident": "min_blocks_per_sm",
    "pipelined": "prefetch_next_row",
    "ahead": "prefetch_weights",
    "staying": "persistent_rows",
}


@dataclass(frozen=True)
class Mapping:
    """One part of a kernel: its rows and columns on threads, and where values wait.

    A block works on `rows` rows at once; `threads` threads share a row, each moves `vector`
    elements at a time and does so `steps` times. With a `cluster` of more than one block, that many
    blocks share a row, taking turns along it. Where rows are short, the same threads work on a
    `batch` of rows, all of which they load before they use the first. A program without reductions
    is one long row that is `split` over as many blocks as it takes. The threads of a row are a
    power of two, so that they reduce in a butterfly. In the global scheme a fixed number of
    `blocks` takes turns at the rows and meets at a barrier of the whole grid, so all of them must
    be resident at once; if the row is split, neighbouring blocks work on its pieces.
    """

    scheme: str  # how the threads of a row exchange values
    threads: int  # threads of a block that share a row
    rows: int  # rows side by side in a block
    vector: int  # elements a thread moves at once
    steps: int  # vectors of its row that a thread handles; 0: as many as the row takes
    cluster: int = 1  # blocks that share a row
    residence: str = "register"  # kept values wait in "register", "shared" memory or "nowhere"
    recompute: bool = False  # keep as little as possible, compute the rest again
    peeled: bool = False  # rows start misaligned: vectors begin at the first aligned element
    split: bool = False  # the row is split over blocks (nothing is reduced along it)
    blocks: int = 0  # of a grid that takes turns at the rows; 0: as many as there are rows
    # Blocks that a multiprocessor must have room for; 0: as the compiler likes.
    min_blocks_per_sm: int = 0
    prefetch_next_row: bool = False  # an iteration loads the next row before it works on its own
    batch: int = 1  # rows that the same threads load at once
    prefetch_weights: bool = False  # what lies along the columns is loaded with the rows
    asynchronous: bool = False  # rows are copied into shared memory, past the threads' registers
    online: bool = False  # sums are found together with the maximum or mean they are measured by
    unroll: int = 0  # steps that a thread loads at once of a row that waits in no registers; 0: few
    idle: int = 0  # threads of a row without work, so that the others divide its pieces in memory
    tile: int = 0  # elements of a line of a block's tile; 0: a block has a run of elements
    persistent_rows: int = (
        0  # rows of a segment, or first ones of all, that wait for the next rounds
    )

    @staticmethod
    def from_data(data: Any) -> Mapping:
        """Read one from JSON; refuse unknown or missing fields and wrong types."""
        known = {field.name: field.type for field in fields(Mapping)}
        types = {"str": str, "int": int, "bool": bool}
        data = _renamed(data)
        if not isinstance(data, dict) or set(data) - set(known):
            raise InputError(f"mapping must be a JSON object with the fields {sorted(known)}")
        for name, value in data.items():
            if type(value) is not types[str(known[name])]:
                raise InputError(f"mapping field {name} must be {known[name]}, not {value!r}")
        try:
            return Mapping(**data)
        except TypeError as error:
            raise InputError(f"mapping is incomplete: {error}") from None

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        return self.threads * self.rows

    @property
    def block_rows(self) -> int:
        """Rows of a block, or of a cluster."""
        return self.rows * self.batch

    @property
    def reach(self) -> int:
        """Columns that one block covers."""
        return self.working * self.vector * self.steps

    @property
    def working(self) -> int:
        """Threads of a block that share the work on a row."""
        return self.threads - self.idle

    @property
    def capacity(self) -> int:
        """Columns that a row may have wherever it starts."""
        return self.cluster * self.reach - (self.vector - 1 if self.peeled else 0)

    @property
    def any_length(self) -> bool:
        """Whether rows may be as long as they like."""
        return self.split or self.steps == 0

    @property
    def row_scheme(self) -> str:
        """How the threads of a row exchange values, whatever blocks do with each other."""
        if self.scheme != "global":
            return self.scheme
        return "local" if self.threads == 1 else "warp" if self.threads <= WARP else "regional"

    def __str__(self) -> str:
        """One line for people."""
        each = f"{self.steps or 'as many as it takes'} x {self.vector} elements a thread"
        if self.tile:
            across = self.reach // self.tile
            return f"{self.threads} threads a block, tiles of {across} x {self.tile} elements"
        if self.split and not self.blocks and self.residence == "register":
            rows = f", {self.rows} rows side by side" if self.rows > 1 else ""
            waiting = (
                f", {self.persistent_rows} rows of a segment stay on the chip"
                if self.persistent_rows
                else ""
            )
            return f"{self.threads} threads a {'row' if rows else 'block'}{rows}, {each}{waiting}"
        words = [f"{self.threads} threads a {'piece of a ' if self.split else ''}row"]
        if self.idle:
            words[0] += f", {self.idle} of them idle"
        if self.cluster > 1:
            words[0] += f" in each of {self.cluster} blocks"
        words += [f"{self.block_rows} rows a block", each]
        if self.batch > 1:
            words[-1] += f" for each of {self.batch} rows"
        if self.blocks:
            words.append(
                f"{self.blocks} blocks in a grid-stride loop, "
                f"{self.min_blocks_per_sm} a multiprocessor"
            )
        if self.prefetch_next_row:
            words.append("the next row loaded ahead")
        if self.residence == "shared":
            copied = ", copied asynchronously" if self.asynchronous else ""
            words.append(f"row in shared memory{copied}")
        if self.residence == "nowhere":
            words.append("row read again in every phase")
        elif self.recompute:
            words.append("computed again rather than kept")
        if self.online:
            words.append("reductions in one pass")
        if self.unroll:
            words.append(f"{self.unroll} steps at once")
        if self.peeled:
            words.append("peeled")
        if self.persistent_rows:
            words.append(f"{self.persistent_rows} rows stay on the chip")
        if self.prefetch_weights:
            words.append("weights loaded with the rows")
        return ", ".join(words)


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
        parts = [asdict(part) for part in self.parts]
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
    data = _renamed(data)
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
    return Schedule(tuple(map(Mapping.from_data, data["parts"])), longer, *counts)


def _renamed(data: Any) -> Any:
    """A JSON object's fields by their names of today."""
    if not isinstance(data, dict):
        return data
    return {RENAMED.get(name, name): value for name, value in data.items()}


def power_of_two(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()
