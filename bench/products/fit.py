"""The library's constants from measured products: least squares on the logarithm of the time.

In: rows of a run. Out: LibraryTimings, as kernel/library_product/cost.py writes them. Needs no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from bench.calibration.fit import levenberg_marquardt
from bench.products import modules
from bench.products.grid import Shape
from tvm_stitch.device import Device
from tvm_stitch.kernel.library_product.build import MULTIPLIED
from tvm_stitch.kernel.library_product.cost import (
    HALVES,
    SINGLES,
    LibraryTile,
    LibraryTiming,
    library_us,
)
from tvm_stitch.kernel.tensor_core.program import TensorProduct, tensor_product
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused

PULL = 0.1  # constants that the products say little about stay near where they started
# What two events measure beside a kernel: by so much this package's kernels take longer than is
# predicted where they move next to nothing.
EVENTS_US = 1.5
OTHERS = ("start_us", "division_us", "bandwidth_share", "unaligned")


@dataclass(frozen=True)
class Fit:
    """Constants, and how far their predictions are from the measured times."""

    dtype: str
    timing: LibraryTiming
    products: int
    typical_error: float  # the median of |log(predicted / measured)|


def fit(rows: Sequence[dict[str, Any]], device: Device, target: tvm.target.Target) -> list[Fit]:
    """The constants of halves and of float32."""
    timed = [row for row in rows if row.get("library_us")]
    found = []
    for title, start, dtypes in (
        ("halves", HALVES, ("float16", "bfloat16")),
        ("float32", SINGLES, ("float32",)),
    ):
        own = [row for row in timed if row["dtype"] in dtypes]
        if own:
            found.append(_fitted(title, start, own, device, target))
    return found


def _fitted(
    title: str,
    start: LibraryTiming,
    rows: Sequence[dict[str, Any]],
    device: Device,
    target: tvm.target.Target,
) -> Fit:
    found = products([shape_of(row) for row in rows], target)
    known = [
        (p, row["library_us"] - EVENTS_US)
        for p, row in zip(found, rows, strict=True)
        if p is not None
    ]
    target_logs = np.log([us for _, us in known])
    first = np.log(_values(start))

    def errors(logs: np.ndarray) -> np.ndarray:
        timing = _timing(start, np.exp(logs))
        predicted = [library_us(product, device, timing) for product, _ in known]
        return np.log(predicted) - target_logs

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(logs), PULL * (logs - first)])

    logs = levenberg_marquardt(residuals, first)
    typical = float(np.median(np.abs(errors(logs))))
    return Fit(title, _timing(start, np.exp(logs)), len(known), typical)


def shape_of(row: dict[str, Any]) -> Shape:
    """The shape of a row."""
    return Shape(**{name: row[name] for name in Shape.__dataclass_fields__})


def products(shapes: Sequence[Shape], target: tvm.target.Target) -> list[TensorProduct | None]:
    """The products of shapes as the cost model takes them."""
    functions = modules.functions(modules.fused(shapes, target))
    found: list[TensorProduct | None] = []
    for number in range(len(shapes)):
        function = functions.get(modules.function_name(number))
        stages = Refused("") if function is None else read_stages(function)
        if function is None or isinstance(stages, Refused):
            found.append(None)
            continue
        product = tensor_product(stages, outputs_of(function, stages), MULTIPLIED, fewest_rows=1)
        found.append(None if isinstance(product, Refused) else product)
    return found


def _values(timing: LibraryTiming) -> list[float]:
    of_tiles = [value for tile in timing.tiles for value in (tile.rate, tile.besides)]
    return [*of_tiles, *(getattr(timing, name) for name in OTHERS)]


def _timing(start: LibraryTiming, values: Sequence[float]) -> LibraryTiming:
    numbers = [float(value) for value in values]
    tiles = tuple(
        LibraryTile(tile.rows, tile.columns, numbers[2 * place], numbers[2 * place + 1])
        for place, tile in enumerate(start.tiles)
    )
    others: dict[str, Any] = dict(zip(OTHERS, numbers[2 * len(tiles) :], strict=True))
    return replace(start, tiles=tiles, **others)
