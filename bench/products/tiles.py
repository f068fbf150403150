"""Products by tiles of many sizes: checked and timed on a GPU, and the constants that explain them.

In: Shapes. Out: dictionaries for JSON, and from such, without a GPU, a GroupedTiming.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

import numpy as np
import tvm
from tvm import relax

from bench.calibration.fit import levenberg_marquardt
from bench.products import modules
from bench.products.fit import EVENTS_US, PULL, products, shape_of
from bench.products.grid import Shape
from bench.products.run import CLOSE, array_of_device, arrays_of, error_of, timed_us
from tvm_stitch.device import Device, device_of
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.tensor_core.build import TensorKernel, read_products
from tvm_stitch.kernel.tensor_core.choose import GROUPED, fastest_first
from tvm_stitch.kernel.tensor_core.cost import GROUPED as TIMING
from tvm_stitch.kernel.tensor_core.cost import GroupedTiming, Sized, compared_us
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, tile_reasons
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.measuring.gpu import Driver, Stopwatch

NEAREST, APART = 6, 6  # sizes of a product: those that should be the fastest, and any others


def sizes(product: TensorProduct, device: Device) -> list[Tiles]:
    """What a product is timed by: the fastest by the model, and others that are spread over all."""
    ordered = [
        tiles
        for tiles in fastest_first([product], GROUPED, device)
        if next(tile_reasons(product, tiles, device), None) is None
    ]
    rest = ordered[NEAREST:]
    return ordered[:NEAREST] + rest[:: max(1, -(-len(rest) // APART))]


def by_tiles(
    mod: tvm.IRModule, chosen: Mapping[str, Tiles], target: tvm.target.Target
) -> tvm.IRModule:
    """A fused module whose products have these tiles, by the names of their Relax functions."""
    kernels = {}
    for name, function in modules.functions(mod).items():
        found = read_products(function)
        if name not in chosen or isinstance(found, Refused):
            continue
        kernel = TensorKernel(device_of(target), NO_BOUNDS, found, chosen[name]).emit(function)
        if not isinstance(kernel, Refused):
            kernels[function] = kernel
    functions = {
        var: function if isinstance(function, relax.Function) else kernels.get(function, function)
        for var, function in mod.functions_items()
    }
    return modules.scheduled(tvm.IRModule(functions, attrs=mod.attrs), target, "ours")


def sweep(
    shapes: Sequence[Shape], target: tvm.target.Target, seconds: float
) -> Iterator[dict[str, Any]]:
    """Each product by each of its tiles: its largest error and its time."""
    ends, device, gpu = time.monotonic() + seconds, device_of(target), tvm.cuda(0)
    stopwatch, known = Stopwatch(gpu, Driver()), products(shapes, target)
    tried = [[] if product is None else sizes(product, device) for product in known]
    mod = modules.fused(shapes, target)
    for turn in range(NEAREST + APART):
        chosen = {
            modules.function_name(number): tiles[turn]
            for number, tiles in enumerate(tried)
            if turn < len(tiles)
        }
        built = modules.executable(by_tiles(mod, chosen, target), target)
        machine = relax.VirtualMachine(built, gpu)
        for number, shape in enumerate(shapes):
            name = modules.function_name(number)
            if time.monotonic() > ends:
                return
            if name in chosen:
                yield _row(shape, chosen[name], machine[name], stopwatch, gpu)


def _row(shape: Shape, tiles: Tiles, function: Any, stopwatch: Stopwatch, gpu: Any) -> dict:
    arrays = arrays_of(shape)
    tensors = [tvm.runtime.tensor(array, gpu) for array in arrays]
    found = array_of_device(function(*tensors))
    error = error_of(shape, arrays, found.view(arrays[0].dtype))
    us = timed_us(lambda: function(*tensors), stopwatch, gpu)
    row = {"shape": shape.name, **asdict(shape), "tiles": json.loads(tiles.to_json())}
    return {**row, "tiles_us": us, "error": error, "ok": error <= CLOSE[shape.dtype]}


@dataclass(frozen=True)
class TilesFit:
    """Constants, and how far their predictions are from the measured times."""

    timing: GroupedTiming
    products: int
    typical_error: float  # the median of |log(predicted / measured)|


def fit(rows: Sequence[dict[str, Any]], device: Device, target: tvm.target.Target) -> TilesFit:
    """The constants by which the model comes nearest to measured tiles."""
    timed = [row for row in rows if row.get("tiles_us")]
    shapes = list(dict.fromkeys(map(shape_of, timed)))
    sized = {
        shape: Sized.of([product])
        for shape, product in zip(shapes, products(shapes, target), strict=True)
        if product is not None
    }
    cases = [(sized[shape_of(row)], Tiles.from_json(json.dumps(row["tiles"]))) for row in timed]
    measured = np.log([row["tiles_us"] - EVENTS_US for row in timed])
    first = np.log(astuple(TIMING))

    def errors(logs: np.ndarray) -> np.ndarray:
        timing = _timing(logs)
        predicted = [compared_us(each, tiles, device, timing) for each, tiles in cases]
        return np.log(predicted) - measured

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(logs), PULL * (logs - first)])

    logs = levenberg_marquardt(residuals, first)
    return TilesFit(_timing(logs), len(timed), float(np.median(np.abs(errors(logs)))))


def _timing(logs: np.ndarray) -> GroupedTiming:
    names = [field.name for field in fields(GroupedTiming)]
    return GroupedTiming(**dict(zip(names, map(float, np.exp(logs)), strict=True)))
