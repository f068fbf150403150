"""What attention that a library computes is asked for, as data and as numbers of the call.

In: extents, and where the heads lie in the tensors that are passed. Out: the arguments of the
packed function NAME, which `native/attention.cc` reads in the same order. Knows no Relax.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias, TypeVar

from tvm_stitch.library.of_counts import OfCounts

NAME = "tvm_stitch.library.attention"
"""The packed function: query, keys, values, the bias if there is one, the numbers of `encoded`, and
the result to be written."""

BYTES = 2
"""Of an element: halves."""

WORKSPACE_BYTES = 32 << 20
"""What a call may work in, more than cuDNN asks for; memory planning lets all calls share it."""

NO_MASK, TOP_LEFT, BOTTOM_RIGHT = "none", "top left", "bottom right"
"""Which keys a query sees: all, those up to its own number, or those up to where its number is if
the last query stands at the last key."""
_MASKS = (NO_MASK, TOP_LEFT, BOTTOM_RIGHT)
_EXTENTS, _PLACES = 7, 4

EXPECTED_KEYS, EXPECTED_BATCH = 1024, 4
"""What is planned with where keys, and entries of a batch, are counted at run time only."""

Size: TypeAlias = int | Any
"""A number; of what is counted at run time only an OfCounts, in kernels an expression."""


_Own = TypeVar("_Own", bound="_Sizes")


class _Sizes:
    """Sizes, some of which may follow from what is counted at run time only."""

    def at(self: _Own, keys: Size, batch: Size) -> _Own:
        """The same of so many keys and entries."""
        return type(self)(*(size_at(each, keys, batch) for each in vars(self).values()))


@dataclass(frozen=True)
class Place(_Sizes):
    """Where the heads of a tensor lie in memory, in elements: a head's rows are contiguous."""

    start: Size
    batch: Size
    head: Size
    row: Size


@dataclass(frozen=True)
class Bias(_Sizes):
    """Where what is added to the scores lies; 0 along what it is the same for."""

    start: Size
    batch: Size
    head: Size
    query: Size
    key: Size


@dataclass(frozen=True)
class Attention:
    """softmax(scale * query . keys + bias) . values, the scores in float32.

    Several heads of queries may share one of keys and values: `heads` is a multiple of `key_heads`.
    Of a cache that grows, `keys` and what follows from them are counted at run time only; where
    batches are of any size, their entries are.
    """

    mask: str
    scale: float
    batch: Size
    heads: int
    key_heads: int
    queries: int
    keys: Size
    depth: int
    value_depth: int
    query: Place
    key: Place
    value: Place
    output: Place
    bias: Bias | None = None

    def __str__(self) -> str:
        shared = "" if self.heads == self.key_heads else f" by {self.key_heads}"
        keys = f"{self.keys}" if isinstance(self.keys, int) else "any number of"
        batch = f"{self.batch}" if isinstance(self.batch, int) else "any batch"
        parts = (
            f"{batch} x {self.heads}{shared} heads of {self.depth}",
            f"{self.queries} queries, {keys} keys",
            "" if self.bias is None else "bias",
            "" if self.mask == NO_MASK else "causal",
        )
        return ", ".join(filter(None, parts))

    @property
    def is_fixed(self) -> bool:
        """Whether all is known before run time."""
        return isinstance(self.keys, int) and isinstance(self.batch, int)

    def at(self, keys: Size = EXPECTED_KEYS, batch: Size = EXPECTED_BATCH) -> Attention:
        """The same of so many keys and entries, where these are counted at run time only."""
        return replace(
            self,
            batch=size_at(self.batch, keys, batch),
            keys=size_at(self.keys, keys, batch),
            query=self.query.at(keys, batch),
            key=self.key.at(keys, batch),
            value=self.value.at(keys, batch),
            output=self.output.at(keys, batch),
            bias=None if self.bias is None else self.bias.at(keys, batch),
        )

    @property
    def expected(self) -> Attention:
        """What is planned with: itself, if all is known."""
        return self if self.is_fixed else self.at()

    @property
    def operators(self) -> tuple[str, ...]:
        """What it computes, as reports name operators."""
        added = () if self.bias is None else ("add",)
        masked = () if self.mask == NO_MASK else ("where",)
        return ("matmul", "multiply", *added, *masked, "softmax", "matmul")

    @property
    def multiplications(self) -> int:
        """Products of numbers, were no score left out."""
        scores = self.batch * self.heads * self.queries * self.keys
        return scores * (self.depth + self.value_depth)

    @property
    def elements(self) -> int:
        """What must be read and written, the bias left out."""
        rows = self.batch * self.heads * self.queries
        columns = self.batch * self.key_heads * self.keys
        return (rows + columns) * (self.depth + self.value_depth)

    @property
    def bytes(self) -> int:
        """What must be read and written, the bias once for all that it is the same for."""
        if self.bias is None:
            return BYTES * self.elements
        extents = self.batch, self.heads, self.queries, self.keys
        strides = self.bias.batch, self.bias.head, self.bias.query, self.bias.key
        pairs = zip(extents, strides, strict=True)
        return BYTES * (self.elements + prod(extent for extent, stride in pairs if stride))

    @property
    def tensors(self) -> int:
        """How many tensors the call takes, the result left out."""
        return 3 + (self.bias is not None)

    def encoded(self) -> tuple[Any, ...]:
        """The numbers of the call; an OfCounts as its terms."""
        (bits,) = struct.unpack("<i", struct.pack("<f", self.scale))
        extents = self.batch, self.heads, self.key_heads, self.queries, self.keys
        places = (self.query, self.key, self.value, self.output)
        sizes = (
            *extents,
            self.depth,
            self.value_depth,
            *(number for place in places for number in vars(place).values()),
            *(() if self.bias is None else vars(self.bias).values()),
        )
        written = (each.terms if isinstance(each, OfCounts) else each for each in sizes)
        return (_MASKS.index(self.mask), bits, *written)


def decoded(numbers: Sequence[Any]) -> Attention:
    """The attention of a call, or of what `encoded` was written to."""
    mask, bits, *rest = map(_read, numbers)
    (scale,) = struct.unpack("<f", struct.pack("<i", bits))
    extents, rest = rest[:_EXTENTS], rest[_EXTENTS:]
    query, key, value, output = (Place(*rest[4 * n : 4 * n + 4]) for n in range(_PLACES))
    bias = Bias(*rest[4 * _PLACES :]) if len(rest) > 4 * _PLACES else None
    batch, heads, key_heads, queries, keys, depth, value_depth = extents
    return Attention(
        _MASKS[mask], scale, batch, heads, key_heads, queries, keys, depth, value_depth,
        query, key, value, output, bias,
    )  # fmt: skip


def size_at(size: Size, keys: Size, batch: Size) -> Size:
    """A size for so many keys and entries, if it follows from these."""
    return size.at(keys, batch) if isinstance(size, OfCounts) else size


def expected(size: Size) -> int:
    """A size as it is planned with."""
    return int(size_at(size, EXPECTED_KEYS, EXPECTED_BATCH))


def _read(number: Any) -> Size:
    if isinstance(number, list | tuple):
        return OfCounts(tuple(map(tuple, number)))  # type: ignore[arg-type]
    return int(number)
