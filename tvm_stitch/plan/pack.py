"""Independent kernels that are too short for a launch of their own share one.

In: the kernels of all regions, each with the ranks in which it can run. Out: packs of them. A pack
costs one launch instead of many; its parts share the size of a block and nothing else, but for
those in rounds, which have the same barriers. Kernels of
one rank never wait for each other, so packs of one rank close no cycle. Those that read the same
tensor, or compute the same value again, are merged into one function that has it once: what they
become is asked of kernel/ as for any set of operators. So are matrix products, which share launches
with products alone: fewer multiprocessors are without work at the end of one grid than of several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.implementations import IMPLEMENTATIONS, PRODUCTS
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.options import Options
from tvm_stitch.plan.deadline import NEVER, Deadline
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits
from tvm_stitch.plan.search.judge import Verdict
from tvm_stitch.plan.search.price import inputs
from tvm_stitch.stages.stage import Refused, Var, constant, product

# A launch is a small share of a longer kernel, which is better left to its own block size; but
# those in rounds, with which no others share one, all have blocks of one size.
LONGEST_US = 60.0
# CUDA passes 4 KB of parameters to a kernel; a pointer takes 8.
MOST_TENSORS = 480
# Earlier ranks in which a kernel is tried; more would keep its results in memory for long.
MOST_RANKS = 32
# Pairs of related kernels that are tried, equal ones once: each is a kernel to be found anew.
MOST_RELATED = 64
LARGEST = Options().largest_kernel

# Level, part of a large region, and kernels of the region that must run before.
Rank = tuple[int, int, int]
FIRST: Rank = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class Item:
    """A kernel of a region's plan."""

    region: Region
    rank: Rank  # later ones may wait for this one; those of its own rank do not
    nodes: Nodes
    outputs: tuple[Value, ...]
    cost_us: float
    separate_us: float
    verdict: Verdict
    products: tuple[int, ...] = ()  # of the graph, which the kernel computes as well
    is_lone: bool = False  # a product that stays as it is unless it shares a launch

    @property
    def is_product(self) -> bool:
        """Whether it is a matrix product first of all."""
        return self.verdict.kernel.is_product

    @cached_property
    def inputs(self) -> tuple[Var, ...]:
        """The buffers that it reads."""
        found = inputs(self.region, self.nodes)
        if not self.products:
            return tuple(found)
        graph = self.region.graph
        nodes = [graph.nodes[product] for product in self.products]
        own = {graph.buffer(result) for node in nodes for result in node.results}
        read = (*(graph.buffer(each) for node in nodes for each in node.operands), *found)
        return tuple(dict.fromkeys(buffer for buffer in read if buffer not in own))

    @property
    def more_us(self) -> float:
        """What it costs more than its kernel should take, as the planner counts."""
        return self.verdict.cost_us - self.verdict.kernel.planned_us

    @cached_property
    def read(self) -> frozenset[Var]:
        """The buffers that it reads, single numbers left out."""
        return frozenset(b for b in self.inputs if constant(product(b.ty.shape)) != 1)

    @cached_property
    def symbols(self) -> frozenset[Var]:
        """The extents that are found at run time and that it must know."""
        graph = self.region.graph
        return frozenset(
            symbol
            for index in self.computed
            for binding in graph.nodes[index].bindings
            for symbol in graph.told(binding)
        )

    @cached_property
    def computed(self) -> frozenset[int]:
        """The graph's nodes that it computes."""
        own = (self.region.indices[place] for place in bits(self.nodes))
        return frozenset((*own, *self.products))

    @cached_property
    def made(self) -> frozenset[Var]:
        """The buffers that it computes, stored or not."""
        graph = self.region.graph
        nodes = (graph.nodes[index] for index in self.computed)
        return frozenset(graph.buffer(var) for node in nodes for var in node.results)

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
    related: bool = False  # whether their kernel is found anew, of all of their operators

    @staticmethod
    def of(item: Item) -> Pack:
        """A kernel with a launch of its own."""
        return Pack((item,), item.read, len(item.inputs) + len(item.written), item.cost_us)

    @property
    def is_short(self) -> bool:
        """Whether a launch more or less matters, or a barrier of the grid."""
        verdicts = [item.verdict for item in self.items]
        kernels = [verdict.kernel for verdict in verdicts]
        alone = any(v.spare for v in verdicts) or not all(
            kernel.shares_launch or kernel.is_product for kernel in kernels
        )
        return not alone and (self.cost_us <= LONGEST_US or verdicts[0].kernel.is_cooperative)

    def touches(self, nodes: AbstractSet[int]) -> bool:
        """Whether it computes any of these nodes."""
        return any(item.computed & nodes for item in self.items)

    def joined(self, other: Pack, launch_us: float, known: RelatedKernels) -> Pack | None:
        """Both in one launch, if one kernel can be both and it pays."""
        tensors, is_product = self.tensors + other.tensors, self.items[0].is_product
        if not self.is_short or tensors > MOST_TENSORS or is_product != other.items[0].is_product:
            return None
        items, read = (*self.items, *other.items), self.read | other.read
        related = is_product or self.related or other.related or _are_related(self, other)
        joint = known.kernel_of(items) if related else _together(items)
        if isinstance(joint, Refused):
            return None
        cost = joint.planned_us + launch_us + sum(item.more_us for item in items)
        if cost > self.cost_us + other.cost_us:
            return None
        return Pack(items, read, tensors, cost, related)


