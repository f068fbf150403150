"""The kinds of mapping, one dataclass for each kind of kernel: plain data, which goes to JSON.

Here are those that several rooms know, and those that old records hold; another is in its room.

What a kind has no field for reads as in Mapping, so that who asks a mapping need not know its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from tvm_stitch.stages.stage import Refused

WARP = 32  # threads that exchange registers
MAX_BLOCK_THREADS = 1024
# How values flow between stages, from the narrowest reach to the widest.
LIBRARY = "library"  # NVIDIA's, which is called instead of a kernel of this package
SCHEMES = ("local", "warp", "regional", "cluster", "global", "independent", LIBRARY)
TF32 = "tf32"  # not a scheme, but passed with them: that a library may round what it multiplies
# Fields as schedules and records name them that were written before they had their names of today.
RENAMED = {
    "resident": "min_blocks_per_sm",
    "pipelined": "prefetch_next_row",
    "ahead": "prefetch_weights",
    "staying": "persistent_rows",
}
KINDS: dict[str, type[Mapping]] = {}  # of mappings, by their names in JSON


@dataclass(frozen=True)
class Mapping:
    """One part of a kernel: its rows and columns on threads, and where values wait.

    A block works on `rows` rows at once; `threads` threads share a row, each moves `vector`
    elements at a time and does so `steps` times. The threads of a row are a power of two, so that
    they reduce in a butterfly, where they reduce it.
    """

    threads: int  # threads of a block that share a row
    rows = 1  # rows side by side in a block
    vector = 1  # elements a thread moves at once
    steps = 1  # vectors of its row that a thread handles; 0: as many as the row takes
    cluster = 1  # blocks that share a row
    residence = "register"  # kept values wait in "register", "shared" memory or "nowhere"
    recompute = False  # keep as little as possible, compute the rest again
    peeled = False  # rows start misaligned: vectors begin at the first aligned element
    split = False  # rows are split over neighbouring blocks, as many as it takes
    chunked = False  # a block takes its row in chunks as long as its reach, one after the other
    cyclic = False  # neighbouring rows belong to different blocks (a cyclic distribution)
    blocks = 0  # of a grid that iterates over the rows; 0: as many as there are rows
    # Blocks that a multiprocessor must have room for; 0: as the compiler likes.
    min_blocks_per_sm = 0
    prefetch_next_row = False  # an iteration loads the next row before it works on its own
    batch = 1  # rows that the same threads load at once
    adjacent = False  # these lie side by side in memory, and are read as one vector
    beside = False  # these follow each other, and work out together where they sample
    prefetch_weights = False  # what lies along the columns is loaded with the rows
    asynchronous = False  # rows are copied into shared memory by cp.async
    online = False  # sums are found together with the maximum or mean they are measured by
    unroll = 0  # steps that a thread loads at once of a row that waits in no registers; 0: few
    depth_split = 1  # groups of a block's threads that share the depth of products
    idle = 0  # threads of a row without work, so that the others divide its pieces in memory
    tile = 0  # elements of a line of a block's tile; 0: a block has a run of elements
    lines = 1  # of a thread's register tile, which share what they read
    partitioned = False  # its blocks sort out indices for each other
    persistent_rows = 0  # rows of a segment, or first ones of all, that wait for the next rounds
    kind = ""  # its name in JSON
    # Whether its arrays on the chip have just the elements that are used, without padding.
    exact = False
    # Fields that are powers of two.
    powers: ClassVar[tuple[str, ...]] = ("threads", "rows", "vector", "cluster", "batch")
    _scheme = ""  # where that does not follow from the threads of a row

    def __init_subclass__(cls) -> None:
        """Mappings are known by their kind as soon as there is a class of them."""
        KINDS[cls.kind] = cls

    @property
    def access(self) -> int:
        """Elements that come from memory at once."""
        return self.batch if self.adjacent else self.vector

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
    def elements(self) -> int:
        """Elements that a thread has at once."""
        return self.vector * self.steps * self.batch

    @property
    def capacity(self) -> int:
        """Columns that a row may have wherever it starts."""
        return self.cluster * self.reach - (self.vector - 1 if self.peeled else 0)

    @property
    def apart(self) -> int:
        """How many threads of a block lie between one of a row and the row's next."""
        return 1

    @property
    def warp_threads(self) -> int:
        """Threads of a warp that may share a row: they exchange registers."""
        return max(1, WARP // self.apart)

    @property
    def barriers(self) -> int:
        """Of a block in each phase, besides those of reductions along a row."""
        return 0

    @property
    def any_length(self) -> bool:
        """Whether rows may be as long as they like."""
        return self.split or self.chunked or self.steps == 0

    @property
    def scheme(self) -> str:
        """The widest way in which values flow."""
        return self._scheme or self.row_scheme

    @property
    def row_scheme(self) -> str:
        """How the threads of a row exchange values, whatever blocks do with each other."""
        if self._scheme not in ("", "global"):
            return self._scheme
        if self.cluster > 1:
            return "cluster"
        within_warp = self.threads <= self.warp_threads
        return "local" if self.threads == 1 else "warp" if within_warp else "regional"

    @property
    def data(self) -> dict[str, Any]:
        """What goes to JSON."""
        return {"kind": self.kind, **asdict(self)}

    @property
    def _each(self) -> str:
        return f"{self.steps or 'as many as it takes'} x {self.vector} elements per thread"

    def __str__(self) -> str:
        """One line for people."""
        words = [f"{self.threads} threads per {'piece of a ' if self.split else ''}row"]
        if self.idle:
            words[0] += f", {self.idle} of them idle"
        if self.cluster > 1:
            words[0] += f" in each of {self.cluster} blocks"
        words += [
            f"{self.block_rows} {'row' if self.block_rows == 1 else 'rows'} per block",
            self._each,
        ]
        if self.batch > 1:
            words[-1] += f" for each of {self.batch} rows"
            words[-1] += " beside each other" if self.beside else ""
        if self.blocks:
            words.append(
                f"{self.blocks} blocks in a grid-stride loop, "
                f"{self.min_blocks_per_sm} per multiprocessor"
            )
        if self.residence == "shared":
            copied = ", copied asynchronously" if self.asynchronous else ""
            words.append(f"row in shared memory{copied}")
        said = {
            "the next row loaded ahead": self.prefetch_next_row,
            "row read again in every phase": self.residence == "nowhere",
            "computed again rather than kept": self.recompute and self.residence != "nowhere",
            "reductions in one pass": self.online,
            f"{self.unroll} steps at once": self.unroll,
            f"chunks of {self.reach} columns one after the other": self.chunked,
            "peeled": self.peeled,
            f"{self.persistent_rows} rows persist on the chip": self.persistent_rows,
            "weights loaded with the rows": self.prefetch_weights,
        }
        return ", ".join([*words, *(text for text, holds in said.items() if holds)])


@dataclass(frozen=True)
class Flat(Mapping):
    """Elements without rows: one long row that is split over as many blocks as it takes."""

    vector: int
    steps: int
    min_blocks_per_sm: int = 0
    split = True
    kind = "flat"
    exact = True
    _scheme = "local"

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.threads} threads per block, {self._each}"


