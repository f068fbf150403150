"""Runs of a model joined with its report.

In: the Runs that a source took. Out: a Profile. Must not know how anything is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tvm_stitch.profiling.data import Event, MeasuredKernel, Run
from tvm_stitch.profiling.result import Profile
from tvm_stitch.report import Report


def joined(
    runs: Sequence[Run],
    how: str,
    device: str,
    report: Report | None = None,
    not_run: tuple[str, ...] = (),
) -> Profile:
    """The profile: times are medians, launches those of the run of median length."""
    middle = sorted(runs, key=_busy_us)[len(runs) // 2]
    is_timed = all(event.us is not None for run in runs for event in run.events)
    hosts = [run.host_us for run in runs if run.host_us is not None]
    return Profile(
        how=how,
        device=device,
        calls=len(runs),
        kernels=_kernels(runs, middle, report),
        launches=middle.events,
        total_us=_busy_us(middle) if is_timed and middle.events else None,
        gaps_us=_gaps_us(middle) if is_timed and middle.events else None,
        host_us=statistics.median(hosts) if hosts else None,
        not_run=not_run,
        report=report,
    )


def _kernels(runs: Sequence[Run], middle: Run, report: Report | None) -> tuple[MeasuredKernel, ...]:
    """The kernels of the median run; those of the report that it did not launch come last."""
    known = {kernel.name: kernel for kernel in report.kernels} if report else {}
    names = dict.fromkeys([*(event.name for event in middle.events), *known])
    found = []
    for name in names:
        own = [event for event in middle.events if event.name == name]
        us = _median(event.us for run in runs for event in run.events if event.name == name)
        times = [event.us for event in own if event.us is not None]
        kernel = known.get(name)
        found.append(
            MeasuredKernel(
                name=name,
                launches=len(own),
                measured_us=us,
                total_us=sum(times) if times else None,
                predicted_us=kernel.predicted_us if kernel else None,
                floor_us=kernel.floor_us if kernel else None,
                bytes_min=kernel.bytes_min if kernel else None,
                scheme=kernel.scheme if kernel else "",
                accesses=own[0].accesses if own else None,
                switches=own[0].switches if own else None,
            )
        )
    return tuple(sorted(found, key=_cost, reverse=True))


def _cost(kernel: MeasuredKernel) -> float:
    """What a kernel comes to in a call, by the best that is known."""
    return kernel.total_us or kernel.launches * (kernel.predicted_us or kernel.floor_us or 0.0)


def _median(times: Iterable[float | None]) -> float | None:
    known = [us for us in times if us is not None]
    return statistics.median(known) if known else None


def _busy_us(run: Run) -> float:
    return sum(event.us or 0.0 for event in run.events)


def _gaps_us(run: Run) -> float:
    """The time in which nothing ran, between the first launch and the last."""
    gaps, busy_until = 0.0, 0.0
    for event in sorted(run.events, key=_start):
        gaps += max(0.0, event.start_us - busy_until)
        busy_until = max(busy_until, event.start_us + (event.us or 0.0))
    return gaps


def _start(event: Event) -> float:
    return event.start_us
