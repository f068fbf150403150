"""Pairs of halves in registers, as tensor cores take them, loaded from memory without a detour.

In: flat views of tensors and places in them. Writes TIR into a Writer. Must not know what the pairs
are of.
"""

from __future__ import annotations

from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.tensor_core.program import WIDEST
from tvm_stitch.stages.stage import Expr, Var, buffer_size

PAIR = "uint32"
PAIRS = WIDEST // 2  # of a load
LOW, HALF_BITS = 0xFFFF, 16


def load_pairs(
    writer: Writer,
    view: Var,
    place: Expr,
    to: Var,
    at: Expr,
    pairs: int,
    exists: Expr | None = None,
) -> None:
    """Neighbours of a tensor as pairs, from a register on; zeros where they do not exist."""
    source = writer.view(view, tirx.floordiv(buffer_size(view), 2), dtype=PAIR)
    first = tirx.floordiv(place, 2)
    if exists is not None:
        with writer.unrolled(pairs, "pair") as pair:
            writer.store(to, at + pair, tirx.const(0, PAIR))
    with writer.when(exists), writer.vectorized(pairs, "pair") as pair:
        writer.store(to, at + pair, source[first + pair])


def pair_of(low: Expr, high: Expr, upper: int) -> Expr:
    """The lower, or upper, halves of two pairs as a pair."""
    bits = tirx.const(HALF_BITS, PAIR)
    if upper:
        return (low >> bits) | (high & tirx.const(LOW << HALF_BITS, PAIR))
    return (low & tirx.const(LOW, PAIR)) | (high << bits)
