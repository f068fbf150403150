"""Runs of a model joined with its report.

In: the Runs that a source took. Out: a Profile. Must not know how anything is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tvm_stitch.profiling.data import Event, MeasuredKernel, Run
from tvm_stitch.profiling.library_launches import with_library_launches
from tvm_stitch.profiling.result import Profile
from tvm_stitch.report import Kernel, Report


def joined(
    runs: Sequence[Run],
    how: str,
    device: str,
    report: Report | None = None,
    not_run: tuple[str, ...] = (),
    host_us: float | None = None,
) -> Profile:
    """The profile: times are medians, launches those of the run of median length."""
    if report is not None:
        runs = [Run(with_library_launches(run.events, report)) for run in runs]
    middle = sorted(runs, key=_busy_us)[len(runs) // 2]
    is_timed = all(event.us is not None for run in runs for event in run.events)
    return Profile(
        how=how,
        device=device,
        calls=len(runs),
        kernels=_kernels(runs, middle, report),
        launches=middle.events,
        total_us=_busy_us(middle) if is_timed and middle.events else None,
        gaps_us=_gaps_us(middle) if is_timed and middle.events else None,
        host_us=host_us,
        not_run=not_run,
        report=report,
    )


def _kernels(runs: Sequence[Run], middle: Run, report: Report | None) -> tuple[MeasuredKernel, ...]:
    """The kernels of the median run; those of the report that it did not launch come last."""
    known = {kernel.name: kernel for kernel in report.kernels} if report else {}
    launched = _by_name(middle.events)
    all_launches = _by_name(event for run in runs for event in run.events)
    found = [
        _kernel(name, launched.get(name, []), all_launches.get(name, []), known.get(name))
        for name in dict.fromkeys([*launched, *known])
    ]
    return tuple(sorted(found, key=_cost, reverse=True))


def _kernel(
    name: str, launched: Sequence[Event], all_launches: Sequence[Event], expected: Kernel | None
) -> MeasuredKernel:
    """One kernel, by its launches in the median run and in all of them."""
    times = [event.us for event in launched if event.us is not None]
    all_times = [event.us for event in all_launches if event.us is not None]
    return MeasuredKernel(
        name=name,
        launches=len(launched),
        measured_us=statistics.median(all_times) if all_times else None,
        total_us=sum(times) if times else None,
        predicted_us=expected.predicted_us if expected else None,
        floor_us=expected.floor_us if expected else None,
        bytes_min=expected.bytes_min if expected else None,
        scheme=expected.scheme if expected else "",
        accesses=launched[0].accesses if launched else None,
        switches=launched[0].switches if launched else None,
        library=launched[0].library if launched else "",
        global_bytes=launched[0].global_bytes if launched else None,
        barriers=launched[0].barriers if launched else None,
        operations=expected.operations if expected else None,
    )


def _by_name(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.name, []).append(event)
    return found


def _cost(kernel: MeasuredKernel) -> float:
    """What a kernel comes to in a call, by the best that is known."""
    return kernel.total_us or kernel.launches * (kernel.predicted_us or kernel.floor_us or 0.0)


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
