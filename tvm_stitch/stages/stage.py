"""What a PrimFunc computes, one Stage for every block.

Expressions, too, in which all that compute with stages count. Must not know how a stage will be
mapped to threads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.guards import Guard, is_branch
from tvm_stitch.stages.memoized import cached_property, memoized_for_copies, memoized_of_buffer
from tvm_stitch.stages.symbolic_analyzer import Analyzer, SymbolicAnalyzer, analyzer_of, int64
from tvm_stitch.stages.visit import mapped, walked

Expr = Any  # TVM's expression classes carry no types that mypy could follow
Var = Any


@dataclass(frozen=True)
class Refused:
    """A normal answer: this cannot be done, and why."""

    reason: str


@dataclass(frozen=True, eq=False)
class Read:
    """One load in a stage's value."""

    load: Expr
    guard: Expr | None  # it stands in branches that are taken where this holds; None: in none
    nested: bool  # it stands in the index of another load

    @property
    def guarded(self) -> bool:
        """Whether it stands in a branch that may not be taken."""
        return self.guard is not None

    @cached_property
    def is_plain(self) -> bool:
        """Whether neither its index nor its guard is read from memory."""
        parts = (*self.load.indices[:], *([self.guard] if self.guarded else ()))
        return not self.nested and not any(map(loads_in, parts))

    @cached_property
    def buffer(self) -> Var:
        """The buffer that is read."""
        return interned(self.load.source)

    @cached_property
    def place(self) -> Expr:
        """Where it is in its buffer, elements counted row by row."""
        return place_of(self.load)

    @cached_property
    def key(self) -> int:
        """Names the load within its stage's value."""
        return handle(self.load)


@dataclass(frozen=True, eq=False)
class Stage:
    """`output[axes] = value`, or `output[axes] = combine over reduced of value`."""

    name: str
    output: Var
    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    value: Expr
    reduced: tuple[Var, ...] = ()
    reduced_extents: tuple[Expr, ...] = ()
    combiner: str = ""  # one of COMBINERS' values or EXTREMES for a reduction, else empty
    identity: Expr = None
    # Of a reduction over segments of the rows: how many axes number the segments. None: of others.
    row_segments: int | None = None
    scan: str = ""  # of an element-wise one: combines an element with all before it in its row
    from_end: bool = False  # of a scan: with all behind it instead
    # Its segments share as many rows as run time says: the last may have fewer than others or none.
    uneven: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", interned(self.output))

    @property
    def is_reduction(self) -> bool:
        """Whether several elements of the value make one of the output."""
        return bool(self.combiner)

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """Every load of the value, each object once."""
        return find_reads(self.value)

    @cached_property
    def size(self) -> Expr:
        """Elements of the output."""
        return product(self.extents)

    @cached_property
    def reduced_size(self) -> Expr:
        """Elements that are combined into one of the output; 1 where nothing is."""
        return product(self.reduced_extents)

    @cached_property
    def total_size(self) -> Expr:
        """Elements that it walks through: uneven segments share all rows."""
        own = self.extents
        if self.uneven and self.row_segments:
            own = (*own[: self.row_segments - 1], *own[self.row_segments :])
        return product((*own, *self.reduced_extents))

    @cached_property
    def buffers(self) -> dict[Var, bool]:
        """What it reads, and whether it walks through as many elements as that has."""
        return {
            buffer: same_size(buffer_size(buffer), self.total_size)
            for buffer in dict.fromkeys(read.buffer for read in self.reads)
        }

    @cached_property
    def memo(self) -> dict[Hashable, Any]:
        """Answers about it: see memoized."""
        return {}

    @cached_property
    def copies_memo(self) -> dict[Hashable, Any]:
        """Answers that hold of its copies as well: see memoized."""
        return {}

    def rebound(self, mapping: Mapping[Var, Expr]) -> Stage:
        """The same stage over other buffers and shape variables."""
        return replace(
            self,
            output=mapping.get(self.output, self.output),
            extents=tuple(substitute(extent, mapping) for extent in self.extents),
            reduced_extents=tuple(substitute(extent, mapping) for extent in self.reduced_extents),
            value=substitute(self.value, mapping),
        )

    def copied(self, buffers: Mapping[Var, Var]) -> Stage:
        """The same stage over other buffers of the same shapes, which are numbers.

        A copy answers what names no buffer as this one does, and finds its loads on the way.
        """
        loads: list[Expr] = []
        renamed = (tirx.Var, lambda var: buffers.get(var, var))
        value = mapped(self.value, renamed, (tvm.ir.TensorLoad, _to(loads)))
        copy = replace(self, output=buffers.get(self.output, self.output), value=value)
        if len(loads) == len(self.reads) and all(read.is_plain for read in self.reads):
            copy.__dict__["reads"] = tuple(
                Read(load, read.guard, False) for load, read in zip(loads, self.reads, strict=True)
            )
            copy.__dict__["copies_memo"] = self.copies_memo
        return copy

    def __repr__(self) -> str:
        over = f" over {_shape(self.reduced_extents)}" if self.is_reduction else ""
        kind = f"running {self.scan}" if self.scan else self.combiner or "element"
        kind += " from the end" if self.from_end else ""
        return f"{self.name}{_shape(self.extents)} = {kind}{over}"


