"""Weights that are computed on their way to tensor cores: int8 or int4 with scales, as models keep
them for little memory.

In: the stages of a function; a TensorProduct whose right factor comes from element-wise stages
before it. Out: those stages apart from the others; which neighbours of which tensors a lane loads,
and each of its weights by what it has loaded. Must not know threads.

In memory such weights would be written and read at 16 bits each. Every block has all rows, so that
each weight is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN
from tvm_stitch.kernel.analysis.contiguity import bound_to, is_aligned
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, TensorProduct
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.guards import is_branch
from tvm_stitch.stages.indices import simplified_load, unraveled
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    as_int64,
    buffer_size,
    constant,
    dtype_of,
    element_bytes,
    find_reads,
    handle,
    place_of,
    replaced,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer, is_multiple
from tvm_stitch.stages.visit import mapped

# Which weights of its product a lane has: so many neighbouring columns, of eight of the depth.
COLUMNS = tirx.Var("columns", "int64")
DEPTHS = tirx.Var("depths", "int64")
MOST_LOADED = 4 * ACCESS_BYTES  # bytes of a tensor that a lane loads for its weights at once

Stages = tuple[Stage, ...]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Elements of a tensor from a place on, by COLUMNS, DEPTHS and ENTRY: whole vectors."""

    buffer: Var
    first: Expr
    count: int


@dataclass(frozen=True, eq=False)
class LaneWeights:
    """What a lane loads, and its weights: eight of the depth for each column, one after the other.

    at: for each load in the weights' values, by its key, which of `loads` has it, and where.
    """

    loads: tuple[Neighbours, ...]
    values: tuple[Expr, ...]
    at: dict[int, tuple[int, int]]


def stages_before(stages: Stages, outputs: Sequence[Var]) -> Stages:
    """The stages, in order, that nothing but factors of products is computed of."""
    kinds = [stage.is_reduction for stage in stages]
    if True not in kinds[kinds.index(False) if False in kinds else len(kinds) :]:
        return ()  # as of a product and what follows, which are most
    readers: dict[Var, list[Stage]] = {}
    for stage in stages:
        for buffer in dict.fromkeys(read.buffer for read in stage.reads):
            readers.setdefault(buffer, []).append(stage)
    found: set[Var] = set()
    for stage in reversed(stages):
        own = readers.get(stage.output, [])
        needed = own and all(each.is_reduction or each.output in found for each in own)
        if needed and not stage.is_reduction and stage.output not in outputs:
            found.add(stage.output)
    return tuple(stage for stage in stages if stage.output in found)


def with_stages_before(product: TensorProduct, before: Stages) -> TensorProduct | Refused:
    """A product, and those beside it, with the stages of which their right factors are computed."""
    of = {stage.output: stage for stage in before}
    if product.left.buffer in of:
        return Refused("the rows of a product are computed on the way")
    if product.ragged is not None and product.right.buffer in of:
        return Refused("weights of groups are computed on the way")

    def own(right: Var) -> Stages:
        pending, found = [right], set[Var]()
        while pending:
            buffer = pending.pop()
            if buffer in of and buffer not in found:
                found.add(buffer)
                pending += [read.buffer for read in of[buffer].reads]
        return tuple(each for each in before if each.output in found)

    beside = tuple(replace(each, before=own(each.right.buffer)) for each in product.beside)
    return replace(product, before=own(product.right.buffer), beside=beside)


def lane_weights(product: TensorProduct, columns: int) -> LaneWeights | Refused:
    """The weights of a lane that has so many columns, of a right factor that is computed."""
    key = lane_weights, product.right, product.before, columns
    return remembered(product.stage, key, lambda: _Finder(product, columns).found())


