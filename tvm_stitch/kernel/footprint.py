"""What a block of a kernel takes, whatever its parts: the one number of its shared memory.

In: Programs and their Schedule. Out: a Footprint. Each kind says what a part of it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_stitch.kernel.codegen.footprint import Footprint
from tvm_stitch.kernel.cooperative.footprint import rounds_footprint
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of


def footprint_of(programs: tuple[Program, ...], schedule: Schedule) -> Footprint:
    """Registers for its widest part, shared memory for each; for parts in rounds, in turn."""
    parts = list(zip(programs, schedule.parts, strict=True))
    if schedule.blocks:
        return rounds_footprint(parts, schedule.blocks)
    own = [kind_of(program).footprint(program, mapping) for program, mapping in parts]
    widest = max(own, key=lambda each: each.registers)
    return replace(widest, shared=sum(each.shared for each in own))


def tile_bytes(programs: Sequence[Program], parts: Sequence[Mapping]) -> int:
    """Shared memory of the parts that have tiles."""
    pairs = [(p, m) for p, m in zip(programs, parts, strict=True) if m.tile]
    return sum(kind_of(program).footprint(program, mapping).shared for program, mapping in pairs)
