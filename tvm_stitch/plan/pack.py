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

from tvm_stitch.device import Device
from tvm_stitch.kernel.build import StitchedKernel, check_emitted, choose_kernel
from tvm_stitch.kernel.choose import round_by_round, side_by_side
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits
from tvm_stitch.plan.search.judge import Verdict
from tvm_stitch.plan.search.price import Points, inputs, stitched_us
from tvm_stitch.stages.stage import Refused, Stage, Var, constant, product

# A launch is a small share of a longer kernel, which is better left to its own block size.
LONGEST_US = 60.0
# CUDA passes 4 KB of parameters to a kernel; a pointer takes 8.
MOST_TENSORS = 480
# Earlier turns in which a kernel is tried; more would keep its results in memory for long.
MOST_TURNS = 32

# Level, part of a large region, and kernels of the region that must run before.
Turn = tuple[int, int, int]
FIRST: Turn = (0, 0, 0)
Together = tuple[tuple[Program, ...], Schedule]


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
    def meets(self) -> bool:
        """Whether the blocks of its grid meet between rounds."""
        kernel = self.verdict.kernel
        return isinstance(kernel, StitchedKernel) and bool(kernel.schedule.blocks)

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
        """Whether a launch more or less matters."""
        verdicts = [item.verdict for item in self.items]
        alone = any(v.spare or not isinstance(v.kernel, StitchedKernel) for v in verdicts)
        return self.cost_us <= LONGEST_US and not alone

    def joined(
        self, other: Pack, device: Device, launch_us: float, points: Points = ()
    ) -> Pack | None:
        """Both in one launch, if they are unrelated and it pays."""
        tensors = self.tensors + other.tensors
        if not self.is_short or tensors > MOST_TENSORS or self.read & other.read:
            return None
        together = _together((*self.items, *other.items), device)
        if together is None:
            return None
        cost = stitched_us(*together, device, points)
        if cost + launch_us > self.cost_us + other.cost_us:
            return None
        return Pack((*self.items, *other.items), self.read | other.read, tensors, cost + launch_us)


def pack(
    items: Iterable[Item],
    available: dict[Var, Turn],
    device: Device,
    launch_us: float,
    points: Points = (),
) -> list[Pack]:
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
            together = packs[turn][place].joined(own, device, launch_us, points)
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


def holding(packs: Iterable[Pack], device: Device) -> list[Pack]:
    """The packs, but those apart again whose kernel the last look refuses."""
    known: dict[tuple[Verdict, ...], bool] = {}  # equal regions have the same verdicts
    found: list[Pack] = []
    for each in packs:
        verdicts = tuple(item.verdict for item in each.items)
        if len(verdicts) > 1 and verdicts not in known:
            kernel = _kernel_of(each.items, device)
            known[verdicts] = kernel is not None and check_emitted(*kernel, device) is None
        found += [each] if known.get(verdicts, True) else map(Pack.of, each.items)
    return found


def _kernel_of(items: Sequence[Item], device: Device) -> Together | None:
    """The kernel that items become; of those in rounds, all stages are placed in rounds anew."""
    if not items[0].meets:
        return _together(items, device)
    stages = tuple(stage for item in items for stage in item.stages)
    written = tuple(buffer for item in items for buffer in item.written)
    found = choose_kernel(stages, written, device)
    return (found.programs, found.schedule) if isinstance(found, StitchedKernel) else None


def _together(items: Sequence[Item], device: Device) -> Together | None:
    kernels = [item.verdict.kernel for item in items]
    stitched = [kernel for kernel in kernels if isinstance(kernel, StitchedKernel)]
    assert len(stitched) == len(kernels), "a product on tensor cores shares its launch with none"
    if all(item.meets for item in items):
        found = round_by_round([(own.programs, own.schedule) for own in stitched], device)
        return None if isinstance(found, Refused) else found
    programs = tuple(program for kernel in stitched for program in kernel.programs)
    mappings = [mapping for kernel in stitched for mapping in kernel.packed]
    schedule = side_by_side(programs, mappings)
    return None if isinstance(schedule, Refused) else (programs, schedule)
