"""Symbolic twins on the CPU executor: at one element, at odd sizes, and around every limit.

In: a small workload and the sizes it is planned for. Out: rows for JSON: for each set of sizes
whether the results are right, in two orders of threads, against float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench import symbolic
from bench.case import Case, Workload
from bench.importing import to_relax_by_shape
from bench.twins.count import TARGET

ODD = ((3, 7, 5, 9), (5, 11, 3, 7), (33, 2, 9, 5))
STATED = 6  # of which there are kernels as well: what a workload has is too much for the executor
MOST_ELEMENTS = 1 << 21  # of all inputs: the executor goes through every thread
Sizes = dict[str, int]
Limit = tuple[Any, int]  # an extent, and the largest that a kernel takes


def rows(cases: Iterable[Case], kinds: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows of all twins of small workloads, equal ones once."""
    done = set()
    for kind in kinds:
        for case in cases:
            small, full = case.workload(small=True), case.workload()
            dims = symbolic.dims_of(small.arrays, kind)
            key = case.define.__qualname__, str(case.small), str(dims)
            if not any(dims) or key in done:
                continue
            done.add(key)
            try:
                for row in verified(small, full, kind):
                    yield {"case": case.name, "kind": kind, **row}
            except Exception as error:  # a fault of one twin is what this is to find
                reason = f"{type(error).__name__}: {error}"
                yield {"case": case.name, "kind": kind, "ok": False, "failed": reason}


def verified(workload: Workload, full: Workload, kind: str) -> Iterator[dict[str, Any]]:
    """What a twin, planned for a small size and those of the full workload, gives at some sizes."""
    from tvm_stitch import Options
    from tvm_stitch.reference import random_inputs, reference
    from tvm_stitch.target import full_target
    from tvm_stitch.verify import compare, stitched_for_cpu

    module = to_relax_by_shape(workload, symbolic.dims_of(workload.arrays, kind))
    planned = full if len(full.arrays) == len(workload.arrays) else workload
    sizes = symbolic.sizes_of(module, planned.arrays)
    if not sizes:
        return
    target = full_target(TARGET)
    stated = {name: (STATED, *each) for name, each in sizes.items()}
    with limits() as found:
        stitched = stitched_for_cpu(module, target, Options(extents=stated))
    for each in unlike([dict.fromkeys(sizes, STATED), *sizes_around(tuple(sizes), found)]):
        if _elements(module, each) > MOST_ELEMENTS:
            yield {"sizes": each, "skipped": "larger than the executor has time for"}
            continue
        start = time.process_time()
        arrays = random_inputs(module, 0, each)
        result = compare(module, stitched, target, arrays, reference(module, arrays), orders=2)
        row = {"sizes": each, "ok": result.ok, "seconds": round(time.process_time() - start, 1)}
        yield row if result.ok else {**row, "failed": str(result)}


@contextmanager
def limits() -> Iterator[list[Limit]]:
    """What hosts choose kernels by, of all that is compiled meanwhile."""
    from tvm_stitch.kernel import emit

    found: list[Limit] = []
    own = emit.dispatch

    def dispatch(programs: Any, schedule: Any, longest: Any, launch: Any) -> Any:
        found.extend(limits_of(programs, schedule))
        return own(programs, schedule, longest, launch)

    emit.dispatch = dispatch
    try:
        yield found
    finally:
        emit.dispatch = own


def limits_of(programs: Sequence[Any], schedule: Any) -> Iterator[Limit]:
    """The limits of a schedule and of those for longer or more rows."""
    from tvm_stitch.stages.stage import constant

    while schedule is not None:
        for program, mapping in zip(programs, schedule.parts, strict=True):
            columns = program.space.columns
            if constant(columns) is None and not mapping.any_length:
                yield columns, mapping.capacity
            if schedule.most_rows:
                yield program.space.rows, schedule.most_rows
        schedule = schedule.longer


def sizes_around(names: Sequence[str], found: Iterable[Limit]) -> Iterator[Sizes]:
    """1, odd numbers; for each limit and each of its symbols just below, at it and just beyond."""
    from tvm import tirx

    yield dict.fromkeys(names, 1)
    for odd in ODD:
        yield {name: odd[number % len(odd)] for number, name in enumerate(names)}
    for extent, most in found:
        for symbol in tirx.analysis.undefined_vars(extent):
            ones = dict.fromkeys(names, 1)
            last = _last(extent, ones, symbol.name, most)
            yield from ({**ones, symbol.name: last + more} for more in (-1, 0, 1) if last + more)


def _last(extent: Any, others: Sizes, name: str, most: int) -> int:
    """The largest size of a symbol with which an extent is within a limit; 1 at least."""
    low, high = 1, most + 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = _size(extent, {**others, name: middle}) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def unlike(found: Iterable[Sizes]) -> Iterator[Sizes]:
    """Each of them once."""
    seen: list[Sizes] = []
    for each in found:
        if each not in seen:
            seen.append(each)
            yield each


def _size(extent: Any, sizes: Sizes) -> int:
    from tvm_stitch.stages.extents import Extents

    return Extents(tuple(sorted(sizes.items()))).size(extent)


def _elements(module: Any, sizes: Sizes) -> int:
    """Elements of all inputs."""
    total = 0
    for param in module["main"].params:
        own = 1
        for extent in param.ty.shape:
            own *= _size(extent, sizes)
        total += own
    return total
