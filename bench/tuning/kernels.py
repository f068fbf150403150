"""The kernels of the bench's cases as tuning sees them.

In: cases. Out: Kernels, each a Relax module's fused function with its workload, found in several
processes at once: torch.export takes longer than the search of a small kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

KERNELS = "kernels.json"
LONGEST_ERROR = 200


@dataclass(frozen=True)
class Kernel:
    """One kernel of a case, as stored."""

    case: str
    group: str
    key: str  # of the workload, as in the records
    title: str
    space: int
    floor_us: float | None
    function: str  # as tvm.ir.save_json writes it


@dataclass(frozen=True)
class Loaded:
    """A case as a Relax module, or why not."""

    case: str
    module: str
    error: str = ""


def load_cases(names: list[str], small: bool, processes: int) -> Iterator[Loaded]:
    """Cases as they become ready."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        waiting = {pool.submit(_load, name, small): name for name in names}
        for future in as_completed(waiting):
            try:
                yield future.result()
            except Exception as error:  # the process died
                yield Loaded(waiting[future], "", str(error)[:LONGEST_ERROR])
    finally:
        pool.shutdown(cancel_futures=True)


def _load(name: str, small: bool) -> Loaded:
    import torch
    import tvm

    from bench.case import make_inputs
    from bench.cases import find
    from bench.importing import to_relax

    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        workload = find(name).workload(small)
        module = to_relax(workload, make_inputs(workload.arrays, device))
        return Loaded(name, tvm.ir.save_json(module))
    except Exception as error:
        return Loaded(name, "", f"{type(error).__name__}: {error}"[:LONGEST_ERROR])
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def kernels_of(case: str, group: str, module: Any, target: Any) -> list[tuple[Kernel, Any]]:
    """The kernels of a case, each with its workload."""
    import tvm

    from tvm_stitch.kernel.cost import floor_us
    from tvm_stitch.tuning.space import Space
    from tvm_stitch.tuning.workloads import find_workloads

    found = []
    for workload in find_workloads(module, target).workloads:
        space = Space(workload.programs, workload.groups, workload.device)
        kernel = Kernel(
            case,
            group,
            workload.key,
            workload.title,
            space.size,
            floor_us(workload.programs, workload.device),
            tvm.ir.save_json(workload.function),
        )
        found.append((kernel, workload))
    return found


def write(folder: Path, kernels: list[Kernel]) -> None:
    """Keep the kernels beside their records; those of earlier runs stay."""
    known = {(kernel.case, kernel.key): kernel for kernel in [*read(folder), *kernels]}
    path = folder / KERNELS
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps([asdict(kernel) for kernel in known.values()], indent=0))
    partial.replace(path)


def read(folder: Path) -> list[Kernel]:
    """The kernels of earlier runs."""
    path = folder / KERNELS
    return [Kernel(**item) for item in json.loads(path.read_text())] if path.exists() else []
