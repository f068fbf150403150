"""How many kernels a workload and its symbolic twins are, and what their reports leave open.

In: a workload at the size that is measured. Out: rows for JSON. The planner is told the sizes, by
Options(extents=...); nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bench import symbolic
from bench.case import Case, Workload
from bench.importing import to_relax_by_shape

STATIC = "static"
TARGET = {"kind": "cuda", "arch": "sm_90a"}


def rows(cases: Iterable[Case], kinds: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A row for each case and kind that there is of it."""
    kinds = tuple(kinds)
    for case in cases:
        for kind in kinds:
            try:
                found = counted(case.workload(), kind)
            except Exception as error:  # of many kinds: exporters' and importers'
                found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
            if found is not None:
                yield {"case": case.name, "kind": kind, **found}


def counted(workload: Workload, kind: str) -> dict[str, Any] | None:
    """The launches of a workload or its twin, and TVM's; None: it has no such twin."""
    import tvm_stitch

    dims = None if kind == STATIC else symbolic.dims_of(workload.arrays, kind)
    if dims is not None and not any(dims):
        return None
    module = to_relax_by_shape(workload, dims)
    sizes = symbolic.sizes_of(module, workload.arrays)
    if dims is not None and not sizes:
        return None
    report = tvm_stitch.explain(module, TARGET, tvm_stitch.Options(extents=sizes))
    return {
        "launches": report.launches,
        "tvm": report.before.launches,
        "symbols": {name: size for name, (size,) in sizes.items()},
        "open": list(left_open(report)),
    }


def left_open(report: Any) -> Iterator[str]:
    """Lines of a report that lack a kernel, a reason, bytes or a time."""
    for kernel in report.kernels:
        if not (kernel.ops and kernel.why and kernel.scheme and kernel.mapping):
            yield f"{kernel.name}: operators, reason, scheme or mapping"
        if "?" in kernel.mapping + kernel.why:
            yield f"{kernel.name}: a question mark"
        if not (kernel.bytes_min > 0 and kernel.floor_us > 0):
            yield f"{kernel.name}: bytes"
        if kernel.formula and not kernel.sizes:
            yield f"{kernel.name}: the sizes that figures are for"
        if kernel.stitched and not (kernel.predicted_us > 0 and kernel.bytes_planned > 0):
            yield f"{kernel.name}: what it is predicted to take"
    yield from (f"{each.op}: why TVM has it" for each in report.fallbacks if not each.reason)
    text = str(report)
    yield from (f"{mark.strip()} in the text" for mark in ("? B", " 0.0 us") if mark in text)
