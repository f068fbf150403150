"""What is tuned: what one kernel computes, named so that a record finds it again.

In: a fused PrimFunc. Out: a Workload, of Programs or of a product on tensor cores, with two names:
`key`, equal for equal computations with equal shapes and dtypes, and `family`, equal for those that
differ in sizes only. Neither depends on the names in the model, on the process or on the machine.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.json_data import parsed
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose, context_of, problem_of
from tvm_stitch.kernel.cost_model import kernel_model
from tvm_stitch.kernel.emit import workspaces
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import StitchedKernel
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.stages.stage import (
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
from tvm_stitch.tuning.features import of_schedule
from tvm_stitch.tuning.spaces import rounds
from tvm_stitch.tuning.spaces.space import Space, fitted

KEY_LENGTH = 32  # hexadecimal digits
LONGEST_TITLE = 80


Layout: TypeAlias = Schedule | Tiles  # of a kernel on the GPU: what is searched


def layout_from(text: str) -> Layout:
    """Read what to_json wrote; InputError says what is wrong with anything else."""
    data = parsed(text, "a layout")
    of_product = isinstance(data, dict) and "warp_rows" in data
    return Tiles.from_json(text) if of_product else Schedule.from_json(text)


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload(ABC):
    """One kernel to be tuned, on one device."""

    function: tirx.PrimFunc
    device: Device
    key: str
    family: str
    sizes: tuple[int, ...]  # rows and columns of every part; 0 where symbolic
    title: str

    @property
    @abstractmethod
    def outputs(self) -> frozenset[Var]:
        """The parameters that it writes."""

    @property
    def is_symbolic(self) -> bool:
        """Whether a size is not known before the kernel runs."""
        return False

    @abstractmethod
    def choose(self, schemes: Sequence[str] = SCHEMES) -> Any:
        """Its analytic choice, or why there is none."""

    @abstractmethod
    def space(self, schemes: Sequence[str] = SCHEMES) -> Space:
        """Every legal layout that is worth a look."""

    @abstractmethod
    def refusal(self, layout: Any, schemes: Sequence[str] = SCHEMES) -> Refused | None:
        """Why it cannot have a layout that somebody else made, if so."""

    @abstractmethod
    def emit(self, layout: Any) -> tirx.PrimFunc | Refused:
        """The kernel by a legal layout."""

    @abstractmethod
    def refitted(self, layout: Any) -> Any:
        """The layout of another shape, fitted to this one; None where that cannot be."""

    @abstractmethod
    def predicted_us(self, layout: Any) -> float | None:
        """What the kernel should take."""

    @abstractmethod
    def features(self, layout: Any) -> dict[str, float]:
        """What the tuner's model knows of a layout: numbers by their names."""

    @property
    @abstractmethod
    def floor_us(self) -> float | None:
        """What moving its bytes takes at the bandwidth of a large copy."""

    def workspaces(self, _layout: Any) -> list[Var]:
        """Buffers that the kernel takes besides the function's."""
        return []


@dataclass(frozen=True, eq=False, kw_only=True)
class StitchedWorkload(Workload):
    """Programs in one kernel."""

    programs: tuple[Program, ...]
    bounds: Bounds

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

    @property
    def outputs(self) -> frozenset[Var]:
        """The parameters that it writes, and what crosses from round to round."""
        return frozenset(buffer for program in self.programs for buffer in program.outputs)

    def choose(self, schemes: Sequence[str] = SCHEMES) -> Schedule | Refused:
        """Its analytic choice, or why there is none."""
        return choose(self.programs, self.device, self.bounds, tuple(schemes))

    def space(self, schemes: Sequence[str] = SCHEMES) -> Space:
        """Every legal schedule that is worth a look."""
        return Space(self.programs, self.groups, self.device, self.bounds, tuple(schemes))

    def refusal(self, layout: Any, schemes: Sequence[str] = SCHEMES) -> Refused | None:
        """Why it cannot have a schedule that somebody else made, if so."""
        if not isinstance(layout, Schedule):
            return Refused("tiles of a product, which this is none of")
        return legal(self.programs, layout, self.device, self.bounds, tuple(schemes))

    def emit(self, layout: Schedule) -> tirx.PrimFunc | Refused:
        """The kernel by a legal schedule."""
        kernel = StitchedKernel(self.device, self.bounds, self.programs, layout)
        return kernel.emit(self.function)

    def refitted(self, layout: Schedule) -> Schedule | None:
        """A schedule with the steps and the alignment of this shape."""
        if not isinstance(layout, Schedule) or len(layout.parts) != len(self.programs):
            return None
        if layout.blocks:
            return self._refitted_rounds(layout)
        parts = []
        context = context_of(self.programs, layout.block_threads)
        for program, mapping in zip(self.programs, layout.parts, strict=True):
            kind = kind_of(program)
            problem = problem_of(program, self.device, self.bounds, context=context)
            if not kind.takes(mapping):
                return None
            part = fitted(kind.search.values_of(program, mapping), problem)
            if part is None:
                return None
            parts.append(part)
        return Schedule(tuple(parts))

    def _refitted_rounds(self, layout: Schedule) -> Schedule | None:
        """What parts in rounds have in common, as in the schedule of another shape."""
        chosen = self.choose()
        if isinstance(chosen, Refused) or not chosen.blocks:
            return None
        return rounds.fitted(
            rounds.values_of(self.programs, layout), self.programs, chosen, self.device
        )

    def predicted_us(self, layout: Schedule) -> float | None:
        """What the kernel should take."""
        return kernel_model.predicted_us(self.programs, layout, self.device)

    def features(self, layout: Schedule) -> dict[str, float]:
        """What the tuner's model knows of a schedule."""
        return of_schedule(self.programs, layout, self.device)

    @property
    def floor_us(self) -> float | None:
        """What moving its bytes takes at the bandwidth of a large copy."""
        return kernel_model.floor_us(self.programs, self.device)

    def workspaces(self, layout: Schedule) -> list[Var]:
        """Buffers that the kernel takes besides the function's."""
        return workspaces(self.programs, layout)


