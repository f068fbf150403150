"""Checks and times products on this machine's GPU, or checks a few without one.

In: Shapes. Out: dictionaries for JSON.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from bench.products import modules
from bench.products.grid import Shape
from tvm_stitch.device import device_of
from tvm_stitch.executable.on_cpu import Runner, array_of
from tvm_stitch.tuning.measuring.gpu import Driver, Stopwatch

LAUNCHES = 15
FLUSHES = 2  # so that the host has queued the launch before the device comes to it
# How far from float64 a result may be, as a share of the largest: sums are in float32, and what is
# stored is rounded to its dtype.
CLOSE = {"float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1e-2}
DRAWN = 1 << 20  # random numbers, which large tensors repeat


def arrays_of(shape: Shape) -> list[np.ndarray]:
    """Random inputs in the dtype of a product; sums are about as large as their terms."""
    random = np.random.default_rng(0)
    dtype = getattr(ml_dtypes, shape.dtype, shape.dtype)
    drawn = random.normal(size=DRAWN) / np.sqrt(np.sqrt(shape.depth))
    # Each tensor begins elsewhere in what was drawn.
    return [
        np.resize(np.roll(drawn, 7919 * number), extents).astype(dtype)
        for number, extents in enumerate(modules.parameters(shape))
    ]


def error_of(shape: Shape, arrays: Sequence[np.ndarray], found: np.ndarray) -> float:
    """The largest error, as a share of the largest result."""
    expected = modules.exact(shape, arrays)
    largest = float(np.abs(expected).max(initial=0)) or 1.0
    return (
        float(np.abs(found.astype(np.float64).reshape(expected.shape) - expected).max()) / largest
    )


def check_on_cpu(shapes: Sequence[Shape], target: tvm.target.Target) -> Iterator[dict[str, Any]]:
    """Products by the library's way, NumPy in its place: that calls are what they should be."""
    mod = modules.scheduled(modules.fused(shapes, target), target, "library")
    modules.executable(mod, target)
    for number, shape in enumerate(shapes):
        arrays = arrays_of(shape)
        found = Runner(_with_main(mod, number), target).run(arrays, 0)[0]
        yield _checked(shape, arrays, found)


def check_on_gpu(shapes: Sequence[Shape], target: tvm.target.Target) -> Iterator[dict[str, Any]]:
    """The same on the GPU."""
    machine = Machine(shapes, target, "library")
    for number, shape in enumerate(shapes):
        arrays = arrays_of(shape)
        try:
            found = array_of_device(machine.call(number, machine.tensors(arrays))())
        except Exception as error:
            yield {"shape": shape.name, "error": None, "ok": False, "said": str(error)[-400:]}
            continue
        yield _checked(shape, arrays, found)


def _checked(shape: Shape, arrays: Sequence[np.ndarray], found: np.ndarray) -> dict[str, Any]:
    if shape.dtype == "bfloat16":
        found = found.view(ml_dtypes.bfloat16)
    error = error_of(shape, arrays, found)
    return {"shape": shape.name, "error": error, "ok": error <= CLOSE[shape.dtype]}


class Machine:
    """The products of a module on the GPU, by one way."""

    def __init__(self, shapes: Sequence[Shape], target: tvm.target.Target, way: str) -> None:
        self.device = tvm.cuda(0)
        started = time.monotonic()
        mod = modules.scheduled(modules.fused(shapes, target), target, way)
        self._machine = relax.VirtualMachine(modules.executable(mod, target), self.device)
        self.seconds = time.monotonic() - started

    def tensors(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Arrays on the GPU."""
        return [tvm.runtime.tensor(array, self.device) for array in arrays]

    def call(self, number: int, tensors: Sequence[Any]) -> Callable[[], Any]:
        """A call of a product."""
        return partial(self._machine[modules.function_name(number)], *tensors)


def array_of_device(tensor: Any) -> np.ndarray:
    """A tensor of the GPU as an array; bfloat16 as its bits."""
    copied = tensor.copyto(tvm.cpu())  # held while its memory is read
    return array_of(copied).copy()


def measure(
    shapes: Sequence[Shape],
    target: tvm.target.Target,
    seconds: float,
    ways: Sequence[str] = tuple(modules.WAYS),
) -> Iterator[dict[str, Any]]:
    """The time of each product by each way, and what the models say."""
    ends = time.monotonic() + seconds
    predicted = modules.predicted(modules.fused(shapes, target), device_of(target))
    machines = {way: Machine(shapes, target, way) for way in ways}
    stopwatch = Stopwatch(tvm.cuda(0), Driver())
    for number, shape in enumerate(shapes):
        if time.monotonic() > ends:
            return
        row: dict[str, Any] = {"shape": shape.name, **asdict(shape)}
        tensors = machines["library"].tensors(arrays_of(shape))
        for way, machine in machines.items():
            try:
                row[f"{way}_us"] = timed_us(
                    machine.call(number, tensors), stopwatch, machine.device
                )
            except Exception as error:
                row[f"{way}_us"], row[f"{way}_said"] = None, str(error)[-400:]
        said = predicted.get(modules.function_name(number))
        yield {**row, "predicted": asdict(said) if said else None}


def timed_us(call: Callable[[], Any], stopwatch: Stopwatch, device: Any) -> float:
    """The median of some launches, the L2 flushed before each."""
    for _ in range(2):
        call()
    device.sync()
    return statistics.median(stopwatch.time(call, FLUSHES) for _ in range(LAUNCHES))


def _with_main(mod: tvm.IRModule, number: int) -> tvm.IRModule:
    """The module with one product as its main."""
    functions = {
        var: function
        for var, function in mod.functions_items()
        if not isinstance(function, relax.Function)
    }
    main = mod[modules.function_name(number)].with_attr("global_symbol", "main")
    return tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): main}, attrs=mod.attrs)
