"""Mapping and legality of kernels with small matrix products.

In: a ProductProgram and a Device. Out: its Mapping, or why there is none; which panels are staged
in shared memory. Part of kernel/choose, the home of legality.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm_stitch.device import Device
from tvm_stitch.kernel.product_panel import Panel
from tvm_stitch.kernel.product_program import ProductProgram
from tvm_stitch.kernel.schedule import WARP, Mapping, power_of_two
from tvm_stitch.kernel.stage import Refused, constant, dtype_of, item_bytes

COLUMNS_EACH = 4  # of a thread, where a row has so many
ROWS_EACH = 4
MOST_ELEMENTS = 32  # of a product that a thread adds up at once
BLOCK_THREADS = 256
BUSY_THREADS = 256  # of a multiprocessor, before threads get more than one row
MOST_THREADS = 256  # of a row along which nothing is reduced
# A panel that fewer rows share is read through the caches where neighbours lie side by side.
STAGED_ROWS = 4
PANEL_ITEM = 4
SHARED_BYTES = 64 * 1024  # of a block: every GPU has that much


def pitch(columns: int) -> int:
    """Elements from one row in shared memory to the next.

    Vectors of four stay aligned, and those of neighbouring rows lie in different banks.
    """
    return (columns + 3) // 8 * 8 + 4


def panel_bytes(panel: Panel) -> int:
    """Shared memory of a panel."""
    return panel.slow * pitch(panel.fast) * PANEL_ITEM


def waiting_bytes(program: ProductProgram, mapping: Mapping) -> int:
    """Shared memory of the values that wait for the threads of their rows."""
    row = (
        pitch(columns) * item_bytes(dtype_of(buffer)) for buffer, columns in program.waiting.items()
    )
    return mapping.block_rows * sum(row)


def staged_panels(program: ProductProgram, mapping: Mapping) -> tuple[Panel, ...]:
    """The panels that have room in shared memory; the others are read through the caches."""
    left = SHARED_BYTES - waiting_bytes(program, mapping)
    found = []
    for panel in sorted(program.panels, key=lambda panel: not _must_be_staged(program, panel)):
        if mapping.block_rows < STAGED_ROWS and not _must_be_staged(program, panel):
            continue
        if panel_bytes(panel) <= left:
            left -= panel_bytes(panel)
            found.append(panel)
    return tuple(found)


def _must_be_staged(program: ProductProgram, panel: Panel) -> bool:
    """Whether neighbouring threads would read elements that lie far apart."""
    return any(c.by_depth for c in program.contractions.values() if c.panel.key == panel.key)


def mapping_of_products(program: ProductProgram, threads: int, rows: int, batch: int) -> Mapping:
    """The mapping of that many threads a row, rows side by side, and rows of a thread."""
    steps = -(-_widest(program) // threads)
    return Mapping("regional", threads, rows, 1, steps, residence="shared", batch=batch)


def product_mapping(program: ProductProgram, device: Device) -> Mapping | Refused:
    """Threads have a few columns of a few rows each, unless rows are few."""
    threads, batch = _threads_and_batch(program, device)
    fewest = max(1, WARP // threads)
    together = max(BLOCK_THREADS // threads, fewest)
    rows = constant(program.space.rows) or 1
    while together > fewest and (
        together // 2 * batch >= program.inner
        or rows // (together * batch) < device.multiprocessors
    ):
        together //= 2
    mapping = mapping_of_products(program, threads, together, batch)
    while refused := next(product_reasons(program, mapping), None):
        if batch > 2 or (batch > 1 and together == fewest):
            batch //= 2
        elif together > fewest:
            together //= 2
        else:
            return Refused(refused)
        mapping = mapping_of_products(program, threads, together, batch)
    return mapping


def _threads_and_batch(program: ProductProgram, device: Device) -> tuple[int, int]:
    """Of a row, and rows of a thread: as many as leave every multiprocessor busy."""
    rows, widest = constant(program.space.rows) or 1, _widest(program)
    busy = device.multiprocessors * BUSY_THREADS
    threads = min(max(power_of_two(-(-widest // COLUMNS_EACH)), COLUMNS_EACH), WARP)
    batch = min(ROWS_EACH, power_of_two(program.inner))
    while batch > 1 and rows // batch * threads < busy:
        batch //= 2
    while threads < WARP and (rows // batch * threads < busy or WARP // threads > program.inner):
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
    """Threads of a row: what is reduced along it meets in shuffles."""
    return WARP if program.reduces_along else MOST_THREADS


def _widest(program: ProductProgram) -> int:
    return max(map(program.walked, program.stages))


def product_reasons(program: ProductProgram, mapping: Mapping) -> Iterator[str]:
    """Why a mapping is not legal."""
    if mapping != mapping_of_products(program, mapping.threads, mapping.rows, mapping.batch):
        yield "rows with products wait in shared memory, elements one by one"
    if mapping.threads > _most_threads(program):
        yield f"{mapping.threads} threads a row with products, more than {_most_threads(program)}"
    if mapping.batch * mapping.steps > 2 * MOST_ELEMENTS:
        yield f"{mapping.batch * mapping.steps} elements of a product a thread"
    if waiting_bytes(program, mapping) > SHARED_BYTES:
        yield f"{waiting_bytes(program, mapping)} bytes of shared memory for a block's rows"
    staged = {panel.key for panel in staged_panels(program, mapping)}
    for panel in program.panels:
        if _must_be_staged(program, panel) and panel.key not in staged:
            yield f"a factor of {panel_bytes(panel)} bytes has no room in shared memory"
