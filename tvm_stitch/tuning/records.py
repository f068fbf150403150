"""One measurement as data: a Record, JSON both ways.

Out and in: one line of a record store. A record names a workload, a GPU and a Layout and says
what was measured. It is data only: reading one checks every field and executes nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tvm_stitch.errors import InputError
from tvm_stitch.json_data import checked, count, parsed
from tvm_stitch.kernel.ir.mapping import RENAMED
from tvm_stitch.tuning.workload import Layout, layout_from

VERSION = 1
# Records of these versions of tvm_stitch are used: with the minor version the emitter changes, and
# with it what a schedule costs.
PACKAGE = "0.1"
# What a cost counts. Microseconds rank before the CPU executor's accesses to memory.
UNITS = ("us", "accesses")
# The analytic choice is kept unless another is faster by more than clocks and chance make of it.
MARGIN = 0.995
MAX_LINE = 1 << 20  # bytes: a longer line is no record


@dataclass(frozen=True)
class Record:
    """One measured (or failed) schedule of one workload on one GPU."""

    workload: str  # structural hash of the Programs with shapes and dtypes
    family: str  # the same without sizes
    sizes: tuple[int, ...]  # rows and columns of every part; 0 where symbolic
    title: str  # the workload for people
    gpu: str
    capability: int  # 90 for compute capability 9.0
    package: str  # versions of tvm_stitch that emit the same kernels, such as "0.1"
    schedule: Layout
    cost: float | None  # None where the schedule failed
    unit: str  # what the cost counts
    how: str  # how it was measured, for people
    date: str  # ISO 8601, UTC
    seed: int  # of the search
    trial: int  # 0 is the analytic choice
    final: bool = False  # measured again, side by side with the other best ones
    error: str = ""  # why there is no cost
    features: tuple[tuple[str, float], ...] = ()  # what models learn from, by name

    def to_line(self) -> str:
        """The record as one line of JSON."""
        schedule = json.loads(self.schedule.to_json())
        features = dict(self.features)
        data = {"version": VERSION, **asdict(self), "schedule": schedule, "features": features}
        return json.dumps(data, sort_keys=True, allow_nan=False)

    @property
    def ok(self) -> bool:
        """Whether the schedule ran and was right."""
        return self.cost is not None


def read_record(line: bytes) -> Record:
    """What to_line wrote; InputError says what is wrong with anything else."""
    if len(line) > MAX_LINE:
        raise InputError(f"a line of {len(line)} bytes")
    try:
        data = parsed(line, "a record")
    except InputError:
        raise InputError("not JSON, or cut off") from None
    if not isinstance(data, dict):
        raise InputError("not a JSON object")
    version = data.pop("version", None)
    if version != VERSION or type(version) is not int:
        newer = type(version) is int and version > VERSION
        hint = "; a newer tvm_stitch wrote it" if newer else ""
        raise InputError(f"record version {version!r}, this tvm_stitch reads {VERSION}{hint}")
    return _record(data)


def _record(data: dict[str, Any]) -> Record:
    found = checked(Record, data, "record", _READERS)
    if found.unit not in UNITS:
        raise InputError(f"record field unit is {found.unit!r}, not one of {', '.join(UNITS)}")
    if (found.cost is None) != bool(found.error):
        raise InputError("a record has either a cost or an error")
    try:
        datetime.fromisoformat(found.date)
    except ValueError:
        raise InputError(f"record field date is {found.date!r}, not an ISO 8601 date") from None
    return found


def _sizes(value: Any) -> tuple[int, ...]:
    found = tuple(map(count, value))
    if any(size >= 1 << 62 for size in found):
        raise ValueError("a size beyond all memory")
    return found


def _cost(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value!r} is no cost")
    return float(value)


def _features(value: Any) -> tuple[tuple[str, float], ...]:
    is_named = isinstance(value, dict)
    if not is_named or not all(
        type(v) in (int, float) and math.isfinite(v) for v in value.values()
    ):
        raise ValueError("not numbers by name")
    return tuple(sorted((RENAMED.get(name, name), number) for name, number in value.items()))


_READERS = {
    "schedule": lambda value: layout_from(json.dumps(value)),
    "cost": _cost,
    "sizes": _sizes,
    "features": _features,
}


def best_first(records: list[Record]) -> list[Record]:
    """Measured ones, times before counts, those measured side by side before others, by cost.

    The analytic choice stands before what beats it by less than the margin.
    """
    return sorted(
        (record for record in records if record.cost is not None),
        key=lambda r: (UNITS.index(r.unit), not r.final, handicapped(r.cost or 0.0, r.trial)),
    )


def handicapped(cost: float, trial: int) -> float:
    """A cost for comparing, which favours the analytic choice by the margin."""
    return cost * MARGIN if trial == 0 else cost


def same_gpu(record: Record, gpu: str, capability: int) -> bool:
    """Whether a record was measured on the GPU that is built for.

    Where that is not this machine's, it goes by its short name: H200 for NVIDIA H200.
    """
    names = (record.gpu, record.gpu.removeprefix("NVIDIA "))
    return record.capability == capability and gpu in names
