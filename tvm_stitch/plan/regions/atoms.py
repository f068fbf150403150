"""Nodes that always go together, so that the planner has fewer pieces to try.

In: a Region. Out: sets of nodes, each convex. Must not know kernels.

An operator whose result goes to one other of as many elements, or a view with one reader, costs
memory traffic alone and nothing together. Transposes, slices and the like stay apart: reading
through them may cost a kernel more than it saves. So does what windows of many elements read, which
would be computed for each of them.
"""

from __future__ import annotations

from collections import Counter

from tvm_stitch.graph.front.read import Node
from tvm_stitch.plan.regions.region import Nodes, Region, bits
from tvm_stitch.stages.op_pattern import Pattern, distinct_loads
from tvm_stitch.stages.stage import handle, same_size

WINDOW = 3  # elements
_FREE = (Pattern.ELEMENTWISE, Pattern.BROADCAST)


def find_atoms(region: Region) -> list[Nodes]:
    """All nodes, each in one atom; an atom follows those that it reads."""
    leader = list(range(len(region.indices)))
    reader = list(leader)  # of a view that goes with its reader, that; of others, themselves
    for place in reversed(range(len(region.indices))):
        user = _only_user(region, place)
        if user is not None and _belongs(region.nodes[place], region.nodes[reader[user]]):
            leader[place] = leader[user]
            if region.is_view(place):
                reader[place] = reader[user]
    atoms: dict[int, Nodes] = {}
    for place, first in enumerate(leader):
        atoms[first] = atoms.get(first, 0) | 1 << place
    return sorted(atoms.values())


def _only_user(region: Region, place: int) -> int | None:
    if any(value.needed for value in region.values_of[place]):
        return None
    users = list(bits(region.users[place]))
    return users[0] if len(users) == 1 else None


def _belongs(node: Node, user: Node) -> bool:
    if node.pattern is Pattern.RESHAPE:
        return user.pattern is not Pattern.INJECTIVE
    if node.pattern not in _FREE or not user.stages or _has_windows(user):
        return False
    return same_size(node.stages[-1].size, user.stages[0].total_size)


def _has_windows(node: Node) -> bool:
    """Whether an element is computed of several of the same tensor, as a convolution's is."""
    counts = Counter(handle(buffer) for stage in node.stages for buffer in distinct_loads(stage))
    return max(counts.values(), default=0) >= WINDOW
