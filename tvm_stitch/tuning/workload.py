"""What is tuned: the Programs of one kernel, named so that a record finds them again.

In: a fused PrimFunc. Out: a Workload with two names: `key`, equal for equal Programs with equal
shapes and dtypes, and `family`, equal for Programs that differ in sizes only. Neither depends on
the names in the model, on the process or on the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    buffer_shape,
    constant,
    dtype_of,
    is_buffer,
    shown,
)

KEY_LENGTH = 32  # hexadecimal digits
LONGEST_TITLE = 80


@dataclass(frozen=True, eq=False)
class Workload:
    """One kernel to be tuned, on one device."""

    function: tirx.PrimFunc
    programs: tuple[Program, ...]
    device: Device
    bounds: Bounds
    key: str
    family: str
    sizes: tuple[int, ...]  # rows and columns of every part; 0 where symbolic
    title: str

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The parts that compute the same, sizes aside."""
        found: dict[str, list[int]] = {}
        for number, program in enumerate(self.programs):
            found.setdefault(_digest((program,), sized=False), []).append(number)
        return tuple(map(tuple, found.values()))

    @property
    def is_symbolic(self) -> bool:
        """Whether a size is not known before the kernel runs."""
        shapes = (buffer_shape(b) for p in self.programs for b in (*p.inputs, *p.outputs))
        return any(constant(extent) is None for shape in shapes for extent in shape)


def workload_of(
    function: tirx.PrimFunc, device: Device, bounds: Bounds = NO_BOUNDS
) -> Workload | Refused:
    """The workload of a fused PrimFunc."""
    programs = read_programs(function)
    if isinstance(programs, Refused):
        return programs
    sizes = [e for program in programs for e in (program.space.rows, program.space.columns)]
    return Workload(
        function,
        programs,
        device,
        bounds,
        key=_digest(programs, sized=True),
        family=_digest(programs, sized=False),
        sizes=tuple(constant(extent) or 0 for extent in sizes),
        title=_title(programs),
    )


def _title(programs: tuple[Program, ...]) -> str:
    """Its first part and how many there are, for people."""
    program = programs[0]
    space = program.space
    size = shown(space.columns) if not program.reduces else f"{shown(space.rows)} x "
    size += shown(space.columns) if program.reduces else " elements"
    dtypes = dict.fromkeys(dtype_of(b) for b in (*program.inputs, *program.outputs))
    names = dict.fromkeys(stage.name.removeprefix("T_") for stage in program.stages)
    more = f" and {len(programs) - 1} more parts" if len(programs) > 1 else ""
    text = f"{size} {', '.join(dtypes)}: {', '.join(names)}"
    return (text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 3] + "...") + more


def _digest(programs: tuple[Program, ...], sized: bool) -> str:
    text = "\n".join(_Description(sized).lines(programs))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


class _Description:
    """Programs as text: variables by number, in the order in which they are met."""

    def __init__(self, sized: bool) -> None:
        self.sized = sized
        self.numbers: dict[Any, int] = {}

    def lines(self, programs: tuple[Program, ...]) -> Iterator[str]:
        for program in programs:
            space = program.space
            yield f"part {program.reduces} {space.whole}" + program.round * " after a barrier"
            if self.sized:
                yield self._words((space.rows, space.columns, space.run))
            for stage in program.stages:
                yield from self._stage(program, stage)
            yield f"out {[self._number(buffer) for buffer in program.outputs]}"

    def _stage(self, program: Program, stage: Stage) -> Iterator[str]:
        place = "reduction" if stage.is_reduction else "row"
        if not stage.is_reduction and program.is_full(stage.output):
            place = "full"
        yield f"stage {place} {stage.combiner} {self._words(stage.value, stage)}"
        for read in stage.reads:
            where = program.place(stage, read).name
            yield f"read {self._buffer(read.buffer)} {where} {read.guarded} {read.nested}"
        if self.sized:
            yield f"axes {self._words((*stage.axes, *stage.reduced))}"
            yield f"extents {self._words((*stage.extents, *stage.reduced_extents))}"
        yield f"to {self._buffer(stage.output)}"

    def _buffer(self, buffer: Var) -> str:
        text = f"b{self._number(buffer)}:{dtype_of(buffer)}"
        return text + self._words(buffer_shape(buffer)) if self.sized else text

    def _number(self, var: Any) -> int:
        return self.numbers.setdefault(var, len(self.numbers))

    def _words(self, expressions: Expr | tuple[Expr, ...], stage: Stage | None = None) -> str:
        """The nodes of expressions, from the outside in."""
        words: list[str] = []
        axes = frozenset((*stage.axes, *stage.reduced) if stage is not None else ())

        def visit(node: Expr) -> Any:
            if not self.sized:
                if isinstance(node, tvm.ir.TensorLoad):
                    # An index is made of sizes; where it goes is said with the read.
                    words.append(f"load b{self._number(node.source)}")
                    return tvm_ffi.WalkResult.SKIP
                if _is_number(node, axes):
                    words.append(f"number:{dtype_of(node)}")
                    return tvm_ffi.WalkResult.SKIP
            words.append(self._word(node))
            return None

        given = expressions if isinstance(expressions, tuple) else (expressions,)
        for expression in given:
            words.append("|")
            tvm_ffi.structural_walk(expression, (tvm.ir.Expr, visit), order="pre")
        return " ".join(words)

    def _word(self, node: Expr) -> str:
        kind = type(node).__name__
        if isinstance(node, tirx.Var):
            return f"v{self._number(node)}"
        if isinstance(node, (tirx.IntImm, tirx.FloatImm)):
            return f"{kind}:{node.value!r}:{dtype_of(node)}"
        if isinstance(node, tvm.ir.Call):
            return f"Call:{getattr(node.op, 'name', '')}:{len(node.args)}"
        if isinstance(node, tvm.ir.Op):
            return "Op"
        dtype = str(getattr(node.ty, "dtype", ""))
        return f"{kind}:{dtype}"


def _is_number(node: Expr, axes: frozenset[Any]) -> bool:
    """Whether an expression is the same everywhere: a constant, or a formula of sizes."""
    if isinstance(node, tvm.ir.Op):
        return False
    return not any(var in axes or is_buffer(var) for var in tirx.analysis.undefined_vars(node))
