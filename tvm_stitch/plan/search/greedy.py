"""A plan by a simple rule: every atom joins the sets of what it uses while a kernel allows it.

In: a Region, a Judge and atoms. Out: convex sets that form no cycle and are all accepted by
kernel/. The solver starts from them; they are the plan where it is not asked or not there.

A set is judged as a whole, whatever was added to it. Of many atoms as many as a kernel takes are
therefore added at once: all, or else half of them, and so on; twice as many after each success.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from tvm_stitch.plan.deadline import NEVER, Deadline
from tvm_stitch.plan.regions.region import Nodes, Region, bits
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Refused

# Up to so many atoms are added one by one: what is tried on the way is a candidate, too.
FEW_ATOMS = 32


def greedy_sets(
    region: Region,
    judge: Judge,
    atoms: Sequence[Nodes],
    largest: int,
    deadline: Deadline = NEVER,
) -> list[Nodes]:
    """Grow sets in the order of the atoms; what no kernel takes, or none in time, is in none."""
    grower = _Grower(region, judge, largest)
    place, count = 0, 1 if len(atoms) <= FEW_ATOMS else len(atoms)
    while place < len(atoms) and not deadline.is_over:
        several = atoms[place : place + count]
        if len(several) == 1:
            grower.place(several[0])
        elif not grower.place_all(several):
            count = len(several) // 2
            continue
        place += len(several)
        count *= 1 if len(atoms) <= FEW_ATOMS else 2
    if not deadline.is_over:
        grower.join_readers()
    return grower.sets()


class _Grower:
    def __init__(self, region: Region, judge: Judge, largest: int) -> None:
        self.region, self.judge, self.largest = region, judge, largest
        self.of: dict[int, Nodes] = {}  # node -> its set

    def sets(self) -> list[Nodes]:
        """The sets, each once, in the order of their first nodes."""
        return list(dict.fromkeys(self.of[place] for place in sorted(self.of)))

    def place(self, atom: Nodes) -> None:
        """Let an atom join as many of its sources' sets as one kernel can hold."""
        sources = self.region.around(atom, self.region.sources)
        sets = {self.of[place]: None for place in bits(sources) if place in self.of}
        ordered = sorted(sets, key=lambda nodes: (-nodes.bit_count(), nodes))
        joined = self._joined([atom, *ordered])
        if joined:
            self._settle(joined)
        elif atom.bit_count() > 1:
            for place in bits(atom):
                self.place(1 << place)

    def place_all(self, atoms: Sequence[Nodes]) -> bool:
        """Let atoms join their sources' sets, connected ones together, if kernels hold them all."""
        connected = self._connected(atoms)
        if not all(self._accepted(nodes, of) for nodes, of in connected):
            return False
        for nodes, _ in connected:
            self._settle(nodes)
        return True

    def _connected(self, atoms: Sequence[Nodes]) -> list[tuple[Nodes, list[Nodes]]]:
        """Atoms with the sets of what they use; what each is made of."""
        found: list[tuple[Nodes, list[Nodes]]] = []
        for atom in atoms:
            sources = self.region.around(atom, self.region.sources)
            nodes, of = atom, [self.of[place] for place in bits(sources) if place in self.of]
            for each in of:
                nodes |= each
            near = [each for each in found if each[0] & (nodes | sources)]
            found = [each for each in found if not each[0] & (nodes | sources)]
            for others, parts in near:
                nodes, of = nodes | others, of + parts
            found.append((nodes, list(dict.fromkeys(of))))
        return found

    def _joined(self, sets: list[Nodes]) -> Nodes:
        """The first set and as many others as one kernel can hold; none if not even the first."""
        everything = 0
        for nodes in sets:
            everything |= nodes
        if self._accepted(everything, sets):
            return everything
        current = sets[0] if self._accepted(sets[0], sets[:1]) else 0
        if current and len(sets) > FEW_ATOMS:
            return self._most(sets)
        for nodes in sets[1:]:
            union = (current or sets[0]) | nodes
            if self._accepted(union, [current or sets[0], nodes]):
                current = union
        return current

    def join_readers(self) -> None:
        """Sets that read the same value become one, the largest such value first."""
        region = self.region
        read = [(NOMINAL.bytes(buffer), nodes) for buffer, nodes in region.readers.items()]
        read += [(NOMINAL.bytes(region.buffer(v)), v.users) for v in region.values if v.users]
        for _, readers in sorted(read, key=lambda item: item[0], reverse=True):
            sets = list(dict.fromkeys(self.of[p] for p in bits(readers) if p in self.of))
            while len(sets) > 1:
                together = self._most(sets)
                self._settle(together)
                sets = [nodes for nodes in sets if not nodes & together]

    def _most(self, sets: Sequence[Nodes]) -> Nodes:
        """The first of some sets with as many of the others as one kernel can hold."""
        together, place, count = sets[0], 1, 1 if len(sets) <= FEW_ATOMS else len(sets) - 1
        while place < len(sets):
            several = [together, *sets[place : place + count]]
            union = reduce(or_, several)
            if self._accepted(union, several):
                together, count = union, count * 2
            elif count > 1 and len(several) > 2:
                count = (len(several) - 1) // 2
                continue
            place += len(several) - 1
        return together

    def _accepted(self, nodes: Nodes, of: Sequence[Nodes]) -> bool:
        """Whether nodes can be one kernel with no more unrelated parts than what it is made of.

        Packing unrelated parts comes later, when all sets are known.
        """
        if nodes.bit_count() > self.largest or self._cyclic(nodes):
            return False
        verdict = self.judge(nodes)
        if isinstance(verdict, Refused):
            return False
        parts = [found for found in map(self.judge, of) if not isinstance(found, Refused)]
        return verdict.kernel.parts <= max((p.kernel.parts for p in parts), default=1)

    def _settle(self, nodes: Nodes) -> None:
        for place in bits(nodes):
            self.of[place] = nodes

    def _cyclic(self, nodes: Nodes) -> bool:
        """Whether a way leads out of a set and, through other sets, back into it."""
        region = self.region
        seen, pending = nodes, region.around(nodes, region.users)
        while pending:
            place = pending.bit_length() - 1
            together = self.of.get(place, 0)
            together = 1 << place if together & nodes else together | 1 << place
            seen |= together
            following = 0
            for member in bits(together):
                following |= region.users[member]
            if following & nodes:
                return True
            pending = (pending | following) & ~seen
        return False
