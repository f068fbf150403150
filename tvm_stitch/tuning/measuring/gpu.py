"""Runs compiled kernels of one workload on this machine's GPU, times them, compares outputs.

A time is the median of several launches between two CUDA events. Before each, a large buffer is
overwritten: the L2 cache holds nothing of the inputs, and the device is still busy when the launch
is queued, so that the host's share does not count. In: libraries with a function main. Meant for a
process of its own: a kernel that goes astray takes the CUDA context with it.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_stitch.errors import StitchError
from tvm_stitch.stages.stage import dtype_of, element_bytes
from tvm_stitch.tuning.measuring.arrays import disagreement, drawn, numpy_dtype, shape_of

HOW = "CUDA events, L2 flushed, median"
FLUSH_BYTES = 256 << 20
POISON = 0xFF  # every byte: not a number, or -1
LAUNCHES = 15
HEATS = 3  # of a race, each with the arrays elsewhere in memory
ROUNDS = 40  # of a heat: a launch of each kernel, interleaved
SLOW = 3.0  # times the best known: a few launches say enough
FEW_LAUNCHES = 3
# Larger outputs are compared in pieces that lie apart.
COMPARED_BYTES = 16 << 20
PIECE_BYTES = 64 << 10


class Driver:
    """The few functions of the CUDA driver that TVM does not give to Python."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise StitchError(f"the CUDA driver cannot be loaded: {error}") from None

    def call(self, name: str, *arguments: Any) -> None:
        """One driver function; its error as an exception."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise StitchError(f"{name}: {(text.value or b'?').decode()}")

    def event(self) -> ctypes.c_void_p:
        """An event with timing."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def elapsed_us(self, start: ctypes.c_void_p, stop: ctypes.c_void_p) -> float:
        """The time between two events that were recorded."""
        self.call("cuEventSynchronize", stop)
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, stop)
        return milliseconds.value * 1e3


