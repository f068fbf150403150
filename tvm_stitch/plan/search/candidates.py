"""The kernels among which the planner chooses.

In: a Region, its Judge, bounds on the search. Out: Candidates with their costs, among them all of
the greedy plan's, and those two plans as sets of candidates. Must not know how the choice is made.

Sets of nodes come from four sources: the greedy plan with every set that it tried on its way; the
same sets cut in two at their cheapest edges; sets grown from each reduction and each output through
their neighbours, a few of the best at a time; and sets that compute a cheap value again rather than
read it. Besides, every node may go TVM's way, alone, or at the end of the product that it follows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import or_
from typing import TypeVar

from tvm_stitch.options import Options
from tvm_stitch.plan.deadline import NEVER, NOT_PLANNED, Deadline
from tvm_stitch.plan.regions.atoms import find_atoms
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.computed_again import computing_again
from tvm_stitch.plan.search.epilogue import epilogues
from tvm_stitch.plan.search.greedy import greedy_sets
from tvm_stitch.plan.search.judge import Judge, Verdict
from tvm_stitch.plan.search.price import DEFAULT_MARGIN, least_us
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Refused

Item = TypeVar("Item")

BEAM = 2  # of the sets grown from a reduction or an output, how many go on growing
CUTS = 4  # at how many of its cheapest edges a set is tried in two
# Of large sets fewer: the sum of the sizes of one set's halves is at most this.
MOST_CUT = 512
# And at how many of all of its edges if it computes for so many times what its bytes take: it may
# compute values again for each of their readers, where what flows says nothing. One kernel of a
# KAN's splines took 70 us on an H200; two are planned at 37 where it is at 49.
EVENLY, COMPUTED = 8, 3
# The sum of the sizes of all sets that are cut off and grown in a region.
EFFORT = 2000
# The same of those that compute a value again, or leave one out.
AGAIN = 4000


class Way(enum.Enum):
    """What becomes of a set of nodes."""

    STITCHED = "stitched"
    DEFAULT = "TVM's default"
    EPILOGUE = "the end of a product's kernel"
    PRODUCT = "a product on tensor cores, with what its kernel ends with"
    VIEW = "a view"


@dataclass(frozen=True)
class Candidate:
    """Nodes that one kernel could compute, and the values that it would write."""

    nodes: Nodes
    outputs: tuple[Value, ...]
    reads: tuple[Value, ...]  # of the region
    way: Way
    cost_us: float
    verdict: Verdict | None = None
    why: str = ""
    products: tuple[int, ...] = ()  # of the region's own, which the kernel computes as well


# Nodes, outputs, way and products: what tells candidates apart.
Key = tuple[Nodes, tuple[Value, ...], Way, tuple[int, ...]]


@dataclass(frozen=True)
class Candidates:
    """All candidates of a region, and which of them the greedy plan takes."""

    all: tuple[Candidate, ...]
    greedy: tuple[int, ...]


def find_candidates(
    region: Region, judge: Judge, options: Options, deadline: Deadline = NEVER
) -> Candidates:
    """Everything that a region's operators could become; what is found once the time is up."""
    return _Search(region, judge, options, deadline).run()


def each_alone(
    region: Region, judge: Judge, options: Options, deadline: Deadline = NEVER
) -> tuple[Candidate, ...]:
    """What every operator could become by itself, or with those that always go with it."""
    search = _Search(region, judge, options, deadline)
    search.alone()
    return tuple(search.found.values())


