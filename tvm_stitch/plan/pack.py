"""Independent kernels that are too short for a launch of their own share one.

In: the kernels of all regions, each with the turns in which it can run. Out: packs of them. A pack
costs one launch instead of many; its parts share the size of a block and nothing else, but for
those in rounds, which meet at the same barriers. Kernels of
one turn never wait for each other, so packs of one turn close no circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits
from tvm_stitch.plan.search.judge import Verdict
from tvm_stitch.plan.search.price import inputs
from tvm_stitch.stages.stage import Refused, Stage, Var, constant, product

# A launch is a small share of a longer kernel, which is better left to its own block size; but
# those in rounds, with which no others share one, all have blocks of one size.
LONGEST_US = 60.0
# CUDA passes 4 KB of parameters to a kernel; a pointer takes 8.
MOST_TENSORS = 480
# Earlier turns in which a kernel is tried; more would keep its results in memory for long.
MOST_TURNS = 32

# Level, part of a large region, and kernels of the region that must run before.
Turn = tuple[int, int, int]
FIRST: Turn = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class Item:
    """A kernel of a region's plan."""

    region: Region
    turn: Turn  # later ones may wait for this one; those of its own turn do not
    nodes: Nodes
    outputs: tuple[Value, ...]
    cost_us: float
    apart_us: float
    verdict: Verdict
    product: int | None = None  # of the graph, which the kernel computes as well

    @cached_property
    def inputs(self) -> tuple[Var, ...]:
        """The buffers that it reads."""
        return tuple(inputs(self.region, self.nodes))

    @cached_property
    def read(self) -> frozenset[Var]:
        """The buffers that it reads, single numbers left out."""
        return frozenset(b for b in self.inputs if constant(product(b.ty.shape)) != 1)

    @cached_property
    def symbols(self) -> frozenset[Var]:
        """The extents that are found at run time and that it must know."""
        nodes = (self.region.nodes[place] for place in bits(self.nodes))
        return frozenset(
            symbol
            for node in nodes
            for binding in node.bindings
            for symbol in self.region.graph.told(binding)
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What it computes."""
        nodes = (self.region.nodes[place] for place in bits(self.nodes))
        return tuple(stage for node in nodes for stage in node.stages)

    @cached_property
    def written(self) -> tuple[Var, ...]:
        """The buffers that it writes."""
        return tuple(map(self.region.buffer, self.outputs))


@dataclass(frozen=True, eq=False)
class Pack:
    """Kernels that share a launch; mostly one."""

    items: tuple[Item, ...]
    read: frozenset[Var]
    tensors: int  # pointers that the kernel takes
    cost_us: float

    @staticmethod
    def of(item: Item) -> Pack:
        """A kernel with a launch of its own."""
        return Pack((item,), item.read, len(item.inputs) + len(item.written), item.cost_us)

    @property
    def is_short(self) -> bool:
        """Whether a launch more or less matters, or a barrier of the grid."""
        verdicts = [item.verdict for item in self.items]
        alone = any(v.spare or not v.kernel.shares_launch for v in verdicts)
        return not alone and (self.cost_us <= LONGEST_US or verdicts[0].kernel.meets)

    def joined(self, other: Pack, launch_us: float) -> Pack | None:
        """Both in one launch, if they are unrelated and it pays."""
        tensors = self.tensors + other.tensors
        if not self.is_short or tensors > MOST_TENSORS or self.read & other.read:
            return None
        together = _together((*self.items, *other.items))
        if isinstance(together, Refused):
            return None
        cost = together.planned_us
        if cost + launch_us > self.cost_us + other.cost_us:
            return None
        return Pack((*self.items, *other.items), self.read | other.read, tensors, cost + launch_us)


def pack(items: Iterable[Item], available: dict[Var, Turn], launch_us: float) -> list[Pack]:
    """Put kernels together, first come, first served, where that is predicted to be faster.

    `available` says for what dividers compute, symbols too, from which turn on it is there.
    """
    packs: dict[Turn, list[Pack]] = defaultdict(list)
    there = dict(available)
    for item in sorted(items, key=lambda item: item.turn):
        own = Pack.of(item)
        waits = (*item.inputs, *item.symbols)
        earliest = max((there.get(var, FIRST) for var in waits), default=FIRST)
        turn, place = item.turn, -1
        for turn, place in _places(packs, earliest, item.turn) if own.is_short else ():
            together = packs[turn][place].joined(own, launch_us)
            if together is not None:
                packs[turn][place] = together
                break
        else:
            turn = item.turn
            packs[turn].append(own)
        for buffer in item.written:
            there[buffer] = *turn[:2], turn[2] + 1
    return [found for turn in sorted(packs) for found in packs[turn]]


def _places(packs: dict[Turn, list[Pack]], first: Turn, last: Turn) -> Iterator[tuple[Turn, int]]:
    """Packs of the turns in which a kernel could run, the latest turn first."""
    turns = sorted((turn for turn in packs if first <= turn <= last), reverse=True)
    for turn in turns[:MOST_TURNS]:
        for place in range(len(packs[turn])):
            yield turn, place


def holding(packs: Iterable[Pack]) -> list[Pack]:
    """The packs, but those apart again whose kernel the last look refuses."""
    known: dict[tuple[Verdict, ...], bool] = {}  # equal regions have the same verdicts
    found: list[Pack] = []
    for each in packs:
        verdicts = tuple(item.verdict for item in each.items)
        if len(verdicts) > 1 and verdicts not in known:
            kernel = _kernel_of(each.items)
            known[verdicts] = not isinstance(kernel, Refused) and kernel.check() is None
        found += [each] if known.get(verdicts, True) else map(Pack.of, each.items)
    return found


def _kernel_of(items: Sequence[Item]) -> Kernel | Refused:
    """The kernel that items become; of those in rounds, all stages are placed in rounds anew."""
    first = items[0].verdict.kernel
    if not first.meets:
        return _together(items)
    stages = tuple(stage for item in items for stage in item.stages)
    written = tuple(buffer for item in items for buffer in item.written)
    return choose_kernel(stages, written, first.device)


def _together(items: Sequence[Item]) -> Kernel | Refused:
    first, *others = (item.verdict.kernel for item in items)
    return first.joined(others)