class _Finder:
    def __init__(self, product: TensorProduct, columns: int) -> None:
        self.product, self.columns = product, columns
        self.stage_of = {stage.output: stage for stage in product.before}
        self._known = dict[Hashable, Expr]()
        _, wide, depth, entries = product.sizes_at(NOMINAL)
        self.analyzer: Analyzer = bound_to(
            {COLUMNS: wide // columns, DEPTHS: depth // WIDEST, ENTRY: entries}
        )

    def found(self) -> LaneWeights | Refused:
        values = list[Expr]()
        for depth in range(WIDEST):
            for column in range(self.columns):
                there = {COLUMN: COLUMNS * self.columns + column, DEPTH: DEPTHS * WIDEST + depth}
                place = self.analyzer.simplify(substitute(self.product.right.at, there))
                values.append(self._value(self.product.right.buffer, place))
        reads = [read for value in values for read in find_reads(value)]
        kept = {read.key: tirx.const(0, dtype_of(read.load)) for read in reads}
        if any(_is_by_place(replaced(value, kept)) for value in values):
            return Refused("a weight that depends on where it is")
        if any(read.guarded or read.nested for read in reads):
            return Refused("a weight that is computed of one tensor or another")
        return self._in_vectors(values, [read.load for read in reads])

    def _value(self, buffer: Var, place: Expr) -> Expr:
        """An element of what is computed, by what is in memory."""
        key = buffer, tvm_ffi.StructuralKey(place)
        if key not in self._known:  # neighbours have scales in common, and what these come from
            self._known[key] = self._made(buffer, place)
        return self._known[key]

    def _made(self, buffer: Var, place: Expr) -> Expr:
        stage = self.stage_of[buffer]
        indices = map(self.analyzer.simplify, unraveled(place, stage.extents))
        value = mapped(
            substitute(stage.value, dict(zip(stage.axes, indices, strict=True))),
            (tvm.ir.TensorLoad, lambda load: simplified_load(load, self.analyzer)),
            (tirx.FloorDiv, self.analyzer.simplify),
            (tirx.FloorMod, self.analyzer.simplify),
            (tirx.Select, self._chosen),
            (tvm.ir.Call, lambda call: self._chosen(call) if is_branch(call) else call),
        )
        inner = {
            read.key: self._value(read.buffer, self.analyzer.simplify(read.place))
            for read in find_reads(value)
            if read.buffer in self.stage_of
        }
        return replaced(value, inner)

    def _chosen(self, branch: Expr) -> Expr:
        """The side of a branch that all such elements take, if it is known."""
        is_select = isinstance(branch, tirx.Select)
        condition, then, otherwise = (
            (branch.condition, branch.true_value, branch.false_value) if is_select else branch.args
        )
        known = constant(self.analyzer.simplify(condition))
        return branch if known is None else then if known else otherwise

    def _in_vectors(self, values: Sequence[Expr], loads: Sequence[Expr]) -> LaneWeights | Refused:
        """The loads by neighbours, as far as they are known to be some."""
        clusters = list[tuple[Var, Expr, dict[int, int]]]()  # distances from the first, by key
        for load in loads:
            place = self.analyzer.simplify(place_of(load))
            for buffer, first, members in clusters:
                if buffer.same_as(load.source):
                    distance = constant(self.analyzer.simplify(place - first))
                    if distance is not None and abs(distance) < WIDEST:
                        members[handle(load)] = distance
                        break
            else:
                clusters.append((load.source, place, {handle(load): 0}))
        found, at = list[Neighbours](), dict[int, tuple[int, int]]()
        for number, (buffer, first, members) in enumerate(clusters):
            least = min(members.values())
            count = 1 << (max(members.values()) - least).bit_length()
            start = self.analyzer.simplify(first + least)
            if why := self._why_no_vector(buffer, start, count):
                return Refused(why)
            found.append(Neighbours(buffer, start, count))
            at |= {key: (number, distance - least) for key, distance in members.items()}
        return LaneWeights(tuple(found), tuple(values), at)

    def _why_no_vector(self, buffer: Var, start: Expr, count: int) -> str | None:
        if count * element_bytes(buffer) > MOST_LOADED:
            return f"eight weights are made of {count} neighbours of {buffer.name}"
        is_whole = is_multiple(buffer_size(buffer), as_int64(count))
        if count > 1 and not (is_whole and is_aligned(start, count, self.analyzer)):
            return f"{buffer.name} is not read by vectors of {count}"
        return None


def _is_by_place(value: Expr) -> bool:
    """Whether its place is needed for more than to load."""
    found = tirx.analysis.undefined_vars(value)
    return any(var.same_as(own) for var in found for own in (COLUMNS, DEPTHS, ENTRY))


def float_pairs(values: Sequence[Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Neighbouring values in float32, of which halves are made again by one instruction."""
    wide = [_unrounded(value) for value in values]
    yield from zip(wide[::2], wide[1::2], strict=True)


def _unrounded(value: Expr) -> Expr:
    if isinstance(value, tirx.Cast) and dtype_of(value.value) == "float32":
        return value.value
    return value.astype("float32")
