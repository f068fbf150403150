"""Records at build time: a fused PrimFunc in, the kernel by its best recorded Schedule out.

A record of the same workload on the same GPU is taken as it is. Without one, the best schedule of
the nearest shape is fitted to this one. A schedule that is not legal, or that the check of the
emitted kernel refuses, is noted and skipped; a kernel without a record is chosen as ever.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.build import is_emitted
from tvm_stitch.kernel.kernel import Kernel
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.products import workload_with
from tvm_stitch.tuning.records import PACKAGE, UNITS, Record, best_first, same_gpu
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.workload import Layout, Workload

ORIGIN_ATTRIBUTE = "tvm_stitch.origin"
# A shape is near if its rows and columns differ by no more than this many doublings altogether.
NEAR = 3.0
# A schedule of another shape must not look worse than the analytic choice by more than this.
TRANSFER_SLACK = 1.05
Database: TypeAlias = "str | os.PathLike[str] | Records"


class RecordWarning(UserWarning):
    """Something of a record store was passed over."""


@dataclass(frozen=True, eq=False)
class Records:
    """What a store holds for one GPU, ready to be applied.

    `notes` collects what was passed over, and why: lines that are no records, records of other
    GPUs, schedules that are not legal. `warn` tells each once.
    """

    device: Device
    records: tuple[Record, ...]
    notes: list[str] = field(default_factory=list)
    told: set[str] = field(default_factory=set)

    @staticmethod
    def open(database: Database, device: Device) -> Records:
        """The records of a store for a device; a Records stays as it is."""
        if isinstance(database, Records):
            return database
        if not isinstance(database, (str, os.PathLike)):
            raise InputError(
                f"database is the path of a record store, not {type(database).__name__}"
            )
        store = Store(database)
        contents = store.existing()
        notes = [f"{store.path}, {problem}" for problem in contents.unreadable]
        fitting, others = [], {}
        for record in contents.records:
            if not same_gpu(record, device.name, device.capability):
                others[f"{record.gpu} (sm_{record.capability})"] = "of another GPU"
            elif record.package != PACKAGE:
                others[f"tvm_stitch {record.package}"] = "of another version"
            else:
                fitting.append(record)
        notes += [f"records {why} are not applied: {name}" for name, why in others.items()]
        return Records(device, tuple(fitting), notes)

    def kernel(
        self, function: tirx.PrimFunc, chosen: Kernel, schemes: tuple[str, ...]
    ) -> tirx.PrimFunc | None:
        """What a fused PrimFunc becomes by the best record of a kernel like the one chosen for it,
        by the first of the candidates that can be emitted; or None where there is none."""
        if chosen.layout is None:  # somebody else chooses
            return None
        workload = workload_with(chosen.layout, function, self.device, chosen.bounds)
        assert not isinstance(workload, Refused), "it has a kernel"
        for layout, origin in self._candidates(workload, schemes):
            kernel = workload.refusal(layout, schemes) or workload.emit(layout)
            if not isinstance(kernel, Refused):
                return kernel.with_attr(ORIGIN_ATTRIBUTE, origin)
            self._note(f"a record of {workload.title} is not applied: {kernel.reason}")
        return None

    def warn(self) -> None:
        """Warn of what was passed over since the last time."""
        for note in self.notes:
            if note not in self.told:
                self.told.add(note)
                warnings.warn(note, RecordWarning, stacklevel=2)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _candidates(self, workload: Workload, schemes: tuple[str, ...]) -> list[tuple[Layout, str]]:
        """Layouts to try, best first, each with a word on where it comes from."""
        own = [record for record in self.records if record.workload == workload.key]
        if any(record.ok for record in own):
            return [(record.schedule, _tuned(record)) for record in best_first(own)]
        return self._transferred(workload, schemes)

    def _transferred(
        self, workload: Workload, schemes: tuple[str, ...]
    ) -> list[tuple[Layout, str]]:
        """The best layout of the nearest tuned shape, fitted to this one."""
        best: dict[str, Record] = {}
        for record in best_first([r for r in self.records if r.family == workload.family]):
            best.setdefault(record.workload, record)
        if not best:
            return []
        near = {record: _distance(record.sizes, workload.sizes) for record in best.values()}
        analytic = workload.choose(schemes)
        if isinstance(analytic, Refused):
            return []
        found = []
        for record in sorted(near, key=lambda record: (near[record], -math.prod(record.sizes))):
            # Where the analytic choice won, it is the better advice for this shape, too.
            if near[record] > NEAR or record.trial == 0:
                break
            layout = workload.refitted(record.schedule)
            if layout is not None and _promises(workload, layout, analytic):
                found.append((layout, f"{_tuned(record)} for {_shown(record.sizes)}"))
        return found


def _promises(workload: Workload, layout: Layout, analytic: Layout) -> bool:
    """Whether the cost model sees no harm in a layout."""
    if workload.refusal(layout) is not None:
        return False
    before, after = workload.predicted_us(analytic), workload.predicted_us(layout)
    return before is None or after is None or after <= before * TRANSFER_SLACK


def origin_of(kernel: tirx.PrimFunc) -> str:
    """Where a kernel's schedule comes from: "chosen", or what its record says."""
    if not is_emitted(kernel):
        return ""
    return str(kernel.attrs.get(ORIGIN_ATTRIBUTE, "chosen"))


def _tuned(record: Record) -> str:
    return "tuned" if record.unit == UNITS[0] else f"tuned by {record.unit}"


def _distance(tuned: tuple[int, ...], sizes: tuple[int, ...]) -> float:
    """Doublings between two shapes; symbolic sizes are as near as any."""
    if len(tuned) != len(sizes):
        return math.inf
    pairs = [(a, b) for a, b in zip(tuned, sizes, strict=True) if a and b]
    return sum(abs(math.log2(a / b)) for a, b in pairs)


def _shown(sizes: tuple[int, ...]) -> str:
    """Rows x columns of the first part."""
    rows, columns = sizes[:2]
    return f"{columns} elements" if rows == 1 else f"{rows} x {columns}"
