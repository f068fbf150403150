"""Kernels and the executor's runtime as loadable objects, compiled by g++ and kept.

Knows nothing of kernels: a translation unit is a text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tvm_stitch.cache.objects import Refusal, built
from tvm_stitch.errors import SimtError

KIND = "executor"
_RUNTIME = Path(__file__).parent / "runtime"
_RUNTIME_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
# Even a kernel that asks the runtime for nothing needs it to be launched.
_LINK_FLAGS = ("-shared", "-Wl,--no-as-needed")
_KERNEL_FLAGS = (
    "-std=c++17", "-pipe", "-O1", "-g1", "-gdwarf-4", "-w", "-fPIC", *_LINK_FLAGS, "-fno-plt",
    "-fvisibility=hidden",
    "-fno-strict-aliasing", "-ffp-contract=off", "-fno-exceptions", "-fwrapv",
    "-fno-tree-sra",  # a vector load stays one access, as on the device
    "-fno-var-tracking", "-fno-var-tracking-assignments",  # most of the time, for nothing we use
)  # fmt: skip
# Characters of a kernel that TVM has unrolled: to optimise it takes longer than to run it as it is.
_LONG = 1 << 15
# The hooks are the runtime's own; libtsan and libubsan are not linked.
_CHECKS = (
    "-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0",
    "--param", "tsan-distinguish-volatile=1",
    "-fsanitize=bounds,alignment",
)  # fmt: skip


@lru_cache(maxsize=1)
def _runtime_text() -> str:
    files = sorted(_RUNTIME.glob("*.h")) + sorted(_RUNTIME.glob("*.cc"))
    return "".join(f"{file.name}\n{file.read_text()}" for file in files)


def build_runtime(ucontext: bool = False) -> Path:
    """The shared object that runs fibers; `ucontext` takes the portable switch everywhere."""
    flags = (*_RUNTIME_FLAGS, "-DSIMT_UCONTEXT") if ucontext else _RUNTIME_FLAGS
    sources = [str(file) for file in sorted(_RUNTIME.glob("*.cc"))]

    def arguments(_scratch: Path, name: str) -> list[str]:
        return [f"-Wl,-soname,{name}", *sources]

    return _build("libsimt-{}.so", _runtime_text(), flags, arguments)


def build_kernel(cpp: str, check: bool = True, ucontext: bool = False) -> Path:
    """The shared object of one kernel, linked to the runtime beside it."""
    runtime = build_runtime(ucontext)
    flags = (*_KERNEL_FLAGS, *_CHECKS) if check else _KERNEL_FLAGS
    if not check and len(cpp) > _LONG:
        flags = (*flags, "-O0")
    header = _build_header(flags)

    def arguments(scratch: Path, _name: str) -> list[str]:
        unit = scratch / "kernel.cu"
        unit.write_text(cpp)
        # Where the compiler will not have the parsed header, it finds the text in the next folder.
        includes = ["-I", str(header.parent), "-I", str(_RUNTIME), "-include", "device.h"]
        # Without the default libraries the sanitizers' own runtimes stay out, and linking is
        # quick; what a kernel needs of the C library comes with the executor's object.
        linked = [str(runtime), "-nostdlib", "-Wl,-rpath,$ORIGIN"]
        return [*includes, "-x", "c++", str(unit), "-x", "none", *linked]

    # With the runtime's name, an object never meets another version of it.
    return _build("kernel-{}.so", f"{runtime.name}\n{cpp}", flags, arguments)


def build_many(sources: list[str], check: bool = True, jobs: int | None = None) -> list[Path]:
    """Several kernels, `jobs` at a time (all processors when left out)."""
    build_runtime()
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda cpp: build_kernel(cpp, check), sources))


def _build_header(flags: tuple[str, ...]) -> Path:
    """What every kernel includes, parsed: that took a third of the time of a small kernel."""
    header = str(_RUNTIME / "device.h")
    flags = tuple(flag for flag in flags if flag not in _LINK_FLAGS)

    def arguments(_scratch: Path, _name: str) -> list[str]:
        return ["-x", "c++-header", header]

    return _build("device-{}/device.h.gch", f"{header}\n{_runtime_text()}", flags, arguments)


def _build(
    name: str,
    key: str,
    flags: tuple[str, ...],
    arguments: Callable[[Path, str], list[str]],
) -> Path:
    try:
        return built(f"{KIND}/{name}", key, flags, arguments)
    except Refusal as refusal:
        raise SimtError(
            "the C++ compiler refused the kernel (lines are those of the CUDA source):\n  "
            + "\n  ".join(refusal.lines())
        ) from None