@dataclass(frozen=True)
class Transposed(Flat):
    """The same, where blocks take tiles whose lines one thread reads and another one writes."""

    tile: int = 0
    kind = "transposed"
    exact = False
    _scheme = "regional"

    @property
    def barriers(self) -> int:
        """Between writing a tile and reading it."""
        return 1

    def __str__(self) -> str:
        """One line for people."""
        across = self.reach // self.tile
        return f"{self.threads} threads per block, tiles of {across} x {self.tile} elements"


@dataclass(frozen=True)
class Rows(Mapping):
    """Rows that are reduced or kept whole.

    With a `cluster` of more than one block, that many blocks share a row, iterating along it.
    Where rows are short, the same threads work on a `batch` of rows, all of which they load before
    they use the first; `beside` each other, they share what is worked out of their places. A fixed
    number of `blocks` iterates over the rows.
    """

    rows: int
    vector: int
    steps: int
    cluster: int = 1
    residence: str = "register"
    recompute: bool = False
    peeled: bool = False
    blocks: int = 0
    min_blocks_per_sm: int = 0
    prefetch_next_row: bool = False
    batch: int = 1
    prefetch_weights: bool = False
    asynchronous: bool = False
    online: bool = False
    unroll: int = 0
    idle: int = 0
    persistent_rows: int = 0
    chunked: bool = False
    beside: bool = False
    # A block of a round may have any number of rows that are whole warps.
    powers: ClassVar[tuple[str, ...]] = ("threads", "vector", "cluster", "batch")
    kind = "rows"