class Stopwatch:
    """Times launches on a device whose L2 cache holds nothing of theirs."""

    def __init__(self, device: Any, driver: Driver) -> None:
        self._driver = driver
        self._flush = tvm.runtime.empty((FLUSH_BYTES,), "uint8", device)
        self._start, self._stop = driver.event(), driver.event()

    def time(self, launch: Callable[[], object], flushes: int = 1) -> float:
        """Microseconds of a launch; more flushes cover more time that the host needs for it."""
        call = self._driver.call
        flush, stream = ctypes.c_uint64(self._flush.data_ptr()), ctypes.c_void_p(None)
        words = ctypes.c_size_t(FLUSH_BYTES // 4)
        for _ in range(flushes):
            call("cuMemsetD32Async", flush, ctypes.c_uint(1), words, stream)
        call("cuEventRecord", self._start, stream)
        launch()
        call("cuEventRecord", self._stop, stream)
        return self._driver.elapsed_us(self._start, self._stop)


class Gpu:
    """The arrays of one workload on the device, and what its default schedule computes."""

    def __init__(self, function: tirx.PrimFunc, outputs: list[int]) -> None:
        self._device = tvm.cuda(0)
        if not self._device.exist:
            raise StitchError("there is no GPU that TVM can use")
        self._driver = Driver()
        self._stopwatch = Stopwatch(self._device, self._driver)
        params = list(function.params)
        self._tensors = [
            tvm.runtime.empty(shape_of(param), dtype_of(param), self._device) for param in params
        ]
        self._sizes = [
            int(np.prod(shape_of(param), dtype="int64")) * element_bytes(param) for param in params
        ]
        self._outputs = outputs
        self._dtypes = [dtype_of(params[number]) for number in outputs]
        for number, param in enumerate(params):
            if number not in outputs:
                self._fill(number, drawn(function, param))
        self._expected: list[np.ndarray] | None = None
        self._found: list[np.ndarray] = []  # by the last run

    def set_reference(self, library: str, workspaces: list[Any]) -> None:
        """What the others are compared with."""
        self._expected = self._run(self._load(library, workspaces))

    def run(self, library: str, workspaces: list[Any], best_us: float | None) -> float:
        """The time of a kernel. What it computes is kept, to be compared."""
        launch = self._load(library, workspaces)
        self._found = self._run(launch)
        times = [self._stopwatch.time(launch) for _ in range(FEW_LAUNCHES)]
        if best_us is None or min(times) < SLOW * best_us:
            times += [self._stopwatch.time(launch) for _ in range(LAUNCHES - FEW_LAUNCHES)]
        return statistics.median(times)

    def compare(self) -> str:
        """Which output of the last run differs from the reference's; empty if none."""
        if self._expected is None:
            return ""
        return disagreement(self._found, self._expected, self._dtypes)

    def race(self, runners: list[tuple[str, list[Any]]]) -> list[float]:
        """Costs of kernels whose launches are interleaved: what disturbs one disturbs all.

        Small differences of two kernels may come from where their arrays happen to lie, and be
        others in the next process: several heats move them about.
        """
        heats = []
        for _ in range(HEATS):
            launches = [self._load(*runner) for runner in runners]
            for launch in launches:
                launch()
            heats.append(interleaved(launches, self._stopwatch.time))
            del launches  # they hold the arrays
            self._move()
        return at_worst(heats)

    def _move(self) -> None:
        """Every array to another place, one by one; where there is no room for it twice, none."""
        for number, old in enumerate(self._tensors):
            try:
                new = tvm.runtime.empty(old.shape, old.dtype, self._device)
            except tvm.error.InternalError:
                return
            places = ctypes.c_uint64(new.data_ptr()), ctypes.c_uint64(old.data_ptr())
            self._driver.call("cuMemcpyDtoD_v2", *places, ctypes.c_size_t(self._sizes[number]))
            self._tensors[number] = new

    def _load(self, library: str, workspaces: list[Any]) -> Callable[[], None]:
        """A launch of the kernel on the arrays of the workload."""
        main = tvm.runtime.load_module(library)["main"]
        extra = [
            tvm.runtime.empty(shape_of(each), dtype_of(each), self._device) for each in workspaces
        ]
        return partial(main, *self._tensors, *extra)

    def _run(self, launch: Callable[[], None]) -> list[np.ndarray]:
        """Outputs of one launch, or pieces of them; what is not written is poisoned."""
        for number in self._outputs:
            pointer = ctypes.c_uint64(self._tensors[number].data_ptr())
            size = ctypes.c_size_t(self._sizes[number])
            self._driver.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(POISON), size)
        launch()
        self._device.sync()
        dtypes = zip(self._outputs, self._dtypes, strict=True)
        return [self._copy_out(number).view(numpy_dtype(dtype)) for number, dtype in dtypes]

    def _fill(self, number: int, values: np.ndarray) -> None:
        """Repeat values from the start of a tensor to its end; the device copies what it has."""
        begin, size = self._tensors[number].data_ptr(), self._sizes[number]
        have = min(values.nbytes, size)
        if have:
            source = ctypes.c_void_p(values.ctypes.data)
            call = self._driver.call
            call("cuMemcpyHtoD_v2", ctypes.c_uint64(begin), source, ctypes.c_size_t(have))
        while 0 < have < size:
            more = ctypes.c_size_t(min(have, size - have))
            ends = ctypes.c_uint64(begin + have), ctypes.c_uint64(begin)
            self._driver.call("cuMemcpyDtoD_v2", *ends, more)
            have += more.value

    def _copy_out(self, number: int) -> np.ndarray:
        """The bytes of an output, or of pieces that lie apart."""
        begin = self._tensors[number].data_ptr()
        found = []
        for start, size in pieces(self._sizes[number]):
            values = np.empty(size, "uint8")
            target, source = ctypes.c_void_p(values.ctypes.data), ctypes.c_uint64(begin + start)
            self._driver.call("cuMemcpyDtoH_v2", target, source, ctypes.c_size_t(size))
            found.append(values)
        return np.concatenate(found) if found else np.empty(0, "uint8")


def middle_mean(times: Sequence[float]) -> float:
    """The mean of the middle half: the clock ticks in steps that a median would keep."""
    ordered = sorted(times)
    quarter = len(ordered) // 4
    return statistics.fmean(ordered[quarter : len(ordered) - quarter])


def interleaved(
    launches: Sequence[Callable[[], object]],
    time: Callable[[Callable[[], object]], float],
    rounds: int = ROUNDS,
) -> list[float]:
    """The time of each of several launches, none of which is always the first of its round."""
    times: list[list[float]] = [[] for _ in launches]
    for number in range(rounds):
        for place in range(len(launches)):
            own = (number + place) % len(launches)
            times[own].append(time(launches[own]))
    return list(map(middle_mean, times))


def at_worst(heats: Sequence[Sequence[float]]) -> list[float]:
    """One cost for each kernel: they stand to the first one's as in the heat that was their worst.

    So what leads by these costs has led in every heat.
    """
    first = statistics.median(heat[0] for heat in heats)
    return [
        first * max(heat[number] / heat[0] for heat in heats) for number in range(len(heats[0]))
    ]


def pieces(size: int) -> list[tuple[int, int]]:
    """Start and size of what is compared of so many bytes: all, or pieces from end to end."""
    if size <= COMPARED_BYTES:
        return [(0, size)] if size else []
    count = COMPARED_BYTES // PIECE_BYTES
    last = size - PIECE_BYTES
    starts = [last * number // (count - 1) // 256 * 256 for number in range(count - 1)]
    return [(start, PIECE_BYTES) for start in [*starts, last]]
