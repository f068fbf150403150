"""A PrimFunc becomes Stages, one for every block.

In: a PrimFunc as LegalizeOps or FuseTIR make them (one-level blocks over whole buffers).
Out: Stages in order, or the reason why the function is opaque.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx import IterVar

from tvm_stitch.stages import linear
from tvm_stitch.stages.extremes import EXTREMES, extreme_of
from tvm_stitch.stages.indices import counted_in_int64, divisions
from tvm_stitch.stages.stage import (
    COMBINERS,
    Expr,
    Refused,
    Stage,
    Var,
    as_int64,
    bind_axes,
    buffer_shape,
    constant,
    dtype_of,
    flatten,
    is_buffer,
    product,
)
from tvm_stitch.stages.symbolic_analyzer import analyzer_of
from tvm_stitch.stages.visit import mapped


def outputs_of(func: tirx.PrimFunc, stages: tuple[Stage, ...]) -> tuple[Var, ...]:
    """The parameters that a function's stages write."""
    written = {stage.output for stage in stages}
    return tuple(param for param in func.params if is_buffer(param) and param in written)


def read_stages(func: tirx.PrimFunc) -> tuple[Stage, ...] | Refused:
    """Read a PrimFunc's blocks in order; refuse what is not a plain nest over whole buffers."""
    if not isinstance(func.body, s_tir.SBlockRealize):
        return Refused("its TIR has no root block")
    stages: list[Stage] = []
    pending: list[tuple[Any, dict[Var, Expr]]] = [(func.body.block.body, {})]
    while pending:
        stmt, loops = pending.pop()
        if isinstance(stmt, tirx.SeqStmt):
            pending.extend((inner, loops) for inner in reversed(stmt.seq))
        elif isinstance(stmt, tirx.For):
            if stmt.kind != tirx.ForKind.SERIAL or constant(stmt.min) != 0:
                return Refused("a loop is bound, vectorised or does not start at 0")
            pending.append((stmt.body, {**loops, stmt.loop_var: stmt.extent}))
        elif isinstance(stmt, s_tir.SBlockRealize):
            stage = _read_block(stmt, loops)
            if isinstance(stage, Refused):
                return stage
            stages.append(stage)
        else:
            return Refused(f"its TIR holds a {type(stmt).__name__} outside of blocks")
    return tuple(stages) if stages else Refused("it computes nothing")


def _read_block(realize: s_tir.SBlockRealize, loops: Mapping[Var, Expr]) -> Stage | Refused:
    block = realize.block
    name, iters = block.name_hint, block.iter_vars[:]  # a slice comes out faster than one by one
    if constant(realize.predicate) != 1:
        return Refused(f"block {name} has a predicate")
    for axis, value in zip(iters, realize.iter_values[:], strict=True):
        same_loop = value in loops and tvm_ffi.structural_equal(loops[value], axis.dom.extent)
        if not (same_loop or constant(axis.dom.extent) == 1):
            return Refused(f"block {name} does not walk its domain plainly")
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return Refused(f"block {name} is not a single store")
    spatial = [axis for axis in iters if axis.iter_type == IterVar.DataPar]
    reduced = [axis for axis in iters if axis.iter_type == IterVar.CommReduce]
    if len(spatial) + len(reduced) != len(iters):
        return Refused(f"block {name} has an axis that is neither spatial nor reduced")
    axes = {axis.var: axis.var for axis in iters}
    narrow = {var: tirx.Var(var.name, "int64") for var in axes if dtype_of(var) != "int64"}
    if narrow:
        axes |= narrow
        store = counted_in_int64(store, narrow)
    stage = Stage(
        name=name,
        output=store.buffer,
        axes=tuple(axes[axis.var] for axis in spatial),
        extents=tuple(as_int64(axis.dom.extent) for axis in spatial),
        value=store.value,
        reduced=tuple(axes[axis.var] for axis in reduced),
        reduced_extents=tuple(as_int64(axis.dom.extent) for axis in reduced),
    )
    if 0 in map(constant, (*stage.extents, *stage.reduced_extents)):
        return Refused(f"block {name} has no elements")
    if not _stores_whole_output(stage, store):
        return Refused(f"block {name} does not write its whole output in order")
    return _as_reduction(stage, store, block.init) if reduced else _as_element(stage)


def _stores_whole_output(stage: Stage, store: tirx.BufferStore) -> bool:
    shape = buffer_shape(stage.output)
    declared, extents = linear.numbers(shape), linear.numbers(stage.extents)
    at, units = linear.place(stage, store), linear.axes(stage)
    if declared is not None and extents is not None and at is not None and units is not None:
        nothing = linear.Linear((0,) * len(units))
        own = linear.flattened(units[: len(extents)], extents, nothing)
        return math.prod(declared) == math.prod(extents) and at == own
    analyzer = analyzer_of(dict(zip(stage.axes, stage.extents, strict=True)))
    if not analyzer.can_prove_equal(product(shape), stage.size):
        return False
    written = flatten(tuple(store.indices), shape)
    return analyzer.can_prove_equal(written, flatten(stage.axes, stage.extents))


def _as_element(stage: Stage) -> Stage | Refused:
    if any(read.buffer == stage.output for read in stage.reads):
        return Refused(f"block {stage.name} updates its output in place")
    if any(constant(extent) == 1 for extent in stage.extents):
        return replace(stage, value=_without_unit_axes(stage))
    return stage


def _without_unit_axes(stage: Stage) -> Expr:
    """A stage's value whose places are as simple as they are where such axes are 0.

    TVM's reshapes divide by rows and columns what they would find undivided then.
    """
    analyzer = bind_axes(stage)

    def simple(load: Expr) -> Expr:
        if not any(map(divisions, load.indices)):
            return load
        return load.source[tuple(map(analyzer.simplify, load.indices))]

    return mapped(stage.value, (tvm.ir.TensorLoad, simple))


def _as_reduction(stage: Stage, store: tirx.BufferStore, init: Any) -> Stage | Refused:
    combine = store.value
    kind = COMBINERS.get(type(combine).__name__, "") or extreme_of(combine)
    if not kind or not isinstance(init, tirx.BufferStore):
        known = ", ".join(COMBINERS.values())
        return Refused(f"block {stage.name} reduces by something else than {known}")
    is_selected = kind in EXTREMES
    left = combine.true_value if is_selected else combine.a
    right = combine.false_value if is_selected else combine.b
    for accumulator, value in ((left, right), (right, left)):
        if isinstance(accumulator, tvm.ir.TensorLoad) and accumulator.source == stage.output:
            reduction = replace(stage, value=value, combiner=kind, identity=init.value)
            return _as_element(reduction)
    return Refused(f"block {stage.name} does not accumulate into its output")
