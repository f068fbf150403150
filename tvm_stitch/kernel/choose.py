"""Legality and mapping: from Programs to the Schedule that suits their shapes and the device.

In: the Programs of one kernel and a Device. Out: a Schedule, or why there is none. The only home of
legality.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import Frame, Stride
from tvm_stitch.kernel.analysis.transposed_reads import find_tiling, tile_bytes, tile_mapping
from tvm_stitch.kernel.cooperative.choose_column_sums import grid_mapping
from tvm_stitch.kernel.cooperative.choose_rounds import in_rounds, row_segment_mapping
from tvm_stitch.kernel.ir.memoized import memoized
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.schedule import SCHEMES, WARP, Mapping, Schedule
from tvm_stitch.kernel.ir.stage import Refused, constant, dtype_of, shown
from tvm_stitch.kernel.rows.choose import row_mapping, streamed
from tvm_stitch.kernel.rows.row_batching import single_wave
from tvm_stitch.kernel.rows.shared_input import balance_registers, shares_input
from tvm_stitch.kernel.rows.vector_width import narrowest_item, vector_width
from tvm_stitch.kernel.small_matmul.choose import product_mapping
from tvm_stitch.kernel.small_matmul.program import ProductProgram

FLAT_THREADS = 256
# Each part of a kernel has room of its own for its tiles: many would leave few blocks resident.
TILES_BYTES = 40 * 1024
# Memory comes in sectors of 32 bytes: shorter pieces than half of one waste what L2 can deliver.
PIECE_BYTES = 16
SUPPORTED = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
# Where the length of rows is symbolic, kernels for rows of up to so many elements; the last is for
# those that the model does not bound, and one that reads rows again in every phase takes the rest.
SHORT_COLUMNS, SYMBOLIC_COLUMNS = 1024, 16384


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of symbolic dimensions by name, as Relax's tir_var_upper_bound states them."""

    of: tuple[tuple[str, int], ...] = ()

    def columns(self, program: Program) -> int:
        """The row length, or the largest that it may have."""
        exact = constant(program.space.columns)
        if exact is not None:
            return exact
        analyzer = tvm.sym.Analyzer()
        known = dict(self.of)
        for var in tirx.analysis.undefined_vars(program.space.columns):
            if var.name not in known:
                return SYMBOLIC_COLUMNS
            analyzer.bind(var, tvm.ir.Range(tirx.IntImm("int64", 0), known[var.name] + 1))
        return min(int(analyzer.const_int_bound(program.space.columns).max_value), 1 << 30)

    def know(self, program: Program) -> bool:
        """Whether the row length has a bound."""
        known = dict(self.of)
        return all(v.name in known for v in tirx.analysis.undefined_vars(program.space.columns))


NO_BOUNDS = Bounds()


@dataclass(frozen=True)
class Choice:
    """The schedules of a kernel by itself, and of its programs beside others in one launch."""

    alone: Schedule
    packed: tuple[Mapping, ...]  # what side_by_side takes