def shown(expr: Expr) -> str:
    """An extent for people, without TVM's dtypes."""
    if isinstance(expr, tirx.IntImm):
        return str(expr.value)
    return re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(expr))


def _shape(extents: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(shown, extents))}]"


# The class of the update's expression -> the combiner.
COMBINERS = {"Add": "sum", "Max": "max", "Min": "min", "Mul": "prod", "And": "all", "Or": "any"}


_interned: WeakValueDictionary[int, Var] = WeakValueDictionary()


def interned(var: Var) -> Var:
    """The same Python object for the same variable: TVM makes a new one at every access, and a
    dictionary would ask TVM whether they are equal."""
    return _interned.setdefault(handle(var), var)


def handle(node: Expr) -> int:
    """An integer that names a node while it lives: nodes themselves do not all compare as bool."""
    return node.__chandle__()


@memoized_of_buffer
def dtype_of(expr: Expr) -> str:
    """The dtype of a buffer's elements or of an expression, as a plain string."""
    return str(expr.ty.dtype)


@cache
def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    data_type = tvm.DataType(dtype)
    return (data_type.bits * data_type.lanes + 7) // 8


@memoized_of_buffer
def element_bytes(buffer: Var) -> int:
    """Bytes of an element of a buffer."""
    return item_bytes(dtype_of(buffer))


@memoized_of_buffer
def buffer_size(buffer: Var) -> Expr:
    """Elements of a buffer."""
    return product(buffer_shape(buffer))


@memoized_of_buffer
def elements_of(buffer: Var) -> int | None:
    """The same as a number; None where a dimension is symbolic."""
    return constant(buffer_size(buffer))


def tensor_bytes(buffer: Var) -> int | None:
    """Bytes of a buffer; None where a dimension is symbolic."""
    elements = elements_of(buffer)
    return None if elements is None else elements * element_bytes(buffer)


def product(extents: tuple[Expr, ...]) -> Expr:
    """The number of elements of a shape."""
    known = [constant(extent) for extent in extents]
    if None not in known:
        return int64(math.prod(known))  # type: ignore[arg-type]
    total: Expr = tirx.IntImm("int64", 1)
    for extent in extents:
        total = total * as_int64(extent)
    return tvm.sym.Analyzer().simplify(total)


def as_int64(expr: Expr) -> Expr:
    """The expression in int64, in which all indices are computed until TVM narrows them."""
    if isinstance(expr, int | tirx.IntImm):
        return int64(int(expr))
    return expr if dtype_of(expr) == "int64" else expr.astype("int64")


