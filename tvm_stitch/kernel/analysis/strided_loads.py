"""Which loads are strided, or overlap: windows of a pooling, steps of a slice, shifted neighbours.

In: the Addresses that a phase loads and the vector width of its thread. Out: all that is loaded at
once. Addresses close to each other whose distances are known, lane by lane, lie in one stretch of
memory, which is read in aligned vectors, each element once. Must not know threads.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, LANE, Address, AddressKey, Frame, Stride
from tvm_stitch.kernel.analysis.vector_loads import (
    VectorAccess,
    VectorLoad,
    plan_vector_loads,
    vector_width_of,
)
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.stages.guards import conjuncts
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    buffer_size,
    constant,
    element_bytes,
    loads_in,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import is_multiple

MOST_CONDITIONS = 2  # that are asked before an access
MOST_BYTES = 128  # from the first to the last that a vector's lanes read: all is in registers
_Condition = Mapping[tvm_ffi.StructuralKey, Expr]  # all of which hold


@dataclass(frozen=True)
class _Steps:
    """How an address moves from lane to lane."""

    moved: Expr  # of a LANE
    offsets: tuple[int, ...]  # the same, lane by lane


class _Places:
    """The addresses of one buffer by what is read there: of each the same under different guards.

    What is found of a place is kept: every stretch asks all of them.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.addresses: dict[AddressKey, list[Address]] = defaultdict(list)
        self._indices: dict[AddressKey, Expr] = {}
        self.memo: dict[Hashable, Any] = {}
        self._origins: dict[int, dict[AddressKey, tuple[AddressKey, int]]] = defaultdict(dict)

    def add(self, address: Address) -> None:
        """One more address of a place, new or not."""
        key = address.everywhere.key
        self.addresses[key].append(address)
        self._indices.setdefault(key, address.index)

    @memoized
    def steps(self, key: AddressKey, lanes: int) -> _Steps | None:
        """How a place moves with the lanes of a vector; None: not alike in all vectors."""
        moved = self.frame.moved_by_lanes(self._indices[key], lanes)
        if moved is None:
            return None
        simplify, own = self.frame.analyzer.simplify, map(as_int64, range(lanes))
        each = [constant(simplify(substitute(moved, {LANE: lane}))) for lane in own]
        offsets = tuple(offset for offset in each if offset is not None)
        return _Steps(moved, offsets) if len(offsets) == lanes else None

    def distance(self, key: AddressKey, other: AddressKey, lanes: int) -> int | None:
        """By how much one place is behind another for the first lane of any vector."""
        (first, own), (second, others) = self._origin(key, lanes), self._origin(other, lanes)
        return own - others if first == second else None

    def _origin(self, key: AddressKey, lanes: int) -> tuple[AddressKey, int]:
        """The first place that was asked of at a known distance from one, and how far it is."""
        known = self._origins[lanes]
        if key not in known:
            known[key] = key, 0
            for first in {first: None for first, _ in known.values() if first != key}:
                distance = self.frame.distance(self._indices[key], self._indices[first], lanes)
                if distance is not None:
                    known[key] = first, distance
                    break
        return known[key]


def plan_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> list[VectorLoad]:
    """All that comes in vectors; what fits none is loaded element by element."""
    distinct = list({address.key: address for address in addresses}.values())
    # Of a program only its space matters: sets that grow around a stage find what it loads again.
    stages = [address.origin and address.origin[0] for address in distinct]
    owner = next((stage for stage in stages if stage is not None), frame.program)
    asked = tuple((stage, *each.key) for stage, each in zip(stages, distinct, strict=True))
    key = "loads", frame.program.space.key, vector, asked
    return remembered(owner, key, lambda: _plan(frame, distinct, vector))


def _plan(frame: Frame, addresses: list[Address], vector: int) -> list[VectorLoad]:
    strided = list(_strided_loads(frame, addresses, vector))
    served = {key for load in strided for key in load.slots}
    rest = [address for address in addresses if address.everywhere.key not in served]
    return [*strided, *plan_vector_loads(frame, rest, vector)]


def _strided_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> Iterator[VectorLoad]:
    """Those that are needed for what is no vector of neighbours' elements by itself."""
    buffers: dict[Var, _Places] = {}
    for address in addresses:
        conditional = address.guard is not None and loads_in(address.guard)
        if not (address.stride is Stride.UNIFORM or address.from_memory or conditional):
            buffers.setdefault(address.buffer, _Places(frame)).add(address)
    for places in buffers.values():
        left = places.addresses
        for key in list(left):
            if key not in left or vector_width_of(frame, left[key][0], vector) > 1:
                continue
            load = _widest(places, key, vector)
            if load is not None:
                yield load
                for served in load.slots:
                    del left[served]


def _widest(places: _Places, key: AddressKey, vector: int) -> VectorLoad | None:
    """What serves a place, and others near it, for as many lanes as can be."""
    lanes = vector
    while lanes:
        load = _stretch(places, key, lanes)
        if load is not None:
            return load
        lanes //= 2
    return None


