"""What went wrong in a run: the runtime's records in, hazards with source lines and words out."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tvm_stitch.simt.source import KernelSource

_WRITE, _OTHER_WRITE, _SAME_VALUE, _ATOMIC, _LOCAL_INDEX, _EXITED = 1, 2, 4, 8, 16, 32
_THREAD_BITS = 10
_WAITS = {1: "a warp operation", 2: "__activemask", 3: "a block barrier", 4: "a cluster barrier",
          5: "a grid barrier"}  # fmt: skip


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
    "misaligned access", "divergent barrier", "deadlock", "stack overflow", "fault".
    Lines count from 1 in the CUDA source; 0 is unknown. `thread` is the linear index within
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

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        text = f"{self.kind}{f' in {self.where}' if self.where else ''}: {self.message}{times}"
        for line, source in ((self.line, self.source), (self.other_line, self.other_source)):
            if line:
                text += f"\n    line {line}: {source}"
        return text


@dataclass(frozen=True)
class Place:
    """An array of the kernel, for the words of a report."""

    name: str
    bytes: int
    element_bytes: int
    type: str = ""


@dataclass(frozen=True)
class Layout:
    """What regions the runtime's records refer to, and how to find source lines."""

    source: KernelSource
    library: Path
    arrays: Sequence[Place]
    shared: Sequence[Place]
    block_threads: int

    def place(self, raw: RawHazard) -> Place | None:
        """The array a record points into, if it is known."""
        places = self.arrays if raw.place == 0 else self.shared if raw.place == 1 else ()
        return places[raw.region] if 0 <= raw.region < len(places) else None


def describe(raw: Sequence[RawHazard], layout: Layout, base: int) -> tuple[Hazard, ...]:
    """Hazards for the runtime's records; `base` is where the kernel's object was loaded."""
    addresses = sorted({pc - base - 1 for r in raw for pc in (r.pc, r.other_pc) if pc})
    lines = _Lines(
        dict(zip(addresses, _source_lines(layout.library, addresses), strict=True)), base
    )
    waiting = [r for r in raw if r.kind == 6]
    found = [
        _hazard(r, layout, lines, waiting)
        for r in raw
        if r.kind != 6 and not _same_statement(r, lines)
    ]
    return tuple(_merge(found))


class _Lines:
    """Source lines of program counters; (innermost, outermost) where functions were inlined."""

    def __init__(self, table: dict[int, tuple[int, ...]], base: int) -> None:
        self._table, self._base = table, base

    def chain(self, pc: int) -> tuple[int, ...]:
        return self._table.get(pc - self._base - 1, ()) if pc else ()

    def line(self, pc: int) -> int:
        chain = self.chain(pc)
        return chain[0] if chain else 0


def _same_statement(raw: RawHazard, lines: _Lines) -> bool:
    """Whether a "divergent" barrier is one statement that the compiler copied."""
    if raw.kind != 4 or raw.detail or not raw.other_pc or raw.flags & _EXITED:
        return False
    return lines.chain(raw.pc) == lines.chain(raw.other_pc) != ()


def _merge(found: Iterable[Hazard]) -> list[Hazard]:
    """One hazard for each place of the source, though the compiler may have copied it."""
    merged: dict[tuple[object, ...], Hazard] = {}
    for hazard in found:
        ends = frozenset(((hazard.line, hazard.source), (hazard.other_line, hazard.other_source)))
        key = (hazard.kind, hazard.where, ends)
        if key in merged:
            first = merged[key]
            values = {**first.__dict__, "count": first.count + hazard.count}
            values["benign_same_value"] = first.benign_same_value and hazard.benign_same_value
            merged[key] = Hazard(**values)
        else:
            merged[key] = hazard
    return list(merged.values())


def _hazard(raw: RawHazard, layout: Layout, lines: _Lines, waiting: list[RawHazard]) -> Hazard:
    kind, message = _WORDS[raw.kind](raw, layout, lines, waiting)
    place = layout.place(raw)
    line = lines.line(raw.pc) or (raw.detail if raw.kind in (1, 3) else 0)
    collides = raw.kind in (0, 4) and (raw.other_pc or raw.flags & _EXITED)
    other_line = lines.line(raw.other_pc)
    return Hazard(
        kind,
        place.name if place else "",
        *_split_thread(raw.thread),
        line,
        layout.source.line(line),
        message,
        *(_split_thread(raw.other_thread) if collides else (-1, -1)),
        other_line,
        layout.source.line(other_line),
        raw.kind == 0 and bool(raw.flags & _SAME_VALUE),
        int(raw.count),
    )


def _split_thread(thread: int) -> tuple[int, int]:
    return thread >> _THREAD_BITS, thread & ((1 << _THREAD_BITS) - 1)


def _who(thread: int) -> str:
    block, index = _split_thread(thread)
    return f"thread {index} of block {block}"


def _element(raw: RawHazard, layout: Layout) -> str:
    place = layout.place(raw)
    if place is None:
        return f"address {raw.offset & (1 << 64) - 1:#x}"
    return f"{place.name}[{raw.offset // place.element_bytes}]"


