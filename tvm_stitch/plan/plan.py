"""The result of planning: groups of nodes, why they are fused, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass

OPTIMAL = "optimal"


@dataclass(frozen=True)
class Group:
    """Nodes that become one kernel, and the variables that it must write (by name, in order)."""

    nodes: tuple[int, ...]
    outputs: tuple[object, ...]  # relax variables
    cost_us: float = 0.0
    separate_us: float = 0.0  # its operators, each in its best kernel of its own; if explained
    bytes_saved: int = 0  # that they would then write and read again
    launches_saved: int = 0
    function: str = ""  # the name of the function that it became
    kernels: int = 1  # which were found by themselves, and share its launch

    @property
    def why(self) -> str:
        """One sentence: why these operators are fused."""
        if not self.launches_saved:
            return f"a single operator: {self.cost_us:.1f} us"
        return (
            f"{self.cost_us:.1f} us fused, {self.separate_us:.1f} us separate: saves "
            f"{self.launches_saved} launch{'' if self.launches_saved == 1 else 'es'} and "
            f"{shown_bytes(self.bytes_saved)} of traffic"
        )


@dataclass(frozen=True)
class Fallback:
    """An operator that goes the default way, and why."""

    op: str
    reason: str


@dataclass(frozen=True)
class Cut:
    """A value that goes from one kernel to another through memory, and why."""

    value: str
    writer: tuple[str, ...]  # operators
    reader: tuple[str, ...]
    bytes: int
    reason: str
    count: int = 1  # how often it occurs in equal regions


@dataclass(frozen=True)
class Measured:
    """A region's kernels by the clock: as planned, and as TVM makes them; the faster are kept."""

    operators: tuple[str, ...]
    stitched_us: float | None  # None: it could not be timed
    default_us: float | None
    why: str = ""  # what went wrong
    count: int = 1  # equal regions, for which it holds as well

    @property
    def is_default_faster(self) -> bool:
        """Whether TVM's kernels are taken: also where the planned ones do not run and they do."""
        if self.default_us is None:
            return False
        return self.stitched_us is None or self.default_us < self.stitched_us

    def __str__(self) -> str:
        times = (
            f"stitched {_shown_us(self.stitched_us)}, TVM's default {_shown_us(self.default_us)}"
        )
        return f"{times}; {self.why}" if self.why else times


@dataclass(frozen=True)
class Solved:
    """How good a plan is by its cost model, before independent kernels share launches."""

    cost_us: float = 0.0
    greedy_us: float = 0.0
    default_us: float = 0.0  # every operator TVM's way; if explained
    bound_us: float = 0.0  # no plan of these candidates costs less
    status: str = OPTIMAL
    regions: int = 0
    distinct: int = 0  # regions that differ in more than names
    candidates: int = 0
    cycles: int = 0  # cycles of kernels that had to be forbidden
    parts: int = 0  # of regions that are too large to be planned as a whole
    parts_us: float = 0.0  # what kernels across these parts could save at most

    @property
    def gap(self) -> float:
        """The share of the cost that the optimum may save at most."""
        return max(0.0, 1 - self.bound_us / self.cost_us) if self.cost_us > 0 else 0.0


@dataclass(frozen=True)
class SavedGroup:
    """A group by the numbers of its nodes; an output is a node and which of its results."""

    nodes: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    operators: tuple[str, ...]
    cost_us: float
    apart_us: float
    bytes_saved: int
    launches_saved: int


@dataclass(frozen=True)
class SavedBlock:
    """The plan of one dataflow block."""

    name: str  # "main/0": function and number of the block
    fingerprint: str
    groups: tuple[SavedGroup, ...]
    kept: tuple[int, ...]
    fallbacks: tuple[Fallback, ...]
    solved: Solved

    @property
    def cost_us(self) -> float:
        """What its kernels are predicted to take."""
        return sum(group.cost_us for group in self.groups)


@dataclass(frozen=True)
class Plan:
    """Groups and fallbacks of one dataflow block."""

    groups: tuple[Group, ...]
    fallbacks: tuple[Fallback, ...]
    reasons: tuple[tuple[int, str], ...] = ()  # of all nodes that no group has, by index
    kept: frozenset[int] = frozenset()  # nodes that stay as they are, even if a group has them too
    cuts: tuple[Cut, ...] = ()
    solved: Solved = Solved()
    saved: SavedBlock | None = None  # the same in numbers and names, if it is to be explained
    measured: tuple[Measured, ...] = ()  # regions that were timed
    # Of each node the operator that it comes from, by its number in the module as it came; -1 where
    # that is not known.
    origins: tuple[int, ...] = ()

    @property
    def cost_us(self) -> float:
        """What its groups are predicted to take, independent ones in common launches."""
        return sum(group.cost_us for group in self.groups)


def _shown_us(us: float | None) -> str:
    return "not timed" if us is None else f"{us:.1f} us"


def shown_bytes(number: int) -> str:
    """Bytes for people."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number} B"
