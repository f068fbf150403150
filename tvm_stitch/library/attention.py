"""What attention that a library computes is asked for, as data and as numbers of the call.

In: extents, and where the heads lie in the tensors that are passed. Out: the arguments of the
packed function NAME, which `native/attention.cc` reads in the same order. Knows no Relax.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import prod

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


@dataclass(frozen=True)
class Place:
    """Where the heads of a tensor lie in memory, in elements: a head's rows are contiguous."""

    start: int
    batch: int
    head: int
    row: int


@dataclass(frozen=True)
class Bias:
    """Where what is added to the scores lies; 0 along what it is the same for."""

    start: int
    batch: int
    head: int
    query: int
    key: int


@dataclass(frozen=True)
class Attention:
    """softmax(scale * query . keys + bias) . values, the scores in float32.

    Several heads of queries may share one of keys and values: `heads` is a multiple of `key_heads`.
    """

    mask: str
    scale: float
    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int
    query: Place
    key: Place
    value: Place
    output: Place
    bias: Bias | None = None

    def __str__(self) -> str:
        shared = "" if self.heads == self.key_heads else f" by {self.key_heads}"
        parts = (
            f"{self.batch} x {self.heads}{shared} heads of {self.depth}",
            f"{self.queries} queries, {self.keys} keys",
            "" if self.bias is None else "bias",
            "" if self.mask == NO_MASK else "causal",
        )
        return ", ".join(filter(None, parts))

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

    def encoded(self) -> tuple[int, ...]:
        """The numbers of the call."""
        (bits,) = struct.unpack("<i", struct.pack("<f", self.scale))
        extents = self.batch, self.heads, self.key_heads, self.queries, self.keys
        places = (self.query, self.key, self.value, self.output)
        return (
            _MASKS.index(self.mask),
            bits,
            *extents,
            self.depth,
            self.value_depth,
            *(number for place in places for number in astuple(place)),
            *(() if self.bias is None else astuple(self.bias)),
        )


def decoded(numbers: Sequence[int]) -> Attention:
    """The attention of a call."""
    mask, bits, *rest = map(int, numbers)
    (scale,) = struct.unpack("<f", struct.pack("<i", bits))
    extents, rest = rest[:_EXTENTS], rest[_EXTENTS:]
    query, key, value, output = (Place(*rest[4 * n : 4 * n + 4]) for n in range(_PLACES))
    bias = Bias(*rest[4 * _PLACES :]) if len(rest) > 4 * _PLACES else None
    batch, heads, key_heads, queries, keys, depth, value_depth = extents
    return Attention(
        _MASKS[mask], scale, batch, heads, key_heads, queries, keys, depth, value_depth,
        query, key, value, output, bias,
    )  # fmt: skip
