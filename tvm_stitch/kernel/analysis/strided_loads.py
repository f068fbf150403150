"""Which loads are strided, or overlap: windows of a pooling, steps of a slice, shifted neighbours.

In: the Addresses that a phase loads and the vector width of its thread. Out: all that is loaded at
once. Addresses close to each other whose distances are known, lane by lane, lie in one stretch of
memory, which is read in aligned vectors, each element once. Must not know threads.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

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
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import (
    Expr,
    as_int64,
    buffer_size,
    constant,
    element_bytes,
    find_reads,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import is_multiple

MOST_CONDITIONS = 2  # that are asked before an access
MOST_BYTES = 128  # from the first to the last that a vector's lanes read: all is in registers
# Addresses by what is read there: of each the same under different guards.
_Places = dict[AddressKey, list[Address]]
_Condition = Mapping[tvm_ffi.StructuralKey, Expr]  # all of which hold


def plan_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> list[VectorLoad]:
    """All that comes in vectors; what fits none is loaded element by element."""
    distinct = list({address.key: address for address in addresses}.values())
    key = "loads", vector, tuple(address.key for address in distinct)
    return remembered(frame.program, key, lambda: _plan(frame, distinct, vector))


def _plan(frame: Frame, addresses: list[Address], vector: int) -> list[VectorLoad]:
    strided = list(_strided_loads(frame, addresses, vector))
    served = {key for load in strided for key in load.slots}
    rest = [address for address in addresses if address.everywhere.key not in served]
    return [*strided, *plan_vector_loads(frame, rest, vector)]


def _strided_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> Iterator[VectorLoad]:
    """Those that are needed for what is no vector of neighbours' elements by itself."""
    buffers: dict[object, _Places] = defaultdict(lambda: defaultdict(list))
    for address in addresses:
        conditional = address.guard is not None and find_reads(address.guard)
        if not (address.stride is Stride.UNIFORM or address.from_memory or conditional):
            buffers[address.buffer][address.everywhere.key].append(address)
    for places in buffers.values():
        for key in list(places):
            if key not in places or vector_width_of(frame, places[key][0], vector) > 1:
                continue
            load = _widest(frame, key, places, vector)
            if load is not None:
                yield load
                for served in load.slots:
                    del places[served]


def _widest(frame: Frame, key: AddressKey, places: _Places, vector: int) -> VectorLoad | None:
    """What serves a place, and others near it, for as many lanes as can be."""
    lanes = vector
    while lanes:
        load = _stretch(frame, key, places, lanes)
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


def _stretch(frame: Frame, key: AddressKey, places: _Places, lanes: int) -> VectorLoad | None:
    """The stretch around a place; None: it takes no fewer accesses than there are elements."""
    address = places[key][0]
    coefficient, base = frame.starts(address.index, lanes)
    width = math.gcd(coefficient, ACCESS_BYTES // element_bytes(address.buffer))
    while not is_multiple(buffer_size(address.buffer), as_int64(width)):
        width //= 2
    if width < 2:
        return None
    paths = _near(key, _paths(frame, key, places, lanes), width)
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


def _paths(frame: Frame, key: AddressKey, places: _Places, lanes: int) -> dict[AddressKey, _Path]:
    """Of all places at known distances from one."""
    first, found = places[key][0].index, {}
    for own, addresses in places.items():
        distance = frame.distance(addresses[0].index, first, lanes)
        moved = frame.moved_by_lanes(addresses[0].index, lanes)
        if distance is None or moved is None:
            continue
        simplify = frame.analyzer.simplify
        steps = [constant(simplify(substitute(moved, {LANE: as_int64(n)}))) for n in range(lanes)]
        offsets = tuple(distance + step for step in steps if step is not None)
        if len(offsets) == lanes:
            found[own] = _Path(tuple(addresses), moved + distance, offsets)
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
