"""Which loads along the columns are vectors: slices, concatenations, weights of a norm.

In: the Addresses that a phase loads and the vector width of its thread. Out: what is loaded at once
(VectorLoad), as wide as contiguity, alignment and the branches that loads stand in allow. Must not
know threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import Address, Frame, Stride
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.stages.stage import Expr, element_bytes


@dataclass(frozen=True, eq=False)
class VectorLoad:
    """A vector of elements that neighbouring columns read, loaded in accesses of `width`.

    Where a concatenation reads one buffer at either of two places, `otherwise` is the second: the
    place is selected, so that one access without a branch serves both.
    """

    address: Address
    otherwise: Address | None
    width: int

    @property
    def serves(self) -> tuple[Address, ...]:
        """The addresses whose elements it holds."""
        return (self.address,) if self.otherwise is None else (self.address, self.otherwise)

    @property
    def of_row(self) -> bool:
        """Whether other rows read other elements."""
        return any(address.of_row for address in self.serves)

    def at(self, row: Expr, column: Expr) -> Expr:
        """The position of the element of a column."""
        here = self.address.at(row, column)
        if self.otherwise is None:
            return here
        taken = self.address.guard_at(row, column)
        return tirx.Select(taken, here, self.otherwise.at(row, column))

    def guard(self, row: Expr, column: Expr) -> Expr | None:
        """When it is loaded; None: always."""
        return None if self.otherwise is not None else self.address.guard_at(row, column)


def plan_vector_loads(frame: Frame, addresses: Iterable[Address], vector: int) -> list[VectorLoad]:
    """The vectors among the addresses; those that fit none are loaded element by element."""
    found: dict[object, VectorLoad] = {}
    for address in addresses:
        if address.key in found or address.everywhere.key in found:
            continue
        width = _width(frame, address, vector)
        if width < 2:
            continue
        partner = _partner(frame, address, found.values())
        if partner is not None:
            merged = VectorLoad(partner.address, address, min(width, partner.width))
            found[partner.address.key] = found[address.key] = merged
        else:
            found[address.key] = VectorLoad(address, None, width)
    return list(dict.fromkeys(found.values()))


def _width(frame: Frame, address: Address, vector: int) -> int:
    """Elements of an access: a power of two."""
    if address.stride is Stride.UNIFORM:
        return 1
    vector = min(vector, ACCESS_BYTES // element_bytes(address.buffer))
    while vector > 1 and not _fits(frame, address, vector):
        vector //= 2
    return vector


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
