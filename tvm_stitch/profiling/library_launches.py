"""Which launches that a source saw are those of NVIDIA's libraries that a report expects.

A library's kernels have names of its own, and there may be several for one call. The order is
known: what runs between two kernels of the module belongs to the calls between them.
In: the Events of a Run, and its report. Out: Events named as the report's entries. Must not guess:
where calls and kernels between two known ones do not match, kernels keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm_stitch.profiling.data import Event
from tvm_stitch.report import Report

_MOVES = ("Memcpy", "Memset")  # what CUPTI calls copies and fills, which are part of a call


def with_library_launches(events: Sequence[Event], report: Report) -> tuple[Event, ...]:
    """The events, those of a library's call as one of the entry's name."""
    kernels = report.kernels
    own = {kernel.name for kernel in kernels if not kernel.by_library}
    if len(own) == len(kernels):
        return tuple(events)
    expected = [kernels[place].name for place in report.flow.launches]
    return tuple(_named(events, expected, own))


def _named(events: Sequence[Event], expected: Sequence[str], own: set[str]) -> Iterator[Event]:
    waiting: list[Event] = []  # since the last kernel of the module
    reached = 0
    for event in events:
        if event.name not in own:
            waiting.append(event)
            continue
        found = next((n for n in range(reached, len(expected)) if expected[n] == event.name), None)
        between = expected[reached:found] if found is not None else []
        yield from _matched(waiting, [name for name in between if name not in own])
        yield event
        waiting = []
        reached = reached if found is None else found + 1
    yield from _matched(waiting, [name for name in expected[reached:] if name not in own])


def _matched(events: Sequence[Event], calls: Sequence[str]) -> list[Event]:
    """The events by the calls that launched them; as they are where that is not certain."""
    if len(calls) == 1 and events:
        return [_together(events, calls[0])]
    kernels = [event for event in events if not event.name.startswith(_MOVES)]
    if not calls or len(kernels) != len(calls):
        return list(events)
    names = iter(calls)
    return [_together([each], next(names)) if each in kernels else each for each in events]


def _together(events: Sequence[Event], name: str) -> Event:
    times = [event.us for event in events if event.us is not None]
    names = dict.fromkeys(event.name for event in events)
    us = sum(times) if times else None
    return replace(events[0], name=name, us=us, library=", ".join(names))
