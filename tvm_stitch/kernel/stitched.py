"""Kernels of programs: stages of any kinds, as a Schedule maps them on threads.

In: stages. Out: a StitchedKernel, or why there is none.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.bounded_products import limits_of
from tvm_stitch.kernel.at_sizes import symbols_of
from tvm_stitch.kernel.choose import Bounds, choose, round_by_round
from tvm_stitch.kernel.codegen import bfloat16
from tvm_stitch.kernel.codegen.bfloat16 import without_bfloat16
from tvm_stitch.kernel.codegen.hazard_check import check_kernel, multiprocessors_needed
from tvm_stitch.kernel.codegen.placed_loads import without_predicated_halves
from tvm_stitch.kernel.codegen.prim_func import (
    IN_PLACE_ATTRIBUTE,
    MULTIPROCESSORS_ATTRIBUTE,
    signature,
)
from tvm_stitch.kernel.cost_model.kernel_model import (
    copy_us,
    floor_us,
    least_bytes,
    least_work_us,
    predicted,
    predicted_us,
    tensors_of,
)
from tvm_stitch.kernel.distinct_parts import distinct_parts, part_sorts, sort_of
from tvm_stitch.kernel.elementwise.in_place import overwritable
from tvm_stitch.kernel.emit import UNBOUNDED, emit
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kernel import Implementation, Kernel, Least
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.panels.kind import PANEL
from tvm_stitch.kernel.partition import make_programs, wants_rounds, ways_of
from tvm_stitch.stages.bfloat16_constants import folded
from tvm_stitch.stages.extents import Extents, is_open
from tvm_stitch.stages.stage import Refused, Stage, Var, constant

SCHEDULE_ATTRIBUTE = "tvm_stitch.schedule"
# What symbols may be at most in it, as JSON.
LIMITS_ATTRIBUTE = "tvm_stitch.limits"


@dataclass(frozen=True, eq=False)
class StitchedKernel(Kernel):
    """Programs with their schedule."""

    programs: tuple[Program, ...]
    schedule: Schedule
    schemes: tuple[str, ...] = SCHEMES  # that may be chosen
    limits: tuple[tuple[str, int], ...] = ()  # of symbols: more than that it cannot hold

    @property
    def is_product(self) -> bool:
        """Never: small ones are stages among others."""
        return False

    @property
    def shares_launch(self) -> bool:
        """Whether others that are no products can be put into it, or it into them."""
        return True

    @property
    def buffers(self) -> tuple[Var, ...]:
        """The tensors that it reads and writes."""
        return tensors_of(self.programs)

    @cached_property
    def cost_us(self) -> float:
        """What it should take, on average at the sizes that symbols may have."""
        return self._predicted_us()

    def _predicted_us(self, fresh: int = 0) -> float:
        return self.bounds.mean(
            lambda point: predicted_us(self.programs, self.schedule, self.device, point, fresh)
        )

    @property
    def planned_us(self) -> float:
        """The same; where nobody states sizes, that of its bytes."""
        if is_open(self.buffers, self.bounds.points):
            return copy_us(least_bytes(self.programs, self.bounds.likely), self.device)
        return self.cost_us

    def after_us(self, fresh: int) -> float:
        """The same where so many bytes of what it reads have just been written."""
        if not fresh or is_open(self.buffers, self.bounds.points):
            return self.planned_us
        return self._predicted_us(fresh)

    @cached_property
    def sort(self) -> Hashable:
        """Equal for kernels that differ in tensors, numbers and sizes that divide alike."""
        return sort_of(self.programs, self.schedule) or self

    def check(self, seen: set[Hashable] | None = None) -> Refused | None:
        """What check_kernel will find in it, asked before there is a fused PrimFunc."""
        programs, schedule = distinct_parts(self.programs, self.schedule, seen or ())
        tensors = (b for program in programs for b in (*program.inputs, *program.outputs))
        kernel = replace(self, programs=programs, schedule=schedule)
        refused = check_kernel(kernel._emitted(signature(tensors), ()), self.device)
        if refused is None and seen is not None:
            seen.update(filter(None, part_sorts(self.programs, self.schedule)))
        return refused

    def emit(self, func: tirx.PrimFunc) -> tirx.PrimFunc | Refused:
        """The kernel by its legal Schedule, which is attached as JSON."""
        bounds = self.bounds
        longest = [bounds.columns(p) if bounds.know(p) else UNBOUNDED for p in self.programs]
        kernel = self._emitted(func, longest)
        kernel = kernel.with_body(folded(kernel.body))
        needed = multiprocessors_needed(kernel, self.device)
        if isinstance(needed, Refused):
            return needed
        if needed:
            kernel = kernel.with_attr(MULTIPROCESSORS_ATTRIBUTE, needed)
        pairs = overwritable(func, kernel, self.programs, self.schedule)
        if pairs:
            kernel = kernel.with_attr(IN_PLACE_ATTRIBUTE, json.dumps(pairs))
        if self.limits:
            kernel = kernel.with_attr(LIMITS_ATTRIBUTE, json.dumps(dict(self.limits)))
        return kernel.with_attr(SCHEDULE_ATTRIBUTE, self.schedule.to_json())

    def _emitted(self, func: tirx.PrimFunc, longest: Sequence[int]) -> tirx.PrimFunc:
        symbols = {var.name: var for var in symbols_of(func)} if self.limits else {}
        limits = [(symbols[name], most, _too_large(name, most)) for name, most in self.limits]
        kernel = emit(func, self.programs, self.schedule, longest, limits)
        has_bfloat = self.device.capability >= bfloat16.CAPABILITY
        return kernel if has_bfloat else without_bfloat16(without_predicated_halves(kernel))

    @property
    def layout(self) -> Schedule | None:
        """What a tuner searches; of products as large as bounds allow it knows nothing."""
        return None if self.limits else self.schedule

    def least(self, extents: Extents) -> Least:
        """What several kernels cannot beat that compute the same."""
        cost = predicted(self.programs, self.schedule, self.device, extents)
        floor = floor_us(self.programs, self.device, extents)
        waits = cost.block_us - self.device.timing.block_us
        work = waits + least_work_us(cost, floor, self.device)
        # Of a slice the floor counts all of the tensor, and the cost counts what is read again.
        return Least(min(cost.dram_us, floor), work)

    @property
    def parts(self) -> int:
        """How many unrelated parts it has; what comes in rounds is one."""
        return 1 if self.is_cooperative else len(self.programs)

    @property
    def is_cooperative(self) -> bool:
        """Whether its grid has barriers between rounds, and needs a cooperative launch."""
        return bool(self.schedule.blocks)

    def joined(self, others: Sequence[Kernel]) -> StitchedKernel | Refused:
        """This kernel and unrelated ones in one launch: round by round, or by ranges of blocks."""
        kernels = [each for each in (self, *others) if isinstance(each, StitchedKernel)]
        if any(kernel.limits for kernel in kernels):
            return Refused("small products of bounded sizes fill a kernel of their own")
        if len(kernels) <= len(others):
            return Refused("a product on tensor cores shares its launch with none")
        if all(kernel.is_cooperative for kernel in kernels):
            found = round_by_round([(own.programs, own.schedule) for own in kernels], self.device)
            if isinstance(found, Refused):
                return found
            return replace(self, programs=found[0], schedule=found[1])
        if any(kernel.is_cooperative for kernel in kernels):
            return Refused("programs in rounds fill a kernel of their own")
        programs = tuple(program for kernel in kernels for program in kernel.programs)
        return _of_programs(programs, self.device, self.bounds, self.schemes)


def stitched_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: Sequence[str],
) -> StitchedKernel | Refused:
    """The programs that stages make, by the schedule that suits them; or why there is none.

    Whether rounds are better than panels that a cluster keeps the cost model says. Of rows that are
    read again it depends on sizes: where only run time knows these, on what is stated of them.
    There are rounds where kernels of known sizes have them; panels that are read again were slower
    in every case that was measured.
    """
    ways = ways_of(stages, outputs, schemes)
    if isinstance(ways, Refused):
        return _of_bounded_products(stages, outputs, device, bounds, schemes) or ways
    first, *others = ways
    found = _of_programs(first, device, bounds, schemes)
    if not others:
        return found
    is_symbolic = any(constant(program.space.size) is None for program in first)
    has_panels = any(kind_of(program) is PANEL for program in others[0])
    if not (is_symbolic or has_panels):
        return found
    without = tuple(scheme for scheme in schemes if scheme != "global")
    other = _of_programs(others[0], device, bounds, without)
    if not (is_symbolic or isinstance(found, Refused) or _is_kept(other)):
        return found
    kernels = [each for each in (found, other) if not isinstance(each, Refused)]
    if len(kernels) > 1 and is_symbolic and bounds.points and not has_panels:
        at = bounds.representative
        return kernels[not any(wants_rounds(program, at) for program in kernels[1].programs)]
    return min(kernels, key=lambda kernel: kernel.cost_us) if kernels else found


def _is_kept(kernel: StitchedKernel | Refused) -> bool:
    """Whether there is a kernel that reads nothing again."""
    if isinstance(kernel, Refused):
        return False
    return all(part.residence != "nowhere" for part in kernel.schedule.parts)


def _of_bounded_products(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: Sequence[str],
) -> StitchedKernel | None:
    """The kernel of small products that are as large as bounds of their symbols allow, if any."""
    limits = limits_of(stages, dict(bounds.of))
    programs = make_programs(stages, outputs, schemes, limits) if limits else None
    if programs is None or isinstance(programs, Refused):
        return None
    found = _of_programs(programs, device, bounds, schemes)
    return None if isinstance(found, Refused) else replace(found, limits=tuple(limits.items()))


def limits_stated(emitted: tirx.PrimFunc) -> dict[str, int]:
    """What the symbols of an emitted kernel may be at most, for it to hold its products."""
    found: dict[str, int] = json.loads(str(emitted.attrs.get(LIMITS_ATTRIBUTE, "{}")))
    return found


def allocates_exactly(func: tirx.PrimFunc) -> bool:
    """Whether it is known that an emitted kernel has just as much on the chip as it uses."""
    text = func.attrs.get(SCHEDULE_ATTRIBUTE)
    schedule = None if text is None else Schedule.from_json(str(text))
    return schedule is not None and not schedule.longer and all(p.exact for p in schedule.parts)


def _too_large(name: str, most: int) -> str:
    return (
        f"this stitched kernel has room for products of {name} = {most} at most, as the model's "
        "attribute tir_var_upper_bound says"
    )


def _of_programs(
    programs: tuple[Program, ...], device: Device, bounds: Bounds, schemes: Sequence[str]
) -> StitchedKernel | Refused:
    schedule = choose(programs, device, bounds, tuple(schemes))
    if isinstance(schedule, Refused):
        return schedule
    return StitchedKernel(device, bounds, programs, schedule, tuple(schemes))


STITCHED = Implementation(SCHEDULE_ATTRIBUTE, stitched_kernel)