def workload_of(
    function: tirx.PrimFunc,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: Iterable[str] = SCHEMES,
) -> StitchedWorkload | Refused:
    """The workload of a fused PrimFunc's programs, as kernels by these schemes have them."""
    programs = read_programs(function, tuple(schemes))
    if isinstance(programs, Refused):
        return programs
    sizes = [e for program in programs for e in (program.space.rows, program.space.columns)]
    return StitchedWorkload(
        function=function,
        programs=programs,
        device=device,
        bounds=bounds,
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
    return _shortened(f"{size} {', '.join(dtypes)}: {', '.join(names)}") + more


def titled(workload: Workload, operators: Sequence[str]) -> Workload:
    """The same, named by its operators as in reports, where it has one part; stages have TVM's."""
    size, _, rest = workload.title.partition(": ")
    if not operators or len(workload.sizes) > 4 or rest.endswith(" more parts"):
        return workload
    return replace(workload, title=_shortened(f"{size}: {', '.join(dict.fromkeys(operators))}"))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 3] + "..."


def _digest(programs: tuple[Program, ...], sized: bool) -> str:
    return digest(Description(sized).lines(programs))


def digest(lines: Iterable[str]) -> str:
    """The name of what is so described."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:KEY_LENGTH]


class Description:
    """What is computed as text: variables by number, in the order in which they are met."""

    def __init__(self, sized: bool) -> None:
        self.sized = sized
        self.numbers: dict[Any, int] = {}

    def lines(self, programs: tuple[Program, ...]) -> Iterator[str]:
        """Programs in one kernel."""
        for program in programs:
            space = program.space
            yield f"part {program.reduces} {space.whole}" + program.round * " after a barrier"
            if self.sized:
                yield self.words((space.rows, space.columns, space.run))
            for stage in program.stages:
                yield from self._stage(program, stage)
            yield f"out {[self._number(buffer) for buffer in program.outputs]}"

    def size(self, extent: Any) -> str:
        """An extent, which may be a number."""
        return str(extent) if isinstance(extent, int) else self.words((extent,))

    def _stage(self, program: Program, stage: Stage) -> Iterator[str]:
        place = "reduction" if stage.is_reduction else "row"
        if not stage.is_reduction and program.is_full(stage.output):
            place = "full"
        yield f"stage {place} {stage.combiner} {self.words(stage.value, stage)}"
        for read in stage.reads:
            where = program.place(stage, read).name
            yield f"read {self.buffer(read.buffer)} {where} {read.guarded} {read.nested}"
        if self.sized:
            yield f"axes {self.words((*stage.axes, *stage.reduced))}"
            yield f"extents {self.words((*stage.extents, *stage.reduced_extents))}"
        yield f"to {self.buffer(stage.output)}"

    def buffer(self, buffer: Var) -> str:
        """One tensor."""
        text = f"b{self._number(buffer)}:{dtype_of(buffer)}"
        return text + self.words(buffer_shape(buffer)) if self.sized else text

    def _number(self, var: Any) -> int:
        return self.numbers.setdefault(var, len(self.numbers))

    def words(self, expressions: Expr | tuple[Expr, ...], stage: Stage | None = None) -> str:
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