def choose(
    programs: tuple[Program, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Schedule | Refused:
    """The default schedule of a kernel of these programs on a device."""
    choice = choose_both(programs, device, bounds, schemes)
    return choice if isinstance(choice, Refused) else choice.alone


def choose_both(
    programs: tuple[Program, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Choice | Refused:
    """The same for a planner, which may put the kernel into a launch with others."""
    choice = _choose(programs, device, bounds.columns, schemes)
    open_ended = [p for p in programs if p.reduces and constant(p.space.columns) is None]
    if isinstance(choice, Refused) or not open_ended:
        return choice

    def short(program: Program) -> int:
        columns = bounds.columns(program)
        return min(columns, SHORT_COLUMNS) if program in open_ended else columns

    def of_any_length(program: Program) -> int | None:
        return None if program in open_ended else bounds.columns(program)

    if not all(map(bounds.know, open_ended)):
        choice = _followed(choice, _choose(programs, device, of_any_length, schemes)) or choice
    if max(map(bounds.columns, open_ended)) > SHORT_COLUMNS:
        choice = _followed(_choose(programs, device, short, schemes), choice) or choice
    return choice


def _followed(shorter: Choice | Refused, longer: Choice | Refused) -> Choice | None:
    """The choice for shorter rows, the other one for those that are longer."""
    if isinstance(shorter, Refused) or isinstance(longer, Refused):
        return None
    return replace(shorter, alone=replace(shorter.alone, longer=longer.alone))


def _choose(
    programs: tuple[Program, ...],
    device: Device,
    length: Callable[[Program], int | None],
    schemes: tuple[str, ...],
) -> Choice | Refused:
    """The schedules for rows of up to that length; None: of any length."""
    rounds = any(program.round for program in programs)
    own = tuple(s for s in schemes if s != "cluster") if rounds else tuple(schemes)
    parts: list[Mapping] = []
    for program in programs:
        mapping = _mapping(program, device, length(program), own)
        if isinstance(mapping, Refused):
            return mapping
        parts.append(mapping)
    if rounds:
        schedule = in_rounds(programs, parts, device)
    elif len(parts) == 1:
        schedule = Schedule((_alone(programs[0], parts[0], device),))
    else:
        schedule = side_by_side(programs, parts)
    if isinstance(schedule, Refused):
        return schedule
    if off := schedule.schemes - set(schemes):
        return Refused(f"the {min(off)} scheme is switched off")
    return Choice(schedule, tuple(parts) if len(parts) == 1 else schedule.parts)


def _alone(program: Program, mapping: Mapping, device: Device) -> Mapping:
    """The mapping of a program that has the device to itself."""
    if not program.reduces or isinstance(program, ProductProgram) or program.column_reductions:
        return mapping
    return single_wave(program, mapping, device) or mapping


def side_by_side(programs: tuple[Program, ...], parts: Sequence[Mapping]) -> Schedule | Refused:
    """Parts of one kernel have blocks of equally many threads."""
    if any(program.round for program in programs):
        return Refused("programs in rounds fill a kernel of their own")
    common = max(part.block_threads for part in parts)
    with_rows = [part.block_threads for part in parts if not part.split]
    if with_rows and len(with_rows) < len(parts):
        common = max(with_rows)  # other parts take blocks of any size
    equal = []
    for program, part in zip(programs, parts, strict=True):
        if part.cluster > 1 or part.blocks:
            return Refused(f"a part of the {part.scheme} scheme fills a kernel of its own")
        if isinstance(program, ProductProgram):
            return Refused("a part with matrix products fills a kernel of its own")
        if part.split:
            steps = part.steps
            if part.tile:  # larger tiles would take more shared memory
                steps = max(1, steps * part.threads // common)
            equal.append(replace(part, threads=common, steps=steps))
        elif part.block_threads == common:
            equal.append(part)
        elif constant(program.space.rows) is None or common % part.threads:
            return Refused("its parts need blocks of different sizes")
        else:
            resident = part.min_blocks_per_sm * part.block_threads // common  # as many threads
            equal.append(replace(part, rows=common // part.threads, min_blocks_per_sm=resident))
    if shares_input(programs, equal):
        equal = balance_registers(equal)
    needed = sum(tile_bytes(p, m) for p, m in zip(programs, equal, strict=True))
    if needed > TILES_BYTES:
        return Refused(f"its parts' tiles need {needed} bytes of shared memory")
    return Schedule(tuple(equal))


def unsupported(program: Program) -> Refused | None:
    """What no schedule can make a stitched kernel of."""
    for buffer in (*program.inputs, *program.outputs, *program.producer):
        if dtype_of(buffer) not in SUPPORTED:
            return Refused(f"{buffer.name} has dtype {dtype_of(buffer)}")
    for stage in program.stages:
        if not stage.is_reduction:
            continue
        if stage.combiner in ("any", "all") and dtype_of(stage.output) != "bool":
            return Refused(f"{stage.name} combines {dtype_of(stage.output)} logically")
    if isinstance(program, ProductProgram):
        return None
    frame = Frame(program)
    for stage in program.stages:
        for read in stage.reads:
            if not program.reduces or program.place(stage, read) is not Where.OTHER:
                continue
            address = frame.address(stage, read)
            # What an earlier round left is small: caches hold it.
            if address.stride is Stride.GATHER and not read.guarded and not program.round:
                return Refused(f"{stage.name} reads {read.buffer.name} across the rows")
    if not program.space.whole and _piece_bytes(program) < PIECE_BYTES:
        return Refused(f"rows lie in memory in pieces of {shown(program.space.run)} elements")
    return None


def _piece_bytes(program: Program) -> int:
    """Bytes of a row that lie side by side where it is in pieces; 0: not known."""
    return (constant(program.space.run) or 0) * narrowest_item(program)


@memoized
def _mapping(
    program: Program, device: Device, columns: int | None, schemes: tuple[str, ...]
) -> Mapping | Refused:
    """What a program gets of whatever kernel it is in."""
    if (refused := unsupported(program)) is not None:
        return refused
    if isinstance(program, ProductProgram):
        return product_mapping(program, device)
    if program.space.row_segment is not None:
        return row_segment_mapping(program, vector_width(program))
    if not program.reduces and constant(program.space.rows) == 1:
        return _flat_mapping(program, device, schemes)
    if columns is None:
        return streamed(program)
    if program.column_reductions:
        return grid_mapping(program, device, vector_width(program), columns)
    return row_mapping(program, device, columns, schemes)


# Element-wise programs


def _flat_mapping(program: Program, device: Device, schemes: tuple[str, ...]) -> Mapping:
    """A vector of each tensor for a thread; less where that would leave the device idle.

    With two, the CUDA compiler moves the second's loads behind the work on the first. Measured on
    an H200: silu(a) * b of 8192 x 11008 bf16 takes 126.1 us with one and 127.5 with two, LSTM cell
    of 4096 x 1024 fp32 47.4 and 49.7, SGD with momentum for 14 M elements 71.3 and 74.2.
    """
    tiling = find_tiling(program)
    if tiling is not None and "regional" in schemes:
        return tile_mapping(tiling, vector_width(program))
    mapping = Mapping("local", FLAT_THREADS, 1, vector_width(program), 1, split=True)
    total = constant(program.space.columns)
    if total is None:
        return mapping
    wanted = 2 * device.multiprocessors
    while mapping.vector > 1 and -(-total // mapping.reach) < wanted:
        mapping = replace(mapping, vector=mapping.vector // 2)
    while mapping.threads > WARP and -(-total // mapping.reach) < device.multiprocessors // 2:
        mapping = replace(mapping, threads=mapping.threads // 2)
    return mapping