class RelatedKernels:
    """The kernels of items that have something in common, each found once."""

    def __init__(self, largest: int = LARGEST) -> None:
        """`largest`: operators of one of them."""
        self._largest = largest
        self._found: dict[Hashable, Kernel | Refused] = {}

    def kernel_of(self, items: Sequence[Item]) -> Kernel | Refused:
        """The kernel that items become as one function."""
        if sum(len(item.computed) for item in items) > self._largest:
            return Refused(f"it has more than {self._largest} operators")
        key = tuple(item.verdict.kernel for item in items), _in_common(items)
        if key not in self._found:
            if len(self._found) >= MOST_RELATED:
                return Refused("enough others were tried")
            self._found[key] = _merged(items)
        return self._found[key]


def pack(
    items: Iterable[Item],
    available: dict[Var, Rank],
    launch_us: float,
    largest: int = LARGEST,
    deadline: Deadline = NEVER,
    separate: Collection[frozenset[int]] = (),
) -> list[Pack]:
    """Put kernels into one launch, first come, first served, where that is predicted to be faster.

    `available` says for what dividers compute, symbols too, from which rank on it is there. Related
    ones have at most the `largest` number of operators. Once the time is up, the rest stays
    separate. Of a set of nodes that is to stay `separate`, no two kernels share a launch.
    """
    packs: dict[Rank, list[Pack]] = defaultdict(list)
    there, known = dict(available), RelatedKernels(largest)

    def place(own: Pack, last: Rank) -> None:
        """Have it share the launch of a pack that can run when it can, or run last."""
        waits = chain.from_iterable((*item.inputs, *item.symbols) for item in own.items)
        earliest = max((there.get(var, FIRST) for var in waits), default=FIRST)
        tries = own.is_short and not deadline.is_over
        for rank, number in _places(packs, earliest, last) if tries else ():
            pack = packs[rank][number]
            if any(own.touches(each) and pack.touches(each) for each in separate):
                continue
            fused = pack.joined(own, launch_us, known)
            if fused is not None:
                packs[rank][number] = fused
                break
        else:
            rank = last
            packs[rank].append(own)
        for buffer in chain.from_iterable(item.written for item in own.items):
            there[buffer] = *rank[:2], rank[2] + 1

    for item in sorted(items, key=lambda item: item.rank):
        place(Pack.of(item), item.rank)
    _join_again(packs, place)
    return [found for rank in sorted(packs) for found in packs[rank]]


def _join_again(packs: dict[Rank, list[Pack]], place: Callable[[Pack, Rank], None]) -> None:
    """Products join what has become of others since they were tried.

    A wide one and a narrow one may be slower together than apart, and faster with a third.
    """
    for rank in sorted(packs):
        for pack in [each for each in packs[rank] if each.items[0].is_product]:
            if pack in packs[rank]:  # and not another one by now, with which one before it shares
                packs[rank].remove(pack)
                place(pack, rank)


def _places(packs: dict[Rank, list[Pack]], first: Rank, last: Rank) -> Iterator[tuple[Rank, int]]:
    """Packs of the ranks in which a kernel could run, the latest rank first."""
    ranks = sorted((rank for rank in packs if first <= rank <= last), reverse=True)
    for rank in ranks[:MOST_RANKS]:
        for place in range(len(packs[rank])):
            yield rank, place


def holding(packs: Iterable[Pack], check: Callable[[Kernel], Refused | None]) -> list[Pack]:
    """The packs, but those separate again whose kernel its check refuses."""
    known: dict[Hashable, bool] = {}  # equal regions have the same kernels
    found: list[Pack] = []
    for each in packs:
        kernels = tuple(item.verdict.kernel for item in each.items)
        key = kernels, _in_common(each.items) if each.related else None
        if len(kernels) > 1 and key not in known:
            # Of those in rounds, all stages are placed in rounds anew.
            merge = each.related or kernels[0].is_cooperative
            kernel = _merged(each.items) if merge else _together(each.items)
            known[key] = not isinstance(kernel, Refused) and check(kernel) is None
        found += [each] if known.get(key, True) else map(Pack.of, each.items)
    return found


def _are_related(one: Pack, other: Pack) -> bool:
    """Whether they read the same tensor, or one computes again what the other computes or reads.

    What one reads and the other computes for itself is a view: its memory was there before both.
    """
    if one.read & other.read:
        return True
    made = frozenset().union(*(item.made for item in one.items))
    return any(item.made & made or item.read & made or item.made & one.read for item in other.items)


def _in_common(items: Sequence[Item]) -> Hashable:
    """Which of their tensors and operators are the same, by their places."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        tuple(numbers.setdefault(each, len(numbers)) for each in (*item.inputs, *item.computed))
        for item in items
    )


def _merged(items: Sequence[Item]) -> Kernel | Refused:
    """The kernel of all of their stages, each once."""
    first, graph = items[0].verdict.kernel, items[0].region.graph
    computed = sorted(frozenset().union(*(item.computed for item in items)))
    stages = tuple(stage for index in computed for stage in graph.nodes[index].stages)
    written = tuple(dict.fromkeys(buffer for item in items for buffer in item.written))
    among = PRODUCTS if first.is_product else IMPLEMENTATIONS
    return choose_kernel(stages, written, first.device, first.bounds, among=among)


def _together(items: Sequence[Item]) -> Kernel | Refused:
    first, *others = (item.verdict.kernel for item in items)
    return first.joined(others)
