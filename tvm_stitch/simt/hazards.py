"""What went wrong in a run: the runtime's records in, hazards with source lines and words out."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path

from tvm_stitch.simt.lines import SourceLines
from tvm_stitch.simt.source import KernelSource

_THREAD_BITS = 10  # a thread's number is block << 10 | thread within the block


class _Kind(IntEnum):
    """`simt_hazard_kind` of runtime/abi.h."""

    RACE = 0
    OUT_OF_BOUNDS = 1
    UNINITIALISED = 2
    MISALIGNED = 3
    DIVERGENT = 4
    DEADLOCK = 5
    WAITING = 6
    STACK_OVERFLOW = 7
    SIGNAL = 8


class _Flag(IntFlag):
    """`simt_flags` of runtime/abi.h."""

    WRITE = 1
    OTHER_WRITE = 2
    SAME_VALUE = 4
    ATOMIC = 8
    LOCAL_INDEX = 16
    EXITED = 32


class RawHazard(ctypes.Structure):
    """`simt_hazard` of runtime/abi.h."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("place", ctypes.c_uint32),
        ("region", ctypes.c_int32),
        ("thread", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
        ("pc", ctypes.c_uint64),
        ("other_pc", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("size", ctypes.c_uint32),
        ("detail", ctypes.c_uint32),
        ("count", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Hazard:
    """One defect of a kernel, at one place (or pair of places) of its source.

    `kind` is one of "race", "out-of-bounds read", "out-of-bounds write", "uninitialised read",
    "misaligned access", "divergent barrier", "deadlock", "stack overflow", "fault", "refused
    launch".
    Lines count from 1 in the CUDA source; 0 is unknown. `called_from` is the kernel's line when
    `line` lies in a function that was inlined into it, else 0. `thread` is the linear index within
    `block`, which is the linear index within the grid; `count` is how often it was seen.
    """

    kind: str
    where: str
    block: int
    thread: int
    line: int
    source: str
    message: str
    other_block: int = -1
    other_thread: int = -1
    other_line: int = 0
    other_source: str = ""
    benign_same_value: bool = False
    count: int = 1
    called_from: int = 0
    other_called_from: int = 0
    kernel: str = ""  # where there are several, as in a module

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        place = f" in {self.where}" if self.where else ""
        kernel = f" of {self.kernel}" if self.kernel else ""
        text = f"{self.kind}{place}{kernel}: {self.message}{times}"
        return text + "".join(
            f"\n    line {line}{f', called from line {caller}' if caller else ''}: {source}"
            for line, caller, source in (
                (self.line, self.called_from, self.source),
                (self.other_line, self.other_called_from, self.other_source),
            )
            if line
        )


@dataclass(frozen=True)
class Place:
    """An array of the kernel, for the words of a report."""

    name: str
    bytes: int
    element_bytes: int


@dataclass(frozen=True)
class Layout:
    """What regions the runtime's records refer to, and where the kernel's object lies."""

    source: KernelSource
    library: Path
    base: int
    arrays: Sequence[Place]
    shared: Sequence[Place]


@dataclass(frozen=True)
class _Report:
    """One record with all that its words need."""

    raw: RawHazard
    layout: Layout
    lines: SourceLines
    waiting: Sequence[RawHazard]  # of a deadlock: who waits, and where

    @property
    def flags(self) -> _Flag:
        return _Flag(self.raw.flags)

    @property
    def place(self) -> Place | None:
        places = (self.layout.arrays, self.layout.shared, ())[self.raw.place]
        return places[self.raw.region] if 0 <= self.raw.region < len(places) else None

    @property
    def line(self) -> int:
        # The checks of indices and alignment bring their own line, should the other be missing.
        brings_line = self.raw.kind in (_Kind.OUT_OF_BOUNDS, _Kind.MISALIGNED)
        return self.lines.line(self.raw.pc) or (self.raw.detail if brings_line else 0)

    @property
    def who(self) -> str:
        return _name(self.raw.thread)

    @property
    def other(self) -> str:
        return _name(self.raw.other_thread)

    @property
    def element(self) -> str:
        if self.place is None:
            return f"address {self.raw.offset & (1 << 64) - 1:#x}"
        return f"{self.place.name}[{self.raw.offset // self.place.element_bytes}]"


def describe(raw: Sequence[RawHazard], layout: Layout) -> tuple[Hazard, ...]:
    """Hazards, in the order they were met, for the runtime's records."""
    counters = [pc for r in raw for pc in (r.pc, r.other_pc)]
    lines = SourceLines(layout.library, layout.base, counters)
    waiting = [r for r in raw if r.kind == _Kind.WAITING]
    reports = [_Report(r, layout, lines, waiting) for r in raw if r.kind != _Kind.WAITING]
    return tuple(_merge(_hazard(r) for r in reports if not _one_statement(r)))


def _one_statement(report: _Report) -> bool:
    """Whether two "different" barriers are one statement that the compiler copied."""
    raw, lines = report.raw, report.lines
    if raw.kind != _Kind.DIVERGENT or raw.detail or report.flags & _Flag.EXITED:
        return False
    return lines.chain(raw.pc) == lines.chain(raw.other_pc) != ()


def _merge(found: Iterable[Hazard]) -> list[Hazard]:
    """One hazard for each place of the source, though the compiler may have copied it."""
    merged: dict[tuple[object, ...], Hazard] = {}
    for hazard in found:
        ends = frozenset(((hazard.line, hazard.source), (hazard.other_line, hazard.other_source)))
        key = (hazard.kind, hazard.where, ends)
        first = merged.get(key)
        merged[key] = hazard if first is None else dataclasses.replace(
            first,
            count=first.count + hazard.count,
            benign_same_value=first.benign_same_value and hazard.benign_same_value,
        )  # fmt: skip
    return list(merged.values())


def _hazard(report: _Report) -> Hazard:
    raw, source = report.raw, report.layout.source
    kind, message = _WORDS[_Kind(raw.kind)](report)
    collides = raw.kind == _Kind.RACE or (
        raw.kind == _Kind.DIVERGENT and bool(raw.other_pc or report.flags & _Flag.EXITED)
    )
    block, thread = _split(raw.thread)
    other_block, other_thread = _split(raw.other_thread) if collides else (-1, -1)
    other_line = report.lines.line(raw.other_pc)
    return Hazard(
        kind=kind,
        where=report.place.name if report.place and raw.kind <= _Kind.MISALIGNED else "",
        block=block,
        thread=thread,
        line=report.line,
        source=source.line(report.line),
        message=message,
        other_block=other_block,
        other_thread=other_thread,
        other_line=other_line,
        other_source=source.line(other_line),
        benign_same_value=raw.kind == _Kind.RACE and bool(report.flags & _Flag.SAME_VALUE),
        count=int(raw.count),
        called_from=report.lines.caller(raw.pc),
        other_called_from=report.lines.caller(raw.other_pc),
    )


def _split(thread: int) -> tuple[int, int]:
    return thread >> _THREAD_BITS, thread & ((1 << _THREAD_BITS) - 1)


def _name(thread: int) -> str:
    block, index = _split(thread)
    return f"thread {index} of block {block}"


def _race(report: _Report) -> tuple[str, str]:
    flags = report.flags
    if flags & _Flag.EXITED:
        owner = _split(report.raw.other_thread)[0]
        return "race", (
            f"{report.who} accesses shared memory of block {owner}, which may have left by then; "
            "a cluster barrier is needed after the last access"
        )
    verb = "writes" if flags & _Flag.WRITE else "reads"
    other = "wrote" if flags & _Flag.OTHER_WRITE else "read"
    atomic = "; one of the two is atomic" if flags & _Flag.ATOMIC else ""
    same = "; both wrote the same value" if flags & _Flag.SAME_VALUE else ""
    return "race", (
        f"{report.who} {verb} {report.element} that {report.other} {other}, "
        f"with no barrier between them{atomic}{same}"
    )


def _bounds(report: _Report) -> tuple[str, str]:
    raw, place = report.raw, report.place
    if report.flags & _Flag.LOCAL_INDEX:
        verb = "write" if _stores_through_index(report) else "read"
        return f"out-of-bounds {verb}", (
            f"{report.who} uses index {raw.offset} beyond the declared size of an array"
        )
    verb = "write" if report.flags & _Flag.WRITE else "read"
    extent = ", which is in no array of this launch"
    if place is not None:
        extent = f", which has {place.bytes // place.element_bytes} elements"
    return f"out-of-bounds {verb}", (
        f"{report.who} {verb}s {raw.size} bytes at {report.element}{extent}"
    )


def _stores_through_index(report: _Report) -> bool:
    """Whether the statement with a bad index assigns to it: brackets stand left of `=` only."""
    left, assignment, right = report.layout.source.line(report.line).partition(" = ")
    return bool(assignment) and "[" in left and "[" not in right


def _uninitialised(report: _Report) -> tuple[str, str]:
    return "uninitialised read", (
        f"{report.who} reads {report.element}, which no thread of its block wrote"
    )


def _misaligned(report: _Report) -> tuple[str, str]:
    raw, place = report.raw, report.place
    where = f"{place.name} + {raw.offset} bytes" if place else report.element
    return "misaligned access", (
        f"{report.who} accesses {where}, which must be a multiple of {raw.size} bytes"
    )


def _divergent(report: _Report) -> tuple[str, str]:
    detail = report.raw.detail
    if report.flags & _Flag.EXITED:
        more = f" and {detail - 1} more threads" if detail > 1 else ""
        message = f"{report.who} waits at a barrier while {report.other}{more} left the kernel"
    elif detail == 2:
        message = f"{report.who} is not in the mask it passes"
    elif detail == 3:
        message = f"{report.who} arrives twice at a cluster barrier without waiting"
    elif detail == 4:
        message = f"{report.who} waits at a cluster barrier without having arrived"
    elif detail == 5:
        message = f"{report.who} is in a warp of fewer than 32 threads, all of which have to come"
    else:
        message = f"{report.who} and {report.other} meet at different barriers"
    return "divergent barrier", message


_WAITS = {1: "a warp operation", 2: "__activemask", 3: "a block barrier", 4: "a cluster barrier",
          5: "a grid barrier"}  # fmt: skip


def _deadlock(report: _Report) -> tuple[str, str]:
    if report.raw.detail == 1:
        return "deadlock", f"{report.who} loops without progress (a wait nobody ends)"
    if report.raw.detail == 2:
        return "deadlock", (
            f"{report.who} waits for the whole grid in a launch that is not cooperative"
        )
    groups = []
    for waiting in report.waiting:
        line = report.lines.line(waiting.pc)
        groups.append(
            f"{waiting.count} thread(s) from {_name(waiting.thread)} at {_WAITS[waiting.detail]}"
            + (f" in line {line}" if line else "")
        )
    kind = "divergent barrier" if len(groups) > 1 else "deadlock"
    return kind, "no thread can go on: " + "; ".join(groups)


def _overflow(report: _Report) -> tuple[str, str]:
    return "stack overflow", (
        f"{report.who} needs more stack than it has; pass a larger stack_bytes"
    )


_SIGNALS = {4: "an illegal instruction", 7: "a bus error", 8: "a division by zero",
            11: "an access to unmapped or misaligned memory"}  # fmt: skip


def _fault(report: _Report) -> tuple[str, str]:
    return "fault", f"{report.who} met {_SIGNALS.get(report.raw.detail, 'a trap')}"


_WORDS: dict[_Kind, Callable[[_Report], tuple[str, str]]] = {
    _Kind.RACE: _race,
    _Kind.OUT_OF_BOUNDS: _bounds,
    _Kind.UNINITIALISED: _uninitialised,
    _Kind.MISALIGNED: _misaligned,
    _Kind.DIVERGENT: _divergent,
    _Kind.DEADLOCK: _deadlock,
    _Kind.STACK_OVERFLOW: _overflow,
    _Kind.SIGNAL: _fault,
}