class _Search:
    def __init__(
        self, region: Region, judge: Judge, options: Options, deadline: Deadline = NEVER
    ) -> None:
        self.region, self.judge, self.options = region, judge, options
        self.deadline = deadline
        self.left = EFFORT
        self.atoms = find_atoms(region)
        self.found: dict[Key, Candidate] = {}

    def run(self) -> Candidates:
        """Collect from all sources."""
        self.alone()
        sets = [
            self.region.without_views(nodes)
            for nodes in greedy_sets(
                self.region, self.judge, self.atoms, self.options.largest_kernel, self.deadline
            )
        ]
        sets = [nodes for nodes in sets if self._stitched(nodes)]
        ends = self._end_products()
        if self.options.solver != "greedy":
            self._without_ends(sets, ends)
        greedy = self._greedy(sets)
        if self.options.solver != "greedy" and not self.deadline.is_over:
            self._tried()
            halves = [half for nodes in self._in_time(sets) for half in self._cut(nodes)]
            self._without_ends(halves, ends)
            self._grow(sets)
            if not self.options.partition:
                self._duplicate([*sets, *dict.fromkeys(halves)])
        order = {key: number for number, key in enumerate(self.found)}
        chosen = tuple(order[key] for key in greedy)
        return Candidates(tuple(self.found.values()), chosen)

    def alone(self) -> None:
        """Every node by itself, and every product that tensor cores take."""
        for atom in self.atoms:
            for place in bits(atom):
                self._alone(place, atom)
        for number, index in enumerate(own_products(self.region)):
            kernel = self.judge.product(index)
            if not isinstance(kernel, Refused):
                cost = kernel.cost_us + self.options.launch_us
                self._add(0, (), Way.PRODUCT, cost, products=(number,))

    def _end_products(self) -> list[Nodes]:
        """What products' kernels can end with, one of them or several."""
        ends: dict[tuple[int, ...], list[Nodes]] = {}
        for epilogue in epilogues(self.region, self.judge):
            why = f"an epilogue of {epilogue.product}, whose kernel ends with it"
            ends.setdefault(epilogue.numbers, []).append(epilogue.nodes)
            if epilogue.verdict is None:
                outputs, cost = epilogue.outputs, epilogue.cost_us
                self._add(epilogue.nodes, outputs, Way.EPILOGUE, cost, why=why)
            elif epilogue.nodes.bit_count() < self.options.largest_kernel:
                verdict, cost = epilogue.verdict, epilogue.verdict.cost_us + self.options.launch_us
                self._add(
                    epilogue.nodes, verdict.outputs, Way.PRODUCT, cost, verdict, why,
                    products=epilogue.numbers,
                )  # fmt: skip
        taken = [nodes for each in ends.values() for nodes in each]
        # Of several products each may take its part: all the least, or all the most.
        taken += [reduce(or_, (each[place] for each in ends.values()), 0) for place in (0, -1)]
        return taken

    def _without_ends(self, sets: Sequence[Nodes], ends: Sequence[Nodes]) -> None:
        """What is left of sets if products' kernels end with the rest."""
        for nodes in self._in_time(sets):
            for part in ends:
                self._stitched(nodes & ~part if nodes & part else 0)

    def _in_time(self, items: Sequence[Item]) -> Iterator[Item]:
        """As many of some as there is time for."""
        return takewhile(lambda _: not self.deadline.is_over, items)

    # Taking up candidates

    def _add(
        self,
        nodes: Nodes,
        outputs: tuple[Value, ...],
        way: Way,
        cost_us: float,
        verdict: Verdict | None = None,
        why: str = "",
        products: tuple[int, ...] = (),
    ) -> None:
        key = nodes, outputs, way, products
        if (outputs or way is Way.PRODUCT) and key not in self.found:
            reads = self.region.entering(nodes)
            self.found[key] = Candidate(nodes, outputs, reads, way, cost_us, verdict, why, products)

    def _least_us(self, nodes: Nodes, outputs: tuple[Value, ...]) -> float:
        judge = self.judge
        return least_us(self.region, nodes, outputs, judge.device, judge.bounds)

    def _alone(self, place: int, atom: Nodes) -> None:
        """A node by itself: as a view, TVM's way, and stitched unless it belongs with others."""
        nodes = 1 << place
        outputs = self.region.leaving(nodes)
        if self.region.is_view(place):
            self._add(nodes, outputs, Way.VIEW, 0.0)
            return
        if self.deadline.is_over:
            least = self._least_us(nodes, outputs)
            cost = DEFAULT_MARGIN * least + self.options.launch_us
            self._add(nodes, outputs, Way.DEFAULT, cost, why=NOT_PLANNED)
            return
        cost = self.judge.default_us(nodes, outputs)
        if nodes != atom and isinstance(self.judge(atom), Verdict):
            least = DEFAULT_MARGIN * self._least_us(nodes, outputs)
            self._add(nodes, outputs, Way.DEFAULT, max(cost, least) + self.options.launch_us)
            return
        verdict = self.judge(nodes)
        why = ""
        if isinstance(verdict, Refused):
            why = verdict.reason
        else:
            # TVM's kernel of one operator moves the same bytes, and maps it no better.
            cost = max(cost, DEFAULT_MARGIN * verdict.cost_us)
        self._add(nodes, outputs, Way.DEFAULT, cost + self.options.launch_us, why=why)
        self._stitched(nodes)

    def _stitched(self, nodes: Nodes, outputs: tuple[Value, ...] | None = None) -> Verdict | None:
        """Take up a set if kernel/ accepts it, with the kernels of its spare values."""
        if outputs is None:
            nodes = self.region.without_views(nodes)
        if not 0 < nodes.bit_count() <= self.options.largest_kernel:
            return None
        if not self.region.is_convex(nodes, outputs):
            return None
        verdict = self.judge(nodes, outputs)
        if isinstance(verdict, Refused) or (verdict.spare and self.options.partition):
            return None
        cost = verdict.cost_us + self.options.launch_us
        self._add(nodes, verdict.outputs, Way.STITCHED, cost, verdict)
        for value in verdict.spare:
            self._stitched(self.judge.behind(value, nodes), (value,))
        return verdict

    # The greedy plan

    def _greedy(self, sets: list[Nodes]) -> list[Key]:
        """The keys of the candidates that the greedy plan takes; the rest goes its default way."""
        taken: list[Key] = []
        left = self.region.everything
        for nodes in sets:
            verdict = self.judge(nodes)
            assert isinstance(verdict, Verdict), "kernel/ has accepted every set of the greedy plan"
            left &= ~nodes
            taken.append((nodes, verdict.outputs, Way.STITCHED, ()))
            for value in verdict.spare:
                behind = self.judge.behind(value, nodes)
                taken.append((behind, (value,), Way.STITCHED, ()))
        alone = {1 << place for place in bits(left)}
        ways = (Way.DEFAULT, Way.VIEW)
        taken += [key for key in self.found if key[0] in alone and key[2] in ways]
        return taken + [key for key in self.found if not key[0]]  # products, by themselves

    # More sets

    def _tried(self) -> None:
        """Sets that the greedy plan tried and gave up for larger ones."""
        for (nodes, outputs), verdict in self._in_time(list(self.judge.known.items())):
            if isinstance(verdict, Verdict) and outputs == self.region.leaving(nodes):
                self._stitched(nodes)

    def _cut(self, nodes: Nodes) -> Iterator[Nodes]:
        """A set in two, where little flows from one half to the other; halves that are better."""
        whole = self.judge(nodes)
        assert isinstance(whole, Verdict), "kernel/ has accepted every set of the greedy plan"
        atoms = self._atoms_of(nodes)
        halves: list[tuple[int, Nodes]] = []
        first: Nodes = 0
        crossing: list[Value] = []
        for atom in atoms[:-1]:
            first |= atom
            more = (value for place in bits(atom) for value in self.region.values_of[place])
            crossing = [v for v in (*crossing, *more) if v.users & nodes & ~first]
            size = sum(NOMINAL.bytes(self.region.buffer(value)) for value in crossing)
            halves.append((size, first))
        size = nodes.bit_count()
        tried = [half for _, half in sorted(halves)[: min(CUTS, max(1, MOST_CUT // size))]]
        if self._computes_much(whole):
            step = max(1, len(halves) // EVENLY)
            tried += [half for _, half in halves[step - 1 :: step][:EVENLY]]
        for half in dict.fromkeys(tried):
            self.left -= size
            both = half, nodes & ~half
            costs = [found.cost_us for found in map(self._stitched, both) if found is not None]
            if len(costs) == 2 and sum(costs) + self.options.launch_us < whole.cost_us:
                yield from map(self.region.without_views, both)

    def _computes_much(self, verdict: Verdict) -> bool:
        """Whether instructions take a kernel longer than its bytes and other launches would."""
        least = verdict.kernel.least(self.judge.bounds.likely)
        if least is None:
            return False
        return least.work_us > COMPUTED * least.memory_us + 2 * self.options.launch_us

    def _atoms_of(self, nodes: Nodes) -> list[Nodes]:
        inside = [atom & nodes for atom in self.atoms if atom & nodes]
        return sorted(inside)

    def _grow(self, sets: Sequence[Nodes]) -> None:
        """From each reduction and output, and from each greedy set, through the neighbours."""
        seeds = [atom for atom in self.atoms if self._is_dominant(atom)]
        for seed in dict.fromkeys([*sets, *seeds]):
            states = [seed]
            for _ in range(len(self.atoms)):
                following: dict[Nodes, float] = {}
                for state in states:
                    for neighbour in self._neighbours(state):
                        union = state | neighbour
                        self.left -= union.bit_count()
                        if self.left < 0 or self.deadline.is_over:
                            return
                        if union not in following and (verdict := self._stitched(union)):
                            following[union] = self._saving(union, verdict)
                if not following:
                    break
                ranked = sorted(following, key=lambda nodes: (-following[nodes], nodes))
                states = ranked[:BEAM]

    def _is_dominant(self, atom: Nodes) -> bool:
        needed = any(value.needed for p in bits(atom) for value in self.region.values_of[p])
        return needed or self.judge.reduces(atom)

    def _neighbours(self, nodes: Nodes) -> list[Nodes]:
        """The atoms that a set reads from, writes to, or shares an input with."""
        region = self.region
        near = region.around(nodes, region.sources) | region.around(nodes, region.users)
        for readers in region.readers.values():
            if readers & nodes:
                near |= readers
        return [atom & ~nodes for atom in self.atoms if atom & near & ~nodes]

    def _saving(self, nodes: Nodes, verdict: Verdict) -> float:
        """What a set saves against its atoms, each in a kernel of its own."""
        atoms = self._atoms_of(nodes)
        alone = (self.judge(atom) for atom in atoms)
        separate = sum(found.cost_us for found in alone if isinstance(found, Verdict))
        return separate + (len(atoms) - 1) * self.options.launch_us - verdict.cost_us

    def _duplicate(self, sets: Sequence[Nodes]) -> None:
        """Readers that compute cheap values themselves, and writers that then need not.

        All of a writer's values first, then one by one as far as there is effort left.
        """
        found = computing_again(self.region, self.judge, sets, self.options.recomputed)
        for each in self._in_time(found.together):
            self._stitched(*each)
        left = AGAIN
        for nodes, outputs in self._in_time(found.single):
            left -= nodes.bit_count()
            if left < 0:
                return
            self._stitched(nodes, outputs)