def _race(raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]) -> tuple[str, str]:
    if raw.flags & _EXITED:
        owner = _split_thread(raw.other_thread)[0]
        return "race", (
            f"{_who(raw.thread)} reads shared memory of block {owner}, which may have left by "
            "then; a cluster barrier is needed after the last access"
        )
    verb = "writes" if raw.flags & _WRITE else "reads"
    other = "wrote" if raw.flags & _OTHER_WRITE else "read"
    atomic = "; one of the two is atomic" if raw.flags & _ATOMIC else ""
    same = "; both wrote the same value" if raw.flags & _SAME_VALUE else ""
    return "race", (
        f"{_who(raw.thread)} {verb} {_element(raw, layout)} that {_who(raw.other_thread)} {other}, "
        f"with no barrier between them{atomic}{same}"
    )


def _bounds(raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]) -> tuple[str, str]:
    if raw.flags & _LOCAL_INDEX:
        return "out-of-bounds write" if _assigns(raw, layout, lines) else "out-of-bounds read", (
            f"{_who(raw.thread)} uses index {raw.offset} beyond the declared size of an array"
        )
    verb = "write" if raw.flags & _WRITE else "read"
    place = layout.place(raw)
    size = (
        f", which has {place.bytes // place.element_bytes} elements"
        if place
        else (", which is in no array of this launch")
    )
    return f"out-of-bounds {verb}", (
        f"{_who(raw.thread)} {verb}s {raw.size} bytes at {_element(raw, layout)}{size}"
    )


def _assigns(raw: RawHazard, layout: Layout, lines: _Lines) -> bool:
    """Whether the statement with a bad index stores through it: the index stands left of `=`."""
    text = layout.source.line(lines.line(raw.pc) or raw.detail)
    left, assign, right = text.partition(" = ")
    return bool(assign) and "[" in left and "[" not in right


def _uninitialised(
    raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]
) -> tuple[str, str]:
    return "uninitialised read", (
        f"{_who(raw.thread)} reads {_element(raw, layout)}, which no thread of its block wrote"
    )


def _misaligned(
    raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]
) -> tuple[str, str]:
    place = layout.place(raw)
    where = f"{place.name} + {raw.offset} bytes" if place else f"{raw.offset & (1 << 64) - 1:#x}"
    return "misaligned access", (
        f"{_who(raw.thread)} accesses {where}, which must be a multiple of {raw.size} bytes"
    )


def _divergent(
    raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]
) -> tuple[str, str]:
    if raw.detail == 2 and not raw.flags & _EXITED:
        return "divergent barrier", f"{_who(raw.thread)} is not in the mask it passes"
    if raw.detail == 3 and not raw.flags & _EXITED:
        return "divergent barrier", f"{_who(raw.thread)} arrives twice without waiting"
    if raw.detail == 4 and not raw.flags & _EXITED:
        return "divergent barrier", f"{_who(raw.thread)} waits without having arrived"
    if raw.flags & _EXITED:
        more = f" and {raw.detail - 1} more threads" if raw.detail > 1 else ""
        return "divergent barrier", (
            f"{_who(raw.thread)} waits at a barrier while {_who(raw.other_thread)}{more} "
            "left the kernel"
        )
    return "divergent barrier", (
        f"{_who(raw.thread)} and {_who(raw.other_thread)} meet at different barriers"
    )


def _deadlock(
    raw: RawHazard, layout: Layout, lines: _Lines, waiting: list[RawHazard]
) -> tuple[str, str]:
    if raw.detail == 1:
        return "deadlock", f"{_who(raw.thread)} loops without progress (a wait nobody ends)"
    if raw.detail == 2:
        return "deadlock", (
            f"{_who(raw.thread)} waits for the whole grid in a launch that is not cooperative"
        )
    groups = [
        f"{w.count} thread(s) from {_who(w.thread)} at {_WAITS.get(w.detail, 'a barrier')}"
        + (f" in line {lines.line(w.pc)}" if lines.line(w.pc) else "")
        for w in waiting
    ]
    kinds = {w.detail for w in waiting}
    kind = "divergent barrier" if len(groups) > 1 and kinds <= {1, 3, 4, 5} else "deadlock"
    return kind, "no thread can go on: " + "; ".join(groups)


def _overflow(raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]) -> tuple[str, str]:
    return "stack overflow", (
        f"{_who(raw.thread)} needs more stack than it has; pass a larger stack_bytes"
    )


def _fault(raw: RawHazard, layout: Layout, lines: _Lines, _: list[RawHazard]) -> tuple[str, str]:
    names = {4: "an illegal instruction", 7: "a bus error", 8: "a division by zero",
             11: "an access to unmapped or misaligned memory"}  # fmt: skip
    what = names.get(raw.detail, "a trap")
    return "fault", f"{_who(raw.thread)} met {what}"


_WORDS = {0: _race, 1: _bounds, 2: _uninitialised, 3: _misaligned, 4: _divergent, 5: _deadlock,
          7: _overflow, 8: _fault}  # fmt: skip


@lru_cache(maxsize=256)
def _source_lines_cached(library: str, addresses: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    command = ["addr2line", "-i", "-a", "-e", library, *(hex(a) for a in addresses)]
    try:
        output = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:  # without binutils hazards lack their lines
        return ((),) * len(addresses)
    chains: list[list[int]] = []
    for text in output.splitlines():
        if text.startswith("0x"):
            chains.append([])
        elif os.path.basename(text.split(":")[0]) == "kernel.cu":
            number = text.rsplit(":", 1)[1].split()[0]
            chains[-1].append(int(number) if number.isdigit() else 0)
    return tuple(tuple(chain) for chain in chains)


def _source_lines(library: Path, addresses: list[int]) -> tuple[tuple[int, ...], ...]:
    return _source_lines_cached(str(library), tuple(addresses)) if addresses else ()
