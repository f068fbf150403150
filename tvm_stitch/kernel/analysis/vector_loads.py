"""Which loads along the columns are vectors: slices, concatenations, weights of a norm.

In: the Addresses that a phase loads and the vector width of its thread. Out: what is loaded at once
(VectorLoad), as wide as contiguity, alignment and the branches that loads stand in allow; which
numbers take the place of what is not loaded; and which branches are one load of either place. Must
not know threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import (
    COLUMN,
    LANE,
    ROW,
    Address,
    AddressKey,
    Frame,
    Stride,
)
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.stages.bfloat16_constants import by_bits
from tvm_stitch.stages.guards import Within, innermost, is_branch
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    dtype_of,
    element_bytes,
    handle,
    loads_in,
    replaced,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64
from tvm_stitch.stages.visit import walked

_FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@dataclass(frozen=True, eq=False)
class VectorAccess:
    """One access: so many of the loaded elements from `first` on, where the guard holds."""

    first: int
    width: int
    guard: Expr | None = None  # of ROW and the first lane's COLUMN; None: always

    def guard_at(self, row: Expr, column: Expr) -> Expr | None:
        """The condition for a given row and first column."""
        return None if self.guard is None else substitute(self.guard, {ROW: row, COLUMN: column})


@dataclass(frozen=True, eq=False)
class VectorLoad:
    """What so many neighbouring columns, its lanes, read of a buffer, loaded at once.

    Where a concatenation reads one buffer at either of two places, `otherwise` is the second: the
    place is selected, so that one access without a branch serves both.
    """

    address: Address
    otherwise: Address | None
    lanes: int
    size: int  # elements that are loaded, or lie between such
    before: int  # of them, those in front of what the first lane reads at the address
    accesses: tuple[VectorAccess, ...]
    serves: tuple[Address, ...]
    slots: Mapping[AddressKey, Expr]  # which of the elements a LANE reads, by address

    @staticmethod
    def of_neighbours(address: Address, otherwise: Address | None, width: int) -> VectorLoad:
        """A vector whose elements neighbouring columns read, one each."""
        serves = (address,) if otherwise is None else (address, otherwise)
        access = VectorAccess(0, width, address.guard if otherwise is None else None)
        slots = {each.key: LANE for each in serves}
        return VectorLoad(address, otherwise, width, width, 0, (access,), serves, slots)

    @property
    def of_row(self) -> bool:
        """Whether other rows read other elements."""
        return any(address.of_row for address in self.serves)

    @property
    def is_of_one_address(self) -> bool:
        """Whether lanes read what lies side by side at one address, under its condition alone."""
        if self.otherwise is not None or len(self.serves) > 1 or len(self.accesses) > 1:
            return False
        slots = list(self.slots.values())
        return self.size == self.lanes and not self.before and slots[0].same_as(LANE)

    @property
    def has_ends(self) -> bool:
        """Whether its first or last elements are not loaded."""
        first, last = self.accesses[0], self.accesses[-1]
        return first.first > 0 or last.first + last.width < self.size

    @property
    def lane_bytes(self) -> float:
        """From what a lane reads to what the next one does, in the mean."""
        item, last = element_bytes(self.address.buffer), int64(self.lanes - 1)
        slots = [constant(self.slot(self.address.key, lane)) or 0 for lane in (int64(0), last)]
        return item * (slots[1] - slots[0]) / max(1, self.lanes - 1)

    def at(self, row: Expr, column: Expr) -> Expr:
        """The position of its first element, by the first of its columns."""
        here = self.address.at(row, column)
        if self.otherwise is None:
            return here - self.before if self.before else here
        taken = self.address.guard_at(row, column)
        return tirx.Select(taken, here, self.otherwise.at(row, column))

    def elements(self, vector: int) -> int:
        """Registers for a vector of columns."""
        return vector // self.lanes * self.size

    def slot(self, key: AddressKey, lane: Expr) -> Expr:
        """Which of these has the element of a lane of the vector at an address."""
        own = substitute(self.slots[key], {LANE: tirx.floormod(lane, self.lanes)})
        return tvm.sym.Analyzer().simplify(tirx.floordiv(lane, self.lanes) * self.size + own)


def plan_vector_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> list[VectorLoad]:
    """The vectors among the addresses; those that fit none are loaded element by element."""
    found: dict[object, VectorLoad] = {}
    for address in addresses:
        if address.key in found or address.everywhere.key in found:
            continue
        width = vector_width_of(frame, address, vector)
        if width < 2:
            continue
        partner = _partner(frame, address, found.values())
        if partner is not None:
            merged = VectorLoad.of_neighbours(partner.address, address, min(width, partner.lanes))
            found[partner.address.key] = found[address.key] = merged
        else:
            found[address.key] = VectorLoad.of_neighbours(address, None, width)
    return list(dict.fromkeys(found.values()))


def vector_width_of(frame: Frame, address: Address, vector: int) -> int:
    """Elements of an access that neighbouring columns read, one each: a power of two."""
    if address.stride is Stride.UNIFORM:
        return 1
    most = min(vector, ACCESS_BYTES // element_bytes(address.buffer))
    if address.origin is None:
        return _widest_of(frame, address, most)
    # Of a program only its space matters, and sets that grow around a stage ask the same of it.
    key = "vector width", frame.program.space.key, *address.key, most
    return remembered(address.origin[0], key, lambda: _widest_of(frame, address, most))


def _widest_of(frame: Frame, address: Address, most: int) -> int:
    while most > 1 and not _fits(frame, address, most):
        most //= 2
    return most


def _fits(frame: Frame, address: Address, width: int) -> bool:
    return (
        frame.contiguous(address.index, width)
        and frame.aligned(address.index, width)
        and (address.guard is None or frame.uniform(address.guard, width))
    )


def _partner(frame: Frame, address: Address, candidates: Iterable[VectorLoad]) -> VectorLoad | None:
    """A vector of the same buffer that is loaded exactly where this one is not."""
    for other in candidates:
        if (
            other.otherwise is None
            and other.address.buffer == address.buffer
            and frame.complementary(other.address.guard, address.guard)
        ):
            return other
    return None


def loaded_in_turns(loads: Iterable[VectorLoad]) -> list[list[VectorLoad]]:
    """The loads in groups, of each of which one at most is taken: they can share registers.

    Such are those of a concatenation, which ask in which interval one index is.
    """
    groups: list[list[VectorLoad]] = []
    of_index: dict[object, tuple[Within, list[VectorLoad]]] = {}
    for load in loads:
        guard = load.accesses[0].guard if len(load.accesses) == 1 else None
        own = None if guard is None else innermost(guard)
        if own is None:
            groups.append([load])
            continue
        shape = dtype_of(load.address.buffer), load.lanes, load.size
        key = *shape, tvm_ffi.StructuralKey(own.index)
        taken, group = of_index.get(key, (None, []))
        if taken is None or not taken.is_apart(own):
            groups.append(group := [])
            taken = Within(own.index, ())
        group.append(load)
        of_index[key] = Within(own.index, taken.intervals + own.intervals), group
    return groups


@dataclass(frozen=True, eq=False)
class Branch:
    """A call that is a load, perhaps cast, where a condition holds, and a number elsewhere."""

    call: Expr
    loaded: Expr
    number: Expr  # in the dtype of what is loaded


@memoized
def branches(stage: Stage) -> dict[int, Branch]:
    """The branches of a stage that are a load, or a number, by the keys of their reads.

    A load may be cast there to what the number then is exactly: the number can be had in its place.
    """
    found: dict[int, Branch] = {}

    def visit(call: tvm.ir.Call) -> None:
        if not is_branch(call):
            return
        condition, then, otherwise = call.args
        load = then.value if isinstance(then, tirx.Cast) else then
        own = next((read for read in stage.reads if read.key == handle(load)), None)
        if own is None or not tvm_ffi.structural_equal(own.guard, condition):
            return
        number = _as_dtype(otherwise, dtype_of(load))
        if number is not None:
            found[own.key] = Branch(call, then, number)

    walked(stage.value, (tvm.ir.Call, visit))
    return found


def _as_dtype(number: Expr, dtype: str) -> Expr | None:
    """A number of another dtype, if there is the same one."""
    if dtype_of(number) == dtype:
        return None if tirx.analysis.undefined_vars(number) else number
    if not isinstance(number, tirx.FloatImm) or dtype not in _FLOATS:
        return None
    rounded = float(np.dtype(_FLOATS[dtype]).type(number.value))
    return by_bits(tirx.const(rounded, dtype)) if rounded == number.value else None


def fill(frame: Frame, load: VectorLoad, reads: Iterable[tuple[Stage, Read]]) -> Expr | None:
    """The number that all reads of a vector have where it is not loaded, if there is one."""
    if load.otherwise is not None or load.address.guard is None or len(load.accesses) > 1:
        return None
    numbers: list[Expr] = []
    for stage, read in reads:
        own = read.buffer == load.address.buffer and frame.address(stage, read).key in load.slots
        if own and read.key not in branches(stage):
            return None
        if own:
            numbers.append(branches(stage)[read.key].number)
    alike = all(tvm_ffi.structural_equal(each, numbers[0]) for each in numbers)
    return numbers[0] if numbers and alike else None


@dataclass(frozen=True, eq=False)
class Choice:
    """A call whose branches, and theirs, are all loads of one buffer: a load of a chosen place."""

    call: Expr
    reads: tuple[Read, ...]

    def place(self, places: Mapping[int, Expr], axes: Mapping[Var, Expr]) -> Expr:
        """The place that is chosen of those of its reads, by their keys, by the stage's axes."""

        def chosen(node: Expr) -> Expr:
            if isinstance(node, tvm.ir.TensorLoad):
                return places[handle(node)]
            condition, then, otherwise = node.args
            return tirx.Select(replaced(condition, {}, axes), chosen(then), chosen(otherwise))

        return chosen(self.call)


@memoized
def choices(stage: Stage) -> tuple[Choice, ...]:
    """Those of a stage, none of them part of another."""
    found: list[Choice] = []
    by_key = {read.key: read for read in stage.reads}

    def leaves(node: Expr) -> list[Read] | None:
        if isinstance(node, tvm.ir.TensorLoad):
            return [by_key[handle(node)]]
        if not isinstance(node, tvm.ir.Call) or not is_branch(node) or loads_in(node.args[0]):
            return None
        then, otherwise = leaves(node.args[1]), leaves(node.args[2])
        return None if then is None or otherwise is None else [*then, *otherwise]

    def visit(call: tvm.ir.Call) -> object:
        reads = leaves(call)
        if reads is None or any(read.buffer != reads[0].buffer for read in reads):
            return None
        found.append(Choice(call, tuple(reads)))
        return tvm_ffi.WalkResult.SKIP

    walked(stage.value, (tvm.ir.Call, visit), pre=True)
    return tuple(found)
