"""Cases compiled by tvm_stitch in several processes at once, as libraries in a folder.

In: names of cases. Out: a library for each, to be loaded by a process that may lose its GPU context
over it. Knows neither times nor what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tvm_stitch import simt

LONGEST_ERROR = 300


@dataclass(frozen=True)
class Compiled:
    """What became of a case."""

    case: str
    kernels: int = 0  # in the CUDA source
    error: str = ""  # why there is no library


def library(folder: Path, case: str) -> Path:
    """Where the library of a case lies."""
    return folder / f"{case}.so"


def compile_cases(
    names: list[str], small: bool, folder: Path, processes: int
) -> Iterator[Compiled]:
    """Cases as their libraries become ready."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        waiting = {pool.submit(_compile, name, small, folder): name for name in names}
        for future in as_completed(waiting):
            try:
                yield future.result()
            except Exception as error:  # the process died
                yield Compiled(waiting[future], error=str(error)[:LONGEST_ERROR])
    finally:
        pool.shutdown(cancel_futures=True)


def _compile(name: str, small: bool, folder: Path) -> Compiled:
    import tvm_stitch
    from bench.cases import find
    from bench.importing import to_relax_by_shape
    from tvm_stitch.executable.link import to_be_exported
    from tvm_stitch.target import cuda_target

    try:
        module = to_relax_by_shape(find(name).workload(small))
        with to_be_exported():
            executable = tvm_stitch.compile(module, cuda_target("cuda"))
        executable.export_library(str(library(folder, name)))
        return Compiled(name, _kernels(executable.mod))
    except Exception as error:
        return Compiled(name, error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR])


def _kernels(module: Any) -> int:
    """CUDA kernels of a built module and of all that it imports."""
    own = len(simt.kernel_names(module.inspect_source())) if module.kind == "cuda" else 0
    return own + sum(map(_kernels, module.imports))


def load(folder: Path, case: str) -> Callable[..., Any]:
    """The function of a compiled case, every array of it in memory of its own.

    An access past the end of an array then leaves its memory, where a checking tool sees it.
    """
    import tvm
    from tvm import relax

    module = tvm.runtime.load_module(str(library(folder, case)))
    return relax.VirtualMachine(module, tvm.cuda(), memory_cfg="naive")["main"]
