"""PrimFuncs that a block calls, each read once for all of its calls.

In: a function of a module. Out: a Callee, which gives the stages of a call over other buffers. Must
not know which values these stand for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from tvm_stitch.graph.front.symbols import match_shape
from tvm_stitch.stages.linear import numbers
from tvm_stitch.stages.memoized import cached_property
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    as_int64,
    buffer_shape,
    constant,
    dtype_of,
    is_buffer,
    substitute,
)
from tvm_stitch.stages.visit import mapped

ANY_NUMBER = 0.75  # counts nothing, and is known to every dtype
# An extent as a function declares it: its dtype, and its value if that is a number.
Declared = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, eq=False)
class Callee:
    """See the module's docstring."""

    name: str
    function: Any

    @cached_property
    def hash(self) -> int:
        """Equal for functions that have the same kernels: those that differ in numbers at most."""
        return int(tvm_ffi.structural_hash(mapped(self.function, (tirx.FloatImm, _any_number))))

    @cached_property
    def stages(self) -> tuple[Stage, ...] | Refused:
        """What it computes, over its own parameters."""
        if not isinstance(self.function, tirx.PrimFunc):
            return Refused("it calls a Relax function")
        return read_stages(self.function)

    @cached_property
    def buffers(self) -> tuple[Var, ...]:
        """Its parameters that are tensors."""
        return tuple(param for param in self.function.params[:] if is_buffer(param))

    @cached_property
    def scalars(self) -> tuple[Var, ...]:
        """Its other parameters."""
        return tuple(param for param in self.function.params[:] if not is_buffer(param))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """Those of its tensors; None: with symbols."""
        return tuple(numbers(buffer_shape(buffer)) for buffer in self.buffers)

    @cached_property
    def declared(self) -> tuple[Declared | Refused, ...]:
        """How it declares each of its tensors."""
        return tuple(map(_declared, self.buffers))

    @cached_property
    def is_static(self) -> bool:
        """Whether its calls differ in buffers alone."""
        return not self.scalars and None not in self.shapes

    @cached_property
    def _pattern(self) -> Pattern:
        assert not isinstance(self.stages, Refused)
        return classify(self.stages)

    def pattern(self, stages: tuple[Stage, ...]) -> Pattern:
        """That of the stages of a call."""
        return self._pattern if self.is_static else classify(stages)

    def called_with(
        self, given: Sequence[Var], shapes: Sequence[Any], symbols: Sequence[Expr]
    ) -> tuple[Stage, ...] | Refused:
        """The stages of a call that is given buffers, of these shapes, and symbols."""
        assert not isinstance(self.stages, Refused)
        mapping: dict[Var, Expr] = dict(zip(self.buffers, given, strict=True))
        are_copies = self.is_static and tuple(shapes) == self.shapes
        if not are_copies:
            for param, buffer in zip(self.buffers, given, strict=True):
                match_shape(buffer_shape(param), buffer_shape(buffer), mapping)
            mapping.update(zip(self.scalars, symbols, strict=False))
        for stage in self.stages:
            if stage.output not in mapping:
                mapping[stage.output] = _fresh(stage.output, mapping)
        if are_copies:
            return tuple(stage.copied(mapping) for stage in self.stages)
        stages = tuple(stage.rebound(mapping) for stage in self.stages)
        if any(0 in map(constant, (*s.extents, *s.reduced_extents)) for s in stages):
            return Refused("it is called for tensors without elements")
        return stages


def _any_number(number: tirx.FloatImm) -> tirx.FloatImm:
    """The same for all numbers by which no kernel is chosen.

    Those that count are kept, and their inverses: a mean is known by the number that it divides by.
    """
    value = abs(number.value)
    if value in (0, math.inf) or math.isnan(value) or _counts(value) or _counts(1 / value):
        return number
    return tirx.FloatImm(number.ty.dtype, ANY_NUMBER)


def _counts(value: float) -> bool:
    """Whether it is a whole number, as far as float32 tells."""
    return abs(value - round(value)) <= 1e-6 * value


def operator_name(function: str) -> str:
    """The operator's name, from the name that LegalizeOps gave its function."""
    return re.sub(r"\d+$", "", function) or function


def _declared(param: Var) -> Declared | Refused:
    shape = buffer_shape(param)
    if any(constant(extent) is None and dtype_of(extent) != "int64" for extent in shape):
        return Refused(f"its TIR has a symbolic extent of {param.name} that is no int64")
    return tuple((dtype_of(extent), constant(extent)) for extent in shape)


def _fresh(buffer: Var, mapping: Mapping[Var, Expr]) -> Var:
    """A node's own copy of an intermediate buffer: functions may be called more than once."""
    shape = tuple(as_int64(substitute(extent, mapping)) for extent in buffer_shape(buffer))
    return tirx.decl_buffer(shape, buffer.ty.dtype, buffer.name, layout=None)
