"""Kernels timed by CUDA events around the virtual machine's calls, where there is no CUPTI.

In: a call of the model. Out: a Run with an event for every PrimFunc called; one that launches
several kernels is one. A launch that the host is late with counts as part of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tvm_stitch.profiling.data import Event, Run


class Clock(Protocol):
    """Marks in the device's stream."""

    def mark(self) -> Any:
        """A mark behind everything that was launched so far."""

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """The device's time between two marks, once it has come to both."""

    def release(self, mark: Any) -> None:
        """A mark that is not needed any more."""


class DriverClock:
    """CUDA's events in the default stream, on which TVM launches."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def mark(self) -> Any:
        """An event, recorded."""
        event = self._driver.event()
        self._driver.call("cuEventRecord", event, None)
        return event

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """As the driver measures it."""
        return float(self._driver.elapsed_us(start, stop))

    def release(self, mark: Any) -> None:
        """Give the event back to the driver."""
        self._driver.call("cuEventDestroy_v2", mark)


class VmEvents:
    """An instrument of a virtual machine that marks the stream before and after each call."""

    how = "CUDA events"

    def __init__(self, machine: Any, clock: Clock) -> None:
        self._clock = clock
        self._marks: list[tuple[str, Any, Any]] = []
        self._before: Any = None
        machine.set_instrument(self._instrument)

    def run(self, call: Callable[[], object]) -> Run:
        """Call once, and read the marks."""
        self._marks = []
        call()
        return Run(self._events())  # waits for the device

    def _instrument(self, _function: Any, name: str, before: bool, *_values: Any) -> int:
        """Packed functions of the virtual machine itself launch nothing."""
        if not name.startswith("vm."):
            if before:
                self._before = self._clock.mark()
            else:
                self._marks.append((name, self._before, self._clock.mark()))
        return 0

    def _events(self) -> tuple[Event, ...]:
        elapsed = self._clock.elapsed_us
        first = self._marks[0][1] if self._marks else None
        events = tuple(
            Event(f"{name}_kernel", elapsed(first, start), elapsed(start, stop))
            for name, start, stop in self._marks
        )
        for _, start, stop in self._marks:
            self._clock.release(start)
            self._clock.release(stop)
        return events
