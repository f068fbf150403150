"""Mapping and legality of kernels with small matrix products.

In: a ProductProgram and a Device. Out: its Mappings, the best first, and why one is not legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.ir.mapping import WARP, SmallMatmul, power_of_two
from tvm_stitch.kernel.rows import async_copy
from tvm_stitch.kernel.small_matmul.column_slices import Slices, find_slices
from tvm_stitch.kernel.small_matmul.early_loads import early_loads
from tvm_stitch.kernel.small_matmul.footprint import (
    must_be_staged,
    room_for_factors,
    staged_tables,
    waiting_bytes,
)
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import CHUNK
from tvm_stitch.kernel.small_matmul.smem_layout import table_of
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.patterns.matmul_pattern import MAX_COLUMNS, MAX_CONTRACTED
from tvm_stitch.stages.stage import Refused

COLUMNS_EACH = 4  # of a thread, where a row has so many
ROWS_EACH = 4
# Where rows that share their factors then still fill two warps. Measured on an H200: attention of
# 50 x 64 takes 63.0 us with 8 rows a thread and 70.3 with 4, of 32 x 32 29.9 and 29.0.
MORE_ROWS_EACH = 8
MOST_ELEMENTS = 32  # of a product that a thread adds up at once
BLOCK_THREADS = 256
BUSY_THREADS = 256  # of a multiprocessor, before threads get more than one row
MOST_THREADS = 256  # of a row along which nothing is reduced
FEWEST_SLICED = 8  # columns of a slice: 32 bytes come in one piece
LEAST_DEPTH = 64  # of a thread, where several share a depth
# Measured on an H200: an LSTM's step of 32 x 512 with its product, its weights in the L2, takes
# 7.06 us with 2 parts or 4, 8.08 with 8; weights read transposed, by one thread each, 35.9. (A
# library's product and the cell after it: 4.1 to 10 and 1.4.)
MOST_DEPTH_SPLIT = 4


def mapping_of_products(
    program: ProductProgram,
    threads: int,
    rows: int,
    batch: int,
    split: bool = False,
    depth_split: int = 1,
) -> SmallMatmul:
    """The mapping of that many threads a row, rows side by side, and rows of a thread."""
    slices = _few_slices(program, threads) if split else None
    steps = slices.steps if isinstance(slices, Slices) else -(-_widest(program) // threads)
    return SmallMatmul(threads, rows, steps, batch, split, depth_split)


def _few_slices(program: ProductProgram, threads: int) -> Slices | Refused:
    """Those with a few columns a thread, if a period still has one for every thread."""
    slices = find_slices(program)
    while isinstance(slices, Slices):
        if slices.steps >= COLUMNS_EACH or slices.period < 2 * threads:
            break
        more = find_slices(program, 2 * slices.steps)
        if isinstance(more, Refused):
            break
        slices = more
    return slices


def product_mappings(problem: Problem[ProductProgram]) -> Iterator[SmallMatmul]:
    """Rows in slices where all that follows the products allows it; else whole rows.

    Each with asynchronous copies and loads issued ahead, where there are any.
    """
    for mapping in chain(_sliced(problem), _whole(problem)):
        for asynchronous, ahead in product((True, False), repeat=2):
            yield replace(mapping, asynchronous=asynchronous, prefetch_weights=ahead)


def _sliced(problem: Problem[ProductProgram]) -> Iterator[SmallMatmul]:
    """A block has up to twice as many columns as rows; none where there are no slices, or no gain.

    Slices read the rows' factors once each and compute all that comes before the products once
    each. So that is left to products of what memory holds.
    """
    program, device = problem.program, problem.device
    slices = _few_slices(program, FEWEST_SLICED)
    if isinstance(slices, Refused) or not slices.values.issuperset(program.contractions):
        return
    if program.reduces_rows or any(c.async_input is None for c in program.contractions.values()):
        return
    elements = _rows(program) * slices.period
    batch = min(ROWS_EACH, power_of_two(_inner(program)))
    while batch > 1 and elements // batch < device.multiprocessors * BUSY_THREADS:
        batch //= 2
    threads = min(FEWEST_SLICED, power_of_two(slices.period))
    while 2 * threads <= slices.period and 2 * threads**2 * slices.steps <= BLOCK_THREADS * batch:
        threads *= 2
    together = BLOCK_THREADS // threads
    while together * threads > WARP and (
        together // 2 * batch >= _inner(program)
        or 2 * elements < together * batch * threads * device.multiprocessors
    ):
        together //= 2
    mapping = mapping_of_products(program, threads, together, batch, split=True)
    yield replace(mapping, depth_split=_depth_split(program, mapping))


def _depth_split(program: ProductProgram, mapping: SmallMatmul) -> int:
    """How many threads share the depth: as many as leave each a part that is worth it."""
    shallowest = min(contraction.contracted for contraction in program.contractions.values())
    parts = 1
    while 2 * parts <= MOST_DEPTH_SPLIT and shallowest // (2 * parts) >= LEAST_DEPTH:
        shared = replace(mapping, depth_split=2 * parts)
        if next(_shared_depth(program, shared), None) is not None:
            break
        parts *= 2
    return parts


def _whole(problem: Problem[ProductProgram]) -> Iterator[SmallMatmul]:
    """Threads have a few columns of a few rows each, unless rows are few; then fewer rows."""
    program, device = problem.program, problem.device
    threads, batch = _threads_and_batch(program, device)
    fewest = max(1, WARP // threads)
    together = max(BLOCK_THREADS // threads, fewest)
    rows = _rows(program)
    while together > fewest and (
        together // 2 * batch >= _inner(program)
        or rows // (together * batch) < device.multiprocessors
    ):
        together //= 2
    yield mapping_of_products(program, threads, together, batch)
    while batch > 1 or together > fewest:
        if batch > 2 or together == fewest:
            batch //= 2
        else:
            together //= 2
        yield mapping_of_products(program, threads, together, batch)


def _threads_and_batch(program: ProductProgram, device: Device) -> tuple[int, int]:
    """Of a row, and rows of a thread: as many as leave every multiprocessor busy."""
    rows, widest = _rows(program), _widest(program)
    busy = device.multiprocessors * BUSY_THREADS
    threads = min(max(power_of_two(-(-widest // COLUMNS_EACH)), COLUMNS_EACH), WARP)
    inner = power_of_two(_inner(program))
    most = MORE_ROWS_EACH if threads * inner >= 2 * WARP * MORE_ROWS_EACH else ROWS_EACH
    batch = min(most, inner)
    while batch > 1 and rows // batch * threads < busy:
        batch //= 2
    while threads < WARP and (rows // batch * threads < busy or WARP // threads > _inner(program)):
        threads *= 2
    most = min(power_of_two(widest), _most_threads(program))
    while threads < most and rows * threads < 2 * busy:
        threads *= 2
    if threads > WARP:
        # Blocks of one row each would all read the whole of the weights.
        while batch < ROWS_EACH and rows // (2 * batch) >= device.multiprocessors:
            batch *= 2
    while batch > 1 and batch * -(-widest // threads) > MOST_ELEMENTS:
        batch //= 2
    return threads, batch


def _most_threads(program: ProductProgram) -> int:
    """Threads of a row: what is reduced along it goes through shuffles."""
    return WARP if program.reduces_rows else MOST_THREADS


def _rows(program: ProductProgram) -> int:
    return (program.likely or NOMINAL).size(program.space.rows)


def _inner(program: ProductProgram) -> int:
    return (program.likely or NOMINAL).size(program.inner)


def _widest(program: ProductProgram) -> int:
    return max(map(program.walked, program.stages))


def product_reasons(problem: Problem[ProductProgram], mapping: SmallMatmul) -> Iterator[str]:
    """Why a mapping is not legal."""
    program = problem.program
    if mapping.split and isinstance(slices := find_slices(program, mapping.steps), Refused):
        yield slices.reason
        return
    if not mapping.split:
        yield from _too_much_of_whole_rows(program)
    own = mapping.threads, mapping.rows, mapping.batch, mapping.split, mapping.depth_split
    if replace(mapping, asynchronous=False, prefetch_weights=False) != mapping_of_products(
        program, *own
    ):
        yield "rows with products wait in shared memory, elements one by one"
    if mapping.threads > _most_threads(program):
        yield f"{mapping.threads} threads a row with products, more than {_most_threads(program)}"
    if mapping.batch * mapping.steps > 2 * MOST_ELEMENTS:
        yield f"{mapping.batch * mapping.steps} elements of a product a thread"
    if room_for_factors(program, mapping) < 0:
        yield f"{waiting_bytes(program, mapping)} bytes of shared memory for a block's rows"
    if mapping.depth_split > 1:
        yield from _shared_depth(program, mapping)
    staged = {table.panel.key for table in staged_tables(program, mapping)}
    for panel in program.panels:
        if must_be_staged(program, panel) and panel.key not in staged:
            needed = table_of(program, mapping, panel).bytes
            yield f"a factor of {needed} bytes has no room in shared memory"
    if mapping.prefetch_weights and not early_loads(program, mapping):
        yield "loads issued ahead, where there are none"
    if mapping.asynchronous:
        yield from _asynchronous(program, mapping, problem.device)


def _too_much_of_whole_rows(program: ProductProgram) -> Iterator[str]:
    """Every block would read all of the weights."""
    for output, contraction in program.contractions.items():
        if contraction.contracted > MAX_CONTRACTED:
            yield f"sums over {contraction.contracted} elements by blocks that have whole rows"
        if program.columns[output] > MAX_COLUMNS:
            yield f"rows of {program.columns[output]} results in one block"


def _shared_depth(program: ProductProgram, mapping: SmallMatmul) -> Iterator[str]:
    if mapping.row_threads % WARP:
        yield "threads of a warp with different parts of the depth"
    for contraction in program.contractions.values():
        if contraction.contracted % (mapping.depth_split * CHUNK):
            yield f"a depth of {contraction.contracted} shared by {mapping.depth_split}"


def _asynchronous(program: ProductProgram, mapping: SmallMatmul, device: Device) -> Iterator[str]:
    if device.capability < async_copy.CAPABILITY:
        yield f"asynchronous copies, which {device.name} does not have"
    copied = [table.panel for table in staged_tables(program, mapping)]
    copied += [c.async_input for c in program.contractions.values() if c.async_input is not None]
    if not any(panel.as_it_is for panel in copied):
        yield "asynchronous copies, where memory holds nothing as it is multiplied"
