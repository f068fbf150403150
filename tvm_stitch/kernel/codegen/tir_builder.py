"""A small builder for TIR statements: nested scopes as Python's with-blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    buffer_size,
    constant,
    dtype_of,
    item_bytes,
    place_of,
    replaced,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64
from tvm_stitch.stages.visit import mapped

BYTE = "int8"
ACCESS_BYTES = 16  # the widest access of a thread
# TVM shrinks a buffer to the elements that are used, and then finds no place for dynamic shared
# memory of up to 32 bits. Of buffers that could become so small the last element counts as used.
_SHRINKING_BYTES = 64


@dataclass(frozen=True, eq=False)
class Place:
    """Where a part of a kernel is written, and what its kernel has for it."""

    views: Mapping[Var, Var]  # the parameters as flat buffers
    block: Expr  # among those of the part
    thread: Expr  # of the block
    writer: Writer
    workspace: Var | None = None  # a flat view of what its blocks share


class Writer:
    """Collects statements; `with writer.when(...)` and the loops open a nested scope."""

    def __init__(self) -> None:
        self._scopes: list[list[tirx.Stmt]] = [[]]

    def add(self, stmt: tirx.Stmt) -> None:
        """Append a statement to the innermost scope."""
        self._scopes[-1].append(stmt)

    def store(self, buffer: Var, index: Expr, value: Expr) -> None:
        """buffer[index] = value."""
        self.add(tirx.BufferStore(buffer, value, [index]))

    def call(self, expr: Expr) -> None:
        """A call for what it does."""
        self.add(tirx.Evaluate(expr))

    def cp_async(self, to: Expr, source: Expr, size: int, *valid: Expr) -> None:
        """An asynchronous copy (cp.async) of bytes of which so many are there."""
        way = T.ptx.cp.async_.cg if size == ACCESS_BYTES else T.ptx.cp.async_.ca
        self.call(way.shared.global_(to, source, size, *valid))

    def value(self, name: str, value: Expr) -> Expr:
        """Compute a value once, in the innermost scope.

        It goes into a buffer of one element: TVM's simplifier would write a bound variable's value
        out at every use, which grows exponentially along a chain of values that are used twice.
        """
        buffer = self.allocate(name, 1, dtype_of(value))
        self.store(buffer, int64(0), value)
        return buffer[int64(0)]

    def allocate(self, name: str, size: int, dtype: str, scope: str = "local") -> Var:
        """A buffer of one dimension that lives in the innermost scope."""
        few = scope == "shared.dyn" and size * item_bytes(dtype) <= _SHRINKING_BYTES
        size = max(size, ACCESS_BYTES // item_bytes(dtype)) if few else size
        buffer = tirx.decl_buffer((int64(size),), dtype, name, scope=scope, layout=None)
        self.add(tirx.AllocBuffer(buffer))
        if few:
            self.add(tirx.Evaluate(buffer.ptr_to([size - 1])))
        return buffer

    def view(self, buffer: Var, size: Expr, start: int | Expr = 0, dtype: str = "") -> Var:
        """The same memory, from an element on, as a buffer of one dimension, perhaps of a dtype."""
        offset = {} if constant(as_int64(start)) == 0 else {"elem_offset": as_int64(start)}
        of, scope = dtype or dtype_of(buffer), buffer.ty.storage_scope
        flat = tirx.decl_buffer((size,), of, buffer.name, scope=scope, layout=None, **offset)
        self.add(tirx.DeclBuffer(flat, data=tirx.buffer.buffer_data(buffer)))
        return flat

    @contextmanager
    def when(self, condition: Expr | None) -> Iterator[None]:
        """A branch; no condition, no branch."""
        with self._nested() as body:
            yield
        if condition is None:
            for stmt in body:
                self.add(stmt)
        else:
            self.add(tirx.IfThenElse(condition, sequence(body), None))

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[tuple[Writer, Writer]]:
        """Both sides of a branch, each with its own writer."""
        then, otherwise = Writer(), Writer()
        yield then, otherwise
        self.add(tirx.IfThenElse(condition, then.done(), otherwise.done()))

    @contextmanager
    def unrolled(self, extent: int, name: str, start: int = 0) -> Iterator[Expr]:
        """A loop that the CUDA compiler unrolls."""
        with self._loop(extent, name, ForKind.UNROLLED, start) as index:
            yield index

    @contextmanager
    def serial(self, extent: int | Expr, name: str, start: int = 0) -> Iterator[Expr]:
        """A plain loop."""
        with self._loop(extent, name, ForKind.SERIAL, start) as index:
            yield index

    @contextmanager
    def rolled(self, extent: int | Expr, name: str) -> Iterator[Expr]:
        """A loop that the CUDA compiler must not unroll."""
        with self._loop(extent, name, ForKind.SERIAL, 0, {"disable_unroll": True}) as index:
            yield index

    @contextmanager
    def vectorized(self, extent: int, name: str) -> Iterator[Expr]:
        """A loop that becomes vector accesses."""
        with self._loop(extent, name, ForKind.VECTORIZED, 0) as index:
            yield index

    @contextmanager
    def _loop(
        self,
        extent: int | Expr,
        name: str,
        kind: ForKind,
        start: int,
        annotations: dict[str, bool] | None = None,
    ) -> Iterator[Expr]:
        if isinstance(extent, int) and extent == 1:
            yield int64(start)
            return
        index = tirx.Var(name, "int64")
        with self._nested() as body:
            yield index + start if start else index
        loop = tirx.For(
            index, int64(0), as_int64(extent), kind, sequence(body), annotations=annotations
        )
        self.add(_copied_by_bytes(loop, self._bytes_of) if kind == ForKind.VECTORIZED else loop)

    def _bytes_of(self, buffer: Var) -> Var:
        return self.view(buffer, buffer_size(buffer), buffer.ty.elem_offset, BYTE)

    @contextmanager
    def _nested(self) -> Iterator[list[tirx.Stmt]]:
        self._scopes.append([])
        yield self._scopes[-1]
        self._scopes.pop()

    def done(self) -> tirx.Stmt:
        """All statements of the outermost scope."""
        return sequence(self._scopes[0])


def _copied_by_bytes(loop: tirx.For, view: Callable[[Var], Var]) -> tirx.For:
    """A loop of vector accesses with bools copied by their bytes: TVM has no vectors of bool.

    `view` declares a tensor of bool as one of bytes.
    """
    views: dict[Var, Var] = {}

    def by_bytes(buffer: Var) -> Var:
        if buffer not in views:
            views[buffer] = view(buffer)
        return views[buffer]

    def copied(store: tirx.BufferStore) -> tirx.BufferStore:
        load = store.value
        if dtype_of(store.buffer) != "bool":
            return store
        if not isinstance(load, ir.TensorLoad):
            raise TypeError(f"a vector of bool is computed, not copied: {load}")
        value = by_bytes(load.source)[tuple(load.indices)]
        return tirx.BufferStore(by_bytes(store.buffer), value, store.indices)

    return tvm_ffi.structural_map(loop, (tirx.BufferStore, copied))


def vector_copy(
    writer: Writer, dtype: str, vector: int, move: Callable[[Writer, Expr], None]
) -> None:
    """Copies of at most 16 bytes each."""
    width = min(vector, ACCESS_BYTES // item_bytes(dtype))
    with writer.unrolled(vector // width, "part") as part, writer.vectorized(width, "lane") as lane:
        move(writer, part * width + lane)


def sequence(stmts: list[tirx.Stmt]) -> tirx.Stmt:
    """One statement out of many."""
    if not stmts:
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return stmts[0] if len(stmts) == 1 else tirx.SeqStmt(stmts)


def all_of(*conditions: Expr | None) -> Expr | None:
    """What holds if all conditions do; None: there are none, it always holds."""
    known = [condition for condition in conditions if condition is not None]
    return tirx.all(*known) if known else None


def block_uniform(condition: Expr) -> Expr:
    """A condition that all threads of a block agree on: barriers may be behind it."""
    return T.tvm_thread_invariant(condition)


def divided(number: Expr, count: int | Expr) -> tuple[Expr, Expr]:
    """Quotient and rest, of numbers of blocks or less: symbols are divided by in 32 bits."""
    if isinstance(count, int) or constant(count) is not None:
        return tirx.floordiv(number, count), tirx.floormod(number, count)
    few, each = tirx.Cast("uint32", number), tirx.Cast("uint32", count)
    return as_int64(tirx.floordiv(few, each)), as_int64(tirx.floormod(few, each))


def evaluated(
    views: Mapping[Var, Var],
    value: Expr,
    known: Mapping[int, Expr],
    axes: Mapping[Var, Expr],
    here: Mapping[Var, Expr],
) -> Expr:
    """A stage's value at a place, by its axes there and what is known of its loads, by their keys.

    Other loads are from flat views.
    """
    own = {axis: substitute(expr, here) for axis, expr in axes.items()}
    return flat_loads(views, replaced(value, known, own))


def flat_loads(
    views: Mapping[Var, Var], expr: Expr, place: Callable[[Expr], Expr] = place_of
) -> Expr:
    """An expression with loads from parameters as loads from their flat views."""
    return mapped(expr, (ir.TensorLoad, partial(_flat_load, views, place)))


def _flat_load(views: Mapping[Var, Var], place: Callable[[Expr], Expr], load: Expr) -> Expr:
    """A load from a parameter as one from its flat view; any other load as it is."""
    view = views.get(load.source)
    return load if view is None else view[place(load)]
