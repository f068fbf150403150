"""Schedules as chosen on either side of every measured boundary, kept in golden/schedules.txt.

A rule that decides speed alone fails no other test. After a change that is meant:
`pytest tests/kernel/test_choose_table.py --renew`, then read the difference.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from check import A100, H200
from expressions import softmax, tensor
from tvm import te, topi

from tvm_stitch.device import device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import Refused

GOLDEN = Path(__file__).parent / "golden" / "schedules.txt"
DEVICES = {"H200": device_of(H200), "A100": device_of(A100)}
COLUMNS = (
    *(7, 32, 33, 255, 256, 512, 513, 768, 1000, 1024, 2048, 4096, 4097, 8192, 16384, 30000),
    *(32768, 40960, 65536, 65537, 131072, 262144, 401408, 1 << 20),
)
ROWS = (1, 33, 64, 264, 4096, 32768)


def layer_norm(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """The tensors of a layer norm with two weights."""
    x, w, b = (
        tensor(rows, columns, dtype=dtype),
        tensor(columns, name="w"),
        tensor(columns, name="b"),
    )
    wide = topi.cast(x, "float32")
    centred = topi.subtract(wide, topi.divide(topi.sum(wide, 1, True), float(columns)))
    variance = topi.divide(topi.sum(topi.multiply(centred, centred), 1, True), float(columns))
    normal = topi.multiply(centred, topi.rsqrt(topi.add(variance, 1e-5)))
    return x, w, b, topi.cast(topi.add(topi.multiply(normal, w), b), dtype)


def row_sums(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """The tensors of a logarithm of sums of exponentials, of which nothing as long is written."""
    x = tensor(rows, columns, dtype=dtype)
    wide = topi.cast(x, "float32")
    top = topi.max(wide, 1, True)
    total = topi.sum(topi.exp(topi.subtract(wide, top)), 1, True)
    return x, topi.add(topi.log(total), top)


def column_sums(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """The tensors of sums over the rows, beside ones along them."""
    x = tensor(rows, columns, dtype=dtype)
    wide = topi.cast(x, "float32")
    return x, topi.sum(wide, 0), topi.multiply(wide, topi.sum(wide, 1, True))


def weight_gradient(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """The tensors of sums over the rows with none along them: blocks hold a piece of each row."""
    x, y = tensor(rows, columns, dtype=dtype), tensor(rows, columns, dtype=dtype, name="y")
    both = topi.multiply(topi.cast(x, "float32"), topi.cast(y, "float32"))
    return x, y, topi.sum(both, 0), topi.cast(both, dtype)


def softmax_over_rows(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """The tensors of a softmax over the first axis, which takes several rounds."""
    x = tensor(rows, columns, dtype=dtype)
    wide = topi.cast(x, "float32")
    moved = topi.exp(topi.subtract(wide, topi.max(wide, 0, True)))
    return x, topi.cast(topi.divide(moved, topi.sum(moved, 0, True)), dtype)


def divided_by_norm(rows: int, columns: int, dtype: str) -> tuple[te.Tensor, ...]:
    """A tensor divided by its norm: a sum over everything, and a kernel of small blocks."""
    x = tensor(rows, columns, dtype=dtype)
    wide = topi.cast(x, "float32")
    norm = topi.sqrt(topi.sum(topi.multiply(wide, wide)))
    return x, topi.cast(topi.divide(wide, norm), dtype)


GRAPHS: tuple[Callable[..., tuple[te.Tensor, ...]], ...] = (softmax, layer_norm, row_sums)
ACROSS: tuple[Callable[..., tuple[te.Tensor, ...]], ...] = (
    column_sums,
    weight_gradient,
    softmax_over_rows,
    divided_by_norm,
)


FIELDS = (
    *("cluster", "residence", "recompute", "peeled", "split", "blocks", "min_blocks_per_sm"),
    *("prefetch_next_row", "batch", "prefetch_weights", "asynchronous", "online", "unroll", "idle"),
    *("tile", "persistent_rows"),
)


def lines() -> Iterator[str]:
    """A line for each shape: every length with some numbers of rows, every number with some."""
    shapes = [(ROWS[n % len(ROWS)], columns) for n, columns in enumerate(COLUMNS)]
    shapes += [(ROWS[(n + 3) % len(ROWS)], columns) for n, columns in enumerate(COLUMNS)]
    shapes += [(66, 1 << 22)]  # half as many rows as an H200 has multiprocessors
    across = [(64, 1024), (4096, 64), (4096, 1027), (32768, 768), (1 << 18, 32), (1 << 20, 1)]
    for graphs, sizes in ((GRAPHS, shapes), (ACROSS, across)):
        for graph in graphs:
            for rows, columns in sizes:
                if rows * columns > 1 << 31:
                    continue
                for dtype, device in (
                    ("float32", "H200"),
                    ("bfloat16", "H200"),
                    ("float16", "A100"),
                ):
                    tensors = graph(rows, columns, dtype)
                    found = described(tensors, device)
                    yield f"{graph.__name__} {rows}x{columns} {dtype} {device}: {found}"


def described(tensors: tuple[te.Tensor, ...], device: str) -> str:
    """What is chosen, in one line."""
    programs = read_programs(te.create_prim_func(list(tensors)))
    schedule = programs if isinstance(programs, Refused) else choose(programs, DEVICES[device])
    if isinstance(schedule, Refused):
        return schedule.reason
    parts = " | ".join(map(of_mapping, schedule.parts))
    return f"{of_whole(schedule)}{parts}"


def of_whole(schedule: Schedule) -> str:
    return (
        f"{schedule.blocks} blocks, {schedule.min_blocks_per_sm} resident: "
        if schedule.blocks
        else ""
    )


def of_mapping(mapping: Mapping) -> str:
    """Everything that is not as usual."""
    shown = [f"{mapping.threads} threads", f"{mapping.rows} rows", f"{mapping.vector} wide"]
    shown = [mapping.scheme, *shown, f"{mapping.steps} steps"]
    for name in FIELDS:
        value = getattr(mapping, name)
        if value != getattr(Mapping, name):
            shown.append(name if value is True else f"{name} {value}")
    return ", ".join(shown)


@pytest.mark.slow
def test_what_is_chosen(request):
    text = "".join(f"{line}\n" for line in lines())
    if request.config.getoption("--renew"):
        GOLDEN.write_text(text)
    assert text.splitlines() == GOLDEN.read_text().splitlines()