def flatten(indices: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Expr:
    """Row-major position of an element."""
    flat: Expr = tirx.IntImm("int64", 0)
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * as_int64(extent) + as_int64(index)
    return flat


def place_of(load: Expr) -> Expr:
    """Where a load is in its buffer, elements counted row by row."""
    return flatten(tuple(load.indices), buffer_shape(load.source))


def substitute(expr: Expr, mapping: Mapping[Var, Expr]) -> Expr:
    """Replace variables (buffers are variables too)."""
    if not mapping or isinstance(expr, tirx.IntImm):
        return expr
    # By handles: of two variables a dictionary would ask TVM whether they are equal.
    known = {handle(var): value for var, value in mapping.items()}
    return mapped(expr, (tirx.Var, lambda var: known.get(handle(var), var)))


def replaced(
    value: Expr, loads: Mapping[int, Expr], axes: Mapping[Var, Expr] | None = None
) -> Expr:
    """A value with loads and calls, by their keys, and axes as far as they are known.

    Works from the outside in, for a replaced load's indices are gone.
    """

    def known(node: Expr) -> Expr:
        return loads.get(handle(node), node)

    visitors: list[Any] = [(tvm.ir.TensorLoad, known), (tvm.ir.Call, known)]
    if axes:
        visitors.append((tirx.Var, lambda var: axes.get(var, var)))
    return mapped(value, *visitors, pre=True)


def constant(expr: Expr) -> int | None:
    """The value of a constant expression."""
    return expr.value if isinstance(expr, tirx.IntImm) else None


def find_reads(value: Expr) -> tuple[Read, ...]:
    """The loads of an expression, each object once."""
    if isinstance(value, (tirx.Var, tirx.IntImm)):
        return ()
    unique: dict[int, Expr] = {}
    guards: dict[int, list[Expr | None]] = {}  # of each place where a load stands
    # Branches may be nested as deeply as a graph has tensors: hence no recursion.
    pending: list[_Part] = [(value, None, False)]
    while pending:
        expr, guard, is_found = pending.pop()
        if is_found:
            unique[handle(expr)] = expr
            guards.setdefault(handle(expr), []).append(guard and guard.expr)
        else:
            pending += reversed(list(_loads_and_branches(expr, guard)))
    indices = [index for load in unique.values() for index in load.indices[:]]
    nested = {handle(load) for index in indices for load in loads_in(index)}
    return tuple(Read(load, _either(guards[key]), key in nested) for key, load in unique.items())


# An expression, where it is evaluated, and whether it is a load that has been found.
_Part = tuple[Expr, Guard | None, bool]


def _loads_and_branches(expr: Expr, guard: Guard | None) -> Iterator[_Part]:
    """The loads of an expression, and in their place the parts of branches that are yet to be
    looked through."""
    found: list[Expr] = []

    def branch(call: Expr) -> object:
        if not is_branch(call):
            return None
        found.append(call)
        return tvm_ffi.WalkResult.SKIP

    walked(expr, (tvm.ir.Call, branch), (tvm.ir.TensorLoad, found.append), pre=True)
    for each in found:
        if isinstance(each, tvm.ir.TensorLoad):
            yield each, guard, True
        else:
            condition, then, otherwise = each.args
            yield condition, guard, False
            yield then, Guard.of(condition, guard), False
            yield otherwise, Guard.of(condition, guard, negated=True), False


def _to(found: list[Expr]) -> Callable[[Expr], Expr]:
    """A visitor that changes nothing, and keeps what it sees."""

    def keep(expr: Expr) -> Expr:
        found.append(expr)
        return expr

    return keep


def _either(guards: list[Expr | None]) -> Expr | None:
    distinct: list[Expr] = []
    for guard in guards:
        if guard is None:
            return None
        if not any(tvm_ffi.structural_equal(guard, other) for other in distinct):
            distinct.append(guard)
    return tirx.any(*distinct)


def loads_in(expr: Expr) -> list[Expr]:
    """The loads of an expression, as often as they stand there."""
    found: list[Expr] = []
    if not isinstance(expr, (tirx.Var, tirx.IntImm)):
        walked(expr, (tvm.ir.TensorLoad, found.append))
    return found


@memoized_of_buffer
def buffer_shape(buffer: Var) -> tuple[Expr, ...]:
    """The shape a buffer was declared with."""
    return tuple(buffer.ty.shape[:])  # a slice comes out faster than one by one


def is_buffer(param: Var) -> bool:
    """Whether a PrimFunc's parameter is a buffer rather than a scalar."""
    return isinstance(param.ty, tirx.BufferType)


def same_size(left: Expr, right: Expr) -> bool:
    """Whether two sizes are provably equal."""
    left_value, right_value = constant(left), constant(right)
    if left_value is not None and right_value is not None:
        return left_value == right_value
    return SymbolicAnalyzer({}).can_prove_equal(left, right)


@memoized_for_copies
def bind_axes(stage: Stage) -> Analyzer:
    """An analyzer that knows the ranges of a stage's axes; all that ask share it."""
    axes = (*stage.axes, *stage.reduced)
    extents = (*stage.extents, *stage.reduced_extents)
    return analyzer_of(dict(zip(axes, extents, strict=True)))