@dataclass(frozen=True)
class Panel(Mapping):
    """Rows whose elements lie apart, and side by side with those of their neighbours.

    Neighbouring threads of a block have neighbouring rows, `rows` of them, so that they read whole
    sectors of memory; `threads` of these groups share the elements of the rows. Where a thread has
    short rows alone, it works on a `batch` of them at once; elsewhere a batch is of `adjacent`
    rows, whose elements a thread reads as vectors.
    """

    rows: int
    vector: int
    steps: int
    residence: str = "register"
    recompute: bool = False
    online: bool = False
    unroll: int = 0
    batch: int = 1
    cluster: int = 1
    adjacent: bool = False
    min_blocks_per_sm: int = 0
    kind = "panel"
    exact = True

    @property
    def apart(self) -> int:
        """How many threads of a block lie between one of a row and the row's next."""
        return self.rows

    def __str__(self) -> str:
        """One line for people."""
        wide = self.block_rows if self.adjacent else self.rows
        return f"panels of {wide} columns: {super().__str__()}"


@dataclass(frozen=True)
class ColumnSums(Mapping):
    """Reductions over the rows: a fixed number of blocks iterates over them.

    They wait at a barrier of the whole grid, so all of them must be resident at once; if the row is
    split, neighbouring blocks work on its pieces. Sums of rows of any length are collected in
    device memory; such rows wait nowhere.
    """

    rows: int
    vector: int
    steps: int
    residence: str = "register"
    recompute: bool = False
    split: bool = False
    blocks: int = 0
    min_blocks_per_sm: int = 0
    prefetch_next_row: bool = False
    kind = "column sums"
    exact = True
    _scheme = "global"


@dataclass(frozen=True)
class RowSegment(Mapping):
    """A piece of the columns of a segment of rows, between two barriers of a grid."""

    rows: int
    vector: int
    steps: int
    batch: int = 1
    persistent_rows: int = 0
    recompute = True
    split = True
    powers: ClassVar[tuple[str, ...]] = ("vector", "batch")
    kind = "row segment"
    exact = True
    _scheme = "global"

    def __str__(self) -> str:
        """One line for people."""
        words = [f"{self.threads} threads per block", self._each]
        if self.rows > 1:
            words[0] = f"{self.threads} threads per row, {self.rows} rows side by side"
        if self.persistent_rows:
            words.append(f"{self.persistent_rows} rows of a segment persist on the chip")
        return ", ".join(words)


@dataclass(frozen=True)
class SmallMatmul(Mapping):
    """Rows with small matrix products, which wait in shared memory element by element.

    Where few rows have products of some depth, `depth_split` groups of a block's threads share the
    depth, and all of them know the sums afterwards.
    """

    rows: int
    steps: int
    batch: int = 1
    split: bool = False
    depth_split: int = 1
    prefetch_weights: bool = False
    asynchronous: bool = False
    residence = "shared"
    kind = "small matmul"
    _scheme = "regional"

    @property
    def row_threads(self) -> int:
        """Threads of a block that have rows and columns of their own."""
        return self.threads * self.rows

    @property
    def block_threads(self) -> int:
        """Threads of a block."""
        return self.row_threads * self.depth_split

    @property
    def barriers(self) -> int:
        """Before threads add up each other's partial results."""
        return int(self.depth_split > 1)

    def __str__(self) -> str:
        """One line for people."""
        shared = f", depth shared by {self.depth_split}" if self.depth_split > 1 else ""
        return f"{super().__str__()}{shared}"


def switched_off(wanted: Iterable[str], schemes: Iterable[str]) -> Refused | None:
    """The refusal of a kernel that wants schemes of which some are switched off; None: none is."""
    off = {*wanted}.difference(schemes)
    return Refused(f"the {min(off)} scheme is switched off") if off else None


def power_of_two(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()