@dataclass(frozen=True)
class _Path:
    """Where lanes find their elements at one place: counted from the first lane's at another."""

    addresses: tuple[Address, ...]
    slot: Expr  # of a LANE
    offsets: tuple[int, ...]  # the same, lane by lane


def _stretch(places: _Places, key: AddressKey, lanes: int) -> VectorLoad | None:
    """The stretch around a place; None: it takes no fewer accesses than there are elements."""
    frame, address = places.frame, places.addresses[key][0]
    coefficient, base = frame.starts(address.index, lanes)
    width = math.gcd(coefficient, ACCESS_BYTES // element_bytes(address.buffer))
    while not is_multiple(buffer_size(address.buffer), as_int64(width)):
        width //= 2
    if width < 2:
        return None
    paths = _near(key, _paths(places, key, lanes), width)
    offsets = sorted({offset for path in paths.values() for offset in path.offsets})
    if not offsets:
        return None
    before = (base + offsets[0]) % width - offsets[0]
    pieces = _pieces([before + offset for offset in offsets], width)
    size = -(-pieces[-1].stop // width) * width
    if len(pieces) >= len(offsets) or size * element_bytes(address.buffer) > MOST_BYTES:
        return None
    conditions = [_conditions(frame, paths.values(), piece, before) for piece in pieces]
    if max(map(len, conditions)) > MOST_CONDITIONS:
        return None
    accesses = tuple(
        VectorAccess(piece.start, len(piece), _any_of(own))
        for piece, own in zip(pieces, conditions, strict=True)
    )
    served = tuple(each for path in paths.values() for each in path.addresses)
    slots = {own: path.slot + before for own, path in paths.items()}
    return VectorLoad(address.everywhere, None, lanes, size, before, accesses, served, slots)


def _paths(places: _Places, key: AddressKey, lanes: int) -> dict[AddressKey, _Path]:
    """Of all places at known distances from one."""
    found = {}
    for own, addresses in places.addresses.items():
        steps, distance = places.steps(own, lanes), places.distance(own, key, lanes)
        if steps is not None and distance is not None:
            offsets = tuple(distance + step for step in steps.offsets)
            found[own] = _Path(tuple(addresses), steps.moved + distance, offsets)
    return found


def _near(
    key: AddressKey, paths: Mapping[AddressKey, _Path], width: int
) -> dict[AddressKey, _Path]:
    """The paths that lie around one without gaps of a vector or more."""
    group: dict[AddressKey, _Path] = {}
    last = -math.inf
    for own, path in sorted(paths.items(), key=lambda item: min(item[1].offsets)):
        if min(path.offsets) - last > width:
            if key in group:
                break
            group = {}
            last = -math.inf
        group[own] = path
        last = max(last, *path.offsets)
    return group if key in group else {}


def _pieces(elements: list[int], width: int) -> list[range]:
    """Aligned vectors that hold all of some elements, none wider than they ask for."""
    by_vector = defaultdict(list)
    for element in elements:
        by_vector[element // width].append(element)
    return [_piece(own, range(n * width, (n + 1) * width)) for n, own in by_vector.items()]


def _piece(elements: list[int], whole: range) -> range:
    half = len(whole) // 2
    for part in (whole[:half], whole[half:]):
        if half and elements[0] in part and elements[-1] in part:
            return _piece(elements, part)
    return whole


def _conditions(
    frame: Frame, paths: Collection[_Path], piece: range, before: int
) -> list[_Condition]:
    """Under each of which an element of a piece is read; none of them follows from another."""
    found: list[_Condition] = []
    for path in paths:
        lanes = [n for n, offset in enumerate(path.offsets) if before + offset in piece]
        for address in path.addresses:
            for lane in lanes:
                condition = _condition(frame, address.guard, len(path.offsets), lane)
                if condition is not None and not any(o.keys() <= condition.keys() for o in found):
                    found = [each for each in found if not condition.keys() <= each.keys()]
                    found.append(condition)
    return found


def _condition(frame: Frame, guard: Expr | None, vector: int, lane: int) -> _Condition | None:
    """What must hold for a lane, by what is left of it there; None: it never does."""
    left: dict[tvm_ffi.StructuralKey, Expr] = {}
    for condition in [] if guard is None else conjuncts(guard):
        moved = 0 if frame.uniform(condition, vector) else lane
        there = frame.at_lane(condition, vector, moved)
        if constant(there) == 0:
            return None
        if constant(there) is None:
            key = tvm_ffi.StructuralKey(there)
            left[key] = substitute(condition, {COLUMN: COLUMN + moved})
    return left


def _any_of(conditions: list[_Condition]) -> Expr | None:
    """Whether one of them holds; None: always."""
    if not all(conditions):
        return None
    either = [tirx.all(*each.values()) for each in conditions]
    return tirx.any(*either) if either else tirx.const(False, "bool")
